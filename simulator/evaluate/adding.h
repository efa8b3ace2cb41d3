/* Backward that adds to gradients.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ADDING_H
#define FF_SIMULATOR_ADDING_H

#include "trial.h"

/* What step `s` of backward takes where it adds to gradients, of its parameters or of its data;
 * NULL: it adds to none.  Buckets are gathered. */
int ff_adding_find(struct ff_trial *e, const struct ff_step *s, const struct ff_memo_adding **ret,
		struct ff_error *err);

#endif
