/* Weights for which the weighted bound is high.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SPACE_RAISE_H
#define FF_SPACE_RAISE_H

#include "../check/weighted.h"

/* All memory from `a`; `ret` may stay when `w` goes.  Stops early where `stop` says so: what it has
 * then is a bound, too. */
int ff_weights_raise(struct ff_weighted *w, bool (*stop)(void *ctx), void *ctx, struct ff_arena *a,
		struct ff_weights *ret, double *us, struct ff_error *err);
/* Which strategies a bound is of, by which prices. */
struct ff_bounded {
	const struct ff_graph *graph;
	uint32_t micro_batches;
	const struct ff_machine *machine;
	struct ff_pricer *pricer;
	bool (*stop)(void *ctx); /* as of ff_lower_bound */
	void *ctx;
};

/* As ff_lower_bound; also the weights that it rests on, where *us is no NAN.  Memory from `a`. */
int ff_lower_bound_weights(const struct ff_bounded *b, struct ff_arena *a,
		struct ff_weights *weights, double *us, struct ff_error *err);

#endif
