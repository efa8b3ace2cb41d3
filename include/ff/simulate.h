/* Simulation of a whole schedule: one longest-path pass over its tasks in
 * issue order.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATE_H
#define FF_SIMULATE_H

#include "ff/price.h"
#include "ff/schedule.h"
#include "ff/strategy_info.h"
#include "ff/trace.h"

struct ff_simulation {
	double step_us;         /* the last task's finish */
	double *start, *finish; /* by task */
	double *compute_us;     /* by device: forward, backward and update */
	double *comm_us;        /* by device: moves and syncs it takes part in */
	/* What of the step rests on no measurement of such devices: of the device that computes so
	 * for longest. */
	struct ff_inferred inferred;
};

/* A task starts when all it depends on and all its lanes are free:
 * start = max(finish of deps, free of lanes), finish = start + price. */
int ff_simulate(const struct ff_schedule *s, struct ff_pricer *p, struct ff_arena *a,
		struct ff_simulation *ret, struct ff_error *err);

/* One span for each task and device that it occupies; for ff_trace_write. */
int ff_simulation_spans(const struct ff_schedule *s, const struct ff_simulation *sim,
		struct ff_arena *a, struct ff_span **spans, uint32_t *n, struct ff_error *err);

/* What the step is made of: by class of task (ff/task_class.h), all devices together.  A device
 * waits for a task from when its lane is free and all that the task needs of this device is done,
 * to when the task starts. */
int ff_simulation_classes(const struct ff_schedule *s, const struct ff_simulation *sim,
		struct ff_arena *a, const struct ff_class_time **classes, uint32_t *n,
		struct ff_error *err);

#endif
