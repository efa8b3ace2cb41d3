/* Exact minimum of a sum of costs, each of one or two choices.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ELIMINATE_H
#define FF_PLANNER_ELIMINATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"
#include "least.h"

/* What two variables cost together: cost[choice of a * choices of b + choice of b]. */
struct ff_pair {
	uint32_t a, b;      /* a != b; the same two may occur again */
	const double *cost; /* the same array of equal pairs: what follows of it is found once */
};
struct ff_choices {
	uint32_t n_vars, n_pairs;
	const uint32_t *n;         /* by variable: how many choices, >= 1 */
	const double *const *cost; /* by variable, by choice */
	const struct ff_pair *pair;
};

/* What `choice` costs. */
double ff_choices_cost(const struct ff_choices *c, const uint32_t *choice);

/* Writes the choices whose sum is least.  Variables are eliminated one by one, the
 * one that leaves the smallest table of its neighbours first: leaves and nodes with
 * two neighbours (what OptCNN eliminates) cost little.  Where every table would have
 * more than `max_table` entries, the variable with most neighbours keeps what `choice`
 * says on entry and the rest is solved around it; `sweeps` such rounds, each with
 * others kept, never make the sum worse.  `stop` (or NULL) ends it early, behind the
 * first sweep: `choice` is what the last whole one left.  *exact: nothing had to be kept. */
int ff_choices_minimise(const struct ff_choices *c, size_t max_table, uint32_t sweeps,
		bool (*stop)(void *ctx), void *ctx, uint32_t *choice, bool *exact,
		struct ff_error *err);

#endif
