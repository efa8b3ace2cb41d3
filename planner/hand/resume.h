/* Plans for another batch, machine or number of devices, as starts.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_RESUME_H
#define FF_PLANNER_RESUME_H

#include "ff/json.h"
#include "space/space.h"

/* What became of a plan. */
struct ff_resumed {
	uint32_t kept;    /* operators that are split as it says, on as large a share of devices */
	uint32_t unnamed; /* that it does not name: */
	uint32_t unfit;   /* whose split or devices do not fit here: these are split by sample */
	uint32_t less;    /* of those that are kept: cut less often than it says */
	uint32_t unknown; /* that it names, and the graph does not have */
	uint32_t devices[2], micro[2]; /* there, here */
};

/* Makes a strategy for `g` on the machine of `s` from the plan in `path`, by names of operators and
 * of their dims (space/carry_config.h).  Micro-batches are as many, which with `any_micro` need
 * be no number that the space has, or of those that it has the most below with which most splits
 * fit.  All else is as it was.  Memory from `a`. */
int ff_resume_load(const char *path, const struct ff_space *s, const struct ff_graph *g,
		bool any_micro, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_resumed *told, struct ff_error *err);
/* What could not be carried over, in words; "" where that is nothing. */
void ff_resumed_tell(const struct ff_resumed *c, size_t size, char *text);

#endif
