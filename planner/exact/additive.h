/* The step time as a sum over operators and edges, each priced by itself, and the
 * strategy that is best under it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ADDITIVE_H
#define FF_PLANNER_ADDITIVE_H

#include "eliminate.h"
#include "ff/price.h"
#include "space/space.h"

struct ff_additive;

/* What is searched; `stop` is asked now and then, NULL never says so. */
struct ff_elimination {
	const struct ff_space *space;
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	struct ff_pricer *pricer;
	bool (*stop)(void *ctx);
	void *ctx;
};

/* Prices all candidates of the space.  When it is stopped it ends with FF_OK and *ret NULL. */
int ff_additive_create(
		const struct ff_elimination *of, struct ff_additive **ret, struct ff_error *err);
void ff_additive_destroy(struct ff_additive *a);

/* What the sum is made of. */
struct ff_additive_weights {
	double sync;        /* share of weight synchronisation that compute does not hide */
	double us_per_byte; /* price of memory on the fullest device of each operator */
};
/* The strategy with the least sum, all memory from `to`. */
int ff_additive_solve(struct ff_additive *a, const struct ff_additive_weights *w,
		struct ff_arena *to, struct ff_strategy *ret, struct ff_error *err);

#endif
