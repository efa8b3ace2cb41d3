/* A grid of strategies as people write them by hand, and the best of it that fits.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_GRID_H
#define FF_PLANNER_GRID_H

#include "places.h"

struct ff_grid {
	struct ff_evaluator *evaluator; /* left with another strategy */
	const struct ff_space *space;
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	bool fill;       /* memory that recomputing all blocks leaves is used, as no search goes on
			  * from what is found: that needs some to trade */
	bool samples;    /* nothing but samples is split: what data parallelism comes to
			  * where it lacks memory */
	bool whole;      /* all of it is tried, also what is seldom good */
	uint32_t most;   /* strategies that are tried, at most; 0: any number */
	double known_us; /* a step that is known: what takes as long is not wanted; 0: none is */
	/* Asked between two that are tried: whether `share` of the time for all is over; NULL:
	 * never
	 */
	bool (*stop)(void *ctx, double share);
	/* Whether there is time to lay out a strategy in so many micro-batches; NULL: always. */
	bool (*may_lay_out)(void *ctx, const struct ff_strategy *s);
	void (*begins)(void *ctx); /* told when something fits; NULL: nobody is */
	/* Told of all that fits; NULL: nobody is. */
	void (*visit)(void *ctx, const struct ff_strategy *s, double step_us);
	void *ctx;
};

/* Tries updates and weights shared out (ZeRO), micro-batches and recomputation, and unless
 * `samples` degrees of tensor, sequence, expert and pipeline parallelism, and if `fill` how few
 * blocks have to be recomputed.  *found false: nothing fits; else `ret` is the strategy of the
 * shortest step and `name` what --simulate calls it. Memory from `a`. */
int ff_grid_find(const struct ff_grid *grid, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err);

#endif
