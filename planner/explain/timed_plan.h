/* One strategy, lowered and timed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_TIMED_PLAN_H
#define FF_PLANNER_TIMED_PLAN_H

#include "bytes.h"
#include "ff/simulate.h"

struct ff_plan {
	struct ff_strategy strategy;
	/* Its memory, and its tasks; without buffers, unless --html was asked for.  Where it is
	 * only compared with, or the host lacks memory for them, without tasks. */
	struct ff_schedule schedule;
	struct ff_held held;
	struct ff_simulation simulation;
	double peak_flops_per_s; /* of all devices together, as prices know them */
	uint32_t short_device;   /* first whose memory does not do; FF_NONE: it fits */
	int64_t short_limit;     /* what that device has */
};

static inline bool ff_plan_fits(const struct ff_plan *p)
{
	return p->short_device == FF_NONE;
}

#endif
