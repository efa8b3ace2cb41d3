/* Elimination: a strategy by prices of operators and edges one by one (docs/search.md).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ELIMINATION_H
#define FF_PLANNER_ELIMINATION_H

#include "additive.h"
#include "ff/evaluate.h"

/* Of the strategies that are best for some weights of the sum (additive.h) the one that `e` finds
 * the fastest to fit; e's current strategy is another afterwards.  Where it is stopped *found may
 * be false.  All memory from `a`. */
int ff_search_eliminate(const struct ff_elimination *of, struct ff_evaluator *e, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err);

#endif
