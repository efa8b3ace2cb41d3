/* Where the time of a step goes: what tasks took, by class, beside what was predicted.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_PROFILE_H
#define FF_RUN_PROFILE_H

#include "ff/executor.h"
#include "ff/task_class.h"

struct ff_profile {
	struct ff_task_classes classes;
	uint64_t n, cap;     /* steps whose tasks were timed; at most */
	double *us;          /* [step][class], of this rank's devices */
	double *measured_us; /* by class: the median over those steps, all devices together */
};

/* For at most `steps` steps; of 0 there is nothing to do. */
int ff_profile_create(const struct ff_schedule *s, uint64_t steps, struct ff_arena *a,
		struct ff_profile *ret, struct ff_error *err);
/* Takes the step that `x` has just traced. */
void ff_profile_add(struct ff_profile *p, const struct ff_executor *x);
/* All ranks call together when the last step is over. */
int ff_profile_gather(struct ff_profile *p, struct ff_comm *comm, struct ff_arena *a,
		struct ff_error *err);

/* report_tasks.c: a table of the terms that are furthest off, or, without a prediction, largest;
 * and all of them in a report.  `info` is the strategy's, `step_us` the measured step on `devices`
 * devices. */
int ff_report_tasks(const struct ff_profile *p, const struct ff_strategy_info *info, double step_us,
		uint32_t devices, struct ff_error *err);
void ff_report_write_tasks(
		const struct ff_profile *p, const struct ff_strategy_info *info, struct ff_out *o);

#endif
