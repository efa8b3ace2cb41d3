/* The best strategies of a chain's runs, from one restart to the next.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_PLANNER_ELITE_H
#define FF_PLANNER_ELITE_H

#include "pool.h"

#define FF_ELITE 4

struct ff_elite {
	struct ff_strategy best[FF_ELITE]; /* the better ones first */
	struct ff_evaluation at[FF_ELITE];
	uint32_t n;
};

/* Strategies of `g`, in memory from `a`. */
int ff_elite_init(struct ff_elite *e, const struct ff_graph *g, struct ff_arena *a,
		struct ff_error *err);
/* Copies `s`, which costs `at`, unless there are enough that are better. */
void ff_elite_add(struct ff_elite *e, const struct ff_strategy *s, struct ff_evaluation at);

#endif
