/* When ranks' tasks ran, all on the clock of rank 0.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUN_TIMING_H
#define FF_RUN_TIMING_H

#include "ff/trace.h"
#include "process/clocks.h"

struct ff_timing {
	bool begun, ended;
	struct ff_clock_line own;
	struct ff_clock_line *line; /* by rank */
	uint32_t n_ranks;
};

/* A rank's tasks in one step, from when its clock showed origin_us. */
struct ff_timed_step {
	double origin_us;
	const struct ff_span *spans;
	uint32_t n;
};

/* All ranks call together: before the first step whose tasks are timed, again does nothing; and
 * after the last, where it was begun. */
int ff_timing_begin(struct ff_timing *t, struct ff_comm *comm, struct ff_error *err);
int ff_timing_end(struct ff_timing *t, struct ff_comm *comm, struct ff_arena *a,
		struct ff_error *err);
/* Two tasks of different ranks are not farther off than this; 0: there is one rank. */
double ff_timing_bound(const struct ff_timing *t);

/* All ranks call together, behind ff_timing_end: the spans of all ranks in the step of which `own`
 * are this one's.  Their times begin with the first rank's that began the step.  Memory from `a`.
 */
int ff_timing_gather(const struct ff_timing *t, struct ff_comm *comm,
		const struct ff_timed_step *own, struct ff_arena *a, struct ff_span **all,
		uint32_t *n_all, struct ff_error *err);

#endif
