/* What a search tells beside its plan.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_FOUND_H
#define FF_PLANNER_FOUND_H

#include <stdio.h>

#include "ff/search.h"

#define FF_MOST_TOP 16 /* plans of different shapes, the plan itself among them */

struct ff_found {
	bool no_time;          /* the budget was over before the first proposal */
	struct ff_seeds seeds; /* n 0: none found a plan that fits */
	double reserve;        /* percent of memory that stays free, as asked for; */
	bool used_reserve;     /* nothing fits so, and the plan does without, */
	bool needed_reserve;   /* as data parallelism does without it alone */
	double first_s;        /* into the command, until there was a plan that fits; 0: never */
	double ragged_us; /* the best plan before equal layers were made equal; 0: it is the plan */
	double whole_us;  /* the best found without --space torch; 0: not asked */
	uint32_t n_ragged;            /* operators and parameters unlike most in their place */
	uint32_t n_others;            /* plans of other shapes that were written, */
	double other_us[FF_MOST_TOP]; /* and their steps */
};

/* `us` is the plan's step. */
void ff_found_print(const struct ff_found *f, double us, FILE *to);
/* Members of the report. */
void ff_found_write(const struct ff_found *f, struct ff_out *o);

#endif
