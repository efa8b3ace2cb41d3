/* The current strategy in another order.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_REORDER_H
#define FF_SIMULATOR_REORDER_H

#include "trial.h"

/* The current strategy with other priorities, as ff_trial_propose. */
int ff_trial_reorder(struct ff_trial *e, const int32_t *priority, double limit_us, bool *slower,
		struct ff_evaluation *ret, struct ff_error *err);

#endif
