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
	double *comm_us;        /* by device: the moves that it takes part in */
	/* How much of the step was inferred from other kinds of devices: of the device where that
	 * is most. */
	struct ff_inferred inferred;
};

/* start = max(finish of its dependencies, free time of its lanes); finish = start + price. */
int ff_simulate(const struct ff_schedule *s, struct ff_pricer *p, struct ff_arena *a,
		struct ff_simulation *ret, struct ff_error *err);

/* A span for each task and each of its devices, for ff_trace_write. */
int ff_simulation_spans(const struct ff_schedule *s, const struct ff_simulation *sim,
		struct ff_arena *a, struct ff_span **spans, uint32_t *n, struct ff_error *err);

/* The step by class of task (ff/task_class.h), summed over devices.  A device waits for a task from
 * the moment its lane is free and its own inputs are ready until the task starts. */
int ff_simulation_classes(const struct ff_schedule *s, const struct ff_simulation *sim,
		struct ff_arena *a, const struct ff_class_time **classes, uint32_t *n,
		struct ff_error *err);

#endif
