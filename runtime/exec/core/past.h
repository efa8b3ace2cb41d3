/* What steps leave behind.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_PAST_H
#define FF_EXEC_PAST_H

#include "state.h"

/* What a pass of a step of this parity left behind: its scores, in pinned memory or (NULL)
 * as jobs have them, what counted in it by loss, its time. */
int ff_executor_keep(struct ff_executor *x, bool training, uint32_t parity, const float *pinned,
		const int64_t *valid, double us, struct ff_error *err);

#endif
