/* A grid of strategies as people write them by hand, and the best of it that fits.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_GRID_H
#define FF_PLANNER_GRID_H

#include "places.h"

struct ff_grid {
	struct ff_evaluator *evaluator; /* its current strategy changes */
	const struct ff_space *space;
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	bool fill;     /* recompute only as many blocks as memory needs; not for a search that goes
			* on from the result, which needs memory to trade */
	bool samples;  /* split only samples: data parallelism that fits */
	bool whole;    /* try all places, also those that are seldom good */
	uint32_t most; /* the most strategies to try; 0: no limit */
	double known_us; /* a known step: only faster strategies are wanted; 0: none */
	/* Called between strategies: whether `share` of the time is used up; NULL: never. */
	bool (*stop)(void *ctx, double share);
	/* Whether there is time to lay out this strategy in memory; NULL: always. */
	bool (*may_lay_out)(void *ctx, const struct ff_strategy *s);
	/* Whether that time is about to end; NULL: never. */
	bool (*must_lay_out)(void *ctx, const struct ff_strategy *s);
	void (*begins)(void *ctx); /* called when a strategy fits for the first time; or NULL */
	/* Called for each strategy that fits; or NULL. */
	void (*visit)(void *ctx, const struct ff_strategy *s, double step_us);
	void *ctx;
};

/* Tries ZeRO 1 to 3, micro-batches and recomputation; unless `samples` also degrees of tensor,
 * sequence, context, expert and pipeline parallelism; with `fill` also how few blocks must be
 * recomputed. *found false: nothing fits.  Else `ret` is the fastest strategy, and `name` its name
 * for --simulate. Memory from `a`. */
int ff_grid_find(const struct ff_grid *grid, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err);

#endif
