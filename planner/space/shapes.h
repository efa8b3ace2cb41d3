/* Plans of different shapes: the best of each.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SHAPES_H
#define FF_PLANNER_SHAPES_H

#include "ff/evaluate.h"
#include "ff/strategy.h"

/* Plans are of one shape if they have as many micro-batches and stages, and nine tenths of the
 * arithmetic and nine tenths of the parameters are split, recomputed and updated alike, wherever
 * that is. */
struct ff_shapes {
	const struct ff_graph *graph;
	double *weight; /* by node: share of the arithmetic, or of the parameters */
	uint32_t n, most;
	struct ff_strategy *plan; /* the better ones first; `most` have room */
	double *step_us;
};

/* Room for the best plans of `most` shapes of `g`, in memory from `a`. */
int ff_shapes_init(struct ff_shapes *s, const struct ff_graph *g, uint32_t most, struct ff_arena *a,
		struct ff_error *err);
/* Copies `plan`, which takes `step_us`, unless there is a better one of its shape, or `most` of
 * others. */
void ff_shapes_add(struct ff_shapes *s, const struct ff_strategy *plan, double step_us);
bool ff_shapes_equal(const struct ff_shapes *s, const struct ff_strategy *a,
		const struct ff_strategy *b);

#endif
