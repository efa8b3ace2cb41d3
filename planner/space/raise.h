/* Weights for which the weighed bound is high.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SPACE_RAISE_H
#define FF_SPACE_RAISE_H

#include "../check/weighed.h"

/* All memory from `a`.  Stops early where `stop` says so: what it has then is a bound, too. */
int ff_weights_raise(struct ff_weighed *w, bool (*stop)(void *ctx), void *ctx, struct ff_arena *a,
		struct ff_weights *ret, double *us, struct ff_error *err);

#endif
