/* Starts whose branches run side by side.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_BRANCHES_H
#define FF_PLANNER_BRANCHES_H

#include "ff/price.h"
#include "ff/strategy.h"

/* Groups of so many devices in a row, which they divide: every groups-th, so that what goes from
 * one group to another stays in a node. */
struct ff_branches {
	uint32_t first, devices, groups;
	bool together; /* what nothing runs beside may be on all of them */
};

/* Every operator by sample on one of the groups.  Operators are placed one after another where they
 * are done first (Topcuoglu, Hariri, Wu, IEEE Transactions on Parallel and Distributed Systems
 * 2002).  *us: when all are done, by prices of operators and of what moves alone; to be compared
 * with the same in one group. */
int ff_start_branches(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		const struct ff_branches *on, struct ff_arena *a, struct ff_strategy *ret,
		double *us, struct ff_error *err);

#endif
