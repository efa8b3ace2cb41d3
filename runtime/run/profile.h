/* Where the time of a step goes: what tasks took, by class, beside what was predicted.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_PROFILE_H
#define FF_RUN_PROFILE_H

#include "ff/executor.h"
#include "ff/strategy_file.h"
#include "ff/task_class.h"
#include "timing.h"

struct ff_profile {
	struct ff_task_classes classes;
	uint64_t n, cap; /* steps whose tasks were timed; at most */
	struct ff_timed_step *step;
	/* By class: medians over those steps, all devices together; of communication, what devices
	 * wait for each other in it is a part, and what they work the rest. */
	double *measured_us, *worked_us, *waited_us;
	double bound_us; /* of a wait's error: how far ranks' clocks may be apart */
};

/* For at most `steps` steps; of 0 there is nothing to do. */
int ff_profile_create(const struct ff_schedule *s, uint64_t steps, struct ff_arena *a,
		struct ff_profile *ret, struct ff_error *err);
/* Takes the step that `x` has just traced.  Memory from `a`. */
int ff_profile_add(struct ff_profile *p, const struct ff_executor *x, struct ff_arena *a,
		struct ff_error *err);
/* All ranks call together when the last step is over and the timing has ended. */
int ff_profile_gather(struct ff_profile *p, const struct ff_timing *timing, struct ff_comm *comm,
		struct ff_error *err);

/* report_tasks.c: in a sentence what a step that differs from the prediction owes most to, then a
 * table of the classes that are furthest off, or, without a prediction, largest; and all of them in
 * a report.  `info` is the strategy's, `step_us` what the profiled steps took on the devices of
 * `m`. */
int ff_report_tasks(const struct ff_profile *p, const struct ff_strategy_info *info, double step_us,
		const struct ff_machine *m, struct ff_error *err);
void ff_report_write_tasks(
		const struct ff_profile *p, const struct ff_strategy_info *info, struct ff_out *o);

#endif
