/* Regular plans: equal layers that are split alike.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ALIKE_H
#define FF_PLANNER_ALIKE_H

#include "ff/evaluate.h"
#include "ff/space.h"

struct ff_alike {
	struct ff_evaluator *evaluator; /* left with another strategy */
	const struct ff_space *space;   /* whose limits hold */
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	double percent;          /* that a step may take longer, all changes together, */
	double most_us;          /* and what it may take; 0: anything */
	uint64_t most;           /* strategies that are tried, at most; 0: any number */
	bool (*stop)(void *ctx); /* asked between two that are tried; NULL: never */
	void *ctx;
};

/* Makes equal layers of `s` alike where that costs no more: all blocks (repeats.h) like one of
 * them, relative to the devices of their stage; if that costs too much, what is in the same place
 * of each block; at last other equal operators.  Before that nothing is recomputed, and without
 * micro-batches all are in one stage, if that costs no more.  *at: its evaluation, before and
 * after, which fits. Memory from `a`. */
int ff_alike_make(const struct ff_alike *r, struct ff_arena *a, struct ff_strategy *s,
		struct ff_evaluation *at, struct ff_error *err);

/* How many operators and parameters of `s` are not as most in their place are. */
int ff_alike_count(const struct ff_graph *g, const struct ff_strategy *s, struct ff_arena *a,
		uint32_t *ret, struct ff_error *err);

#endif
