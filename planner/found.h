/* Results of a search besides its plan.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_FOUND_H
#define FF_PLANNER_FOUND_H

#include <stdio.h>

#include "ff/search.h"

#define FF_MOST_TOP 16 /* plans of different shapes, the plan itself among them */

struct ff_found {
	bool no_time;          /* the budget was over before the first proposal */
	struct ff_seeds seeds; /* n 0: none found a plan that fits */
	double reserve;        /* --reserve: percent of memory that stays free */
	bool used_reserve;     /* the plan uses the reserve, as nothing fits without it */
	bool needed_reserve;   /* data parallelism fits only with the reserve */
	double first_s;        /* seconds after the start until a plan fitted; 0: never */
	double ragged_us;      /* the best plan before it was made regular; 0: it is the plan */
	double whole_us;   /* --space torch: the best plan without the limits; 0: not searched */
	uint32_t n_ragged; /* operators and parameters split unlike most of their kind */
	uint32_t n_others; /* --top: plans of other shapes that were written, */
	double other_us[FF_MOST_TOP]; /* and their steps */
};

/* `us` is the plan's step. */
void ff_found_print(const struct ff_found *f, double us, FILE *to);
/* Members of the report. */
void ff_found_write(const struct ff_found *f, struct ff_out *o);

#endif
