/* Timelines in Chrome/Perfetto trace JSON, of predictions and of executions.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TRACE_H
#define FF_TRACE_H

#include "ff/schedule.h"

/* When one device ran one task, in microseconds from the step's start. */
struct ff_span {
	uint32_t task, device;
	double start_us, finish_us;
};

/* A short name for a task: "conv1 forward", "fc1 all-gather", "sync bucket 2". */
void ff_task_label(const struct ff_schedule *s, uint32_t task, char *buf, size_t size);

/* The lane in which a timeline shows a task.  Communication has a lane of its own even without
 * overlap; with overlap, copies within a device are on the compute lane. */
enum ff_lane_class ff_trace_lane(const struct ff_schedule *s, const struct ff_task *t);
const char *ff_trace_lane_name(enum ff_lane_class lane);

/* One of several timelines of the same schedule. */
struct ff_timeline {
	const char *name; /* of its devices: "predicted" */
	const struct ff_span *spans;
	uint32_t n;
};

/* trace_groups.c: devices whose timelines and memory are equal. */
struct ff_trace_groups {
	uint32_t n;
	uint32_t *first;      /* by group: its first device */
	uint32_t *of;         /* by device: its group */
	uint64_t *spans;      /* by group: of one device */
	const char **devices; /* by group: "0-7,16" */
};

/* Of devices on all timelines.  Memory from `a`. */
int ff_trace_group(const struct ff_schedule *s, const struct ff_timeline *timeline,
		uint32_t n_timelines, struct ff_arena *a, struct ff_trace_groups *ret,
		struct ff_error *err);

/* How the times of a rank came onto the clock of the first (runtime/process/clocks.h). */
struct ff_trace_clock {
	double offset_us, drift, bound_us; /* bound: of the error */
};
/* Timelines side by side, and the clocks of the first one's ranks.  Of several ranks "otherData"
 * has offset, drift (parts per million) and bound of each. */
struct ff_trace {
	const char *title;
	const struct ff_timeline *timeline;
	uint32_t n_timelines;
	const struct ff_trace_clock *clock; /* by rank */
	uint32_t n_clocks;
	/* Only the first device of each group is written; NULL: all devices are. */
	const struct ff_trace_groups *groups;
};
/* One process a device, one thread a lane.  `title` names the timeline. */
void ff_trace_write(const struct ff_schedule *s, const char *title, const struct ff_span *spans,
		uint32_t n, struct ff_out *o);
/* Process k * devices + d of the trace is device d of timeline k.  Processes of a device are shown
 * together. */
void ff_trace_write_beside(const struct ff_schedule *s, const struct ff_trace *t, struct ff_out *o);

/* trace_file.c: the spans of a trace with one timeline of `s`, by ff_trace_write, in the file's
 * order.  FF_E_INPUT names the place where it is none, or one of another schedule.  All memory
 * from `a`. */
int ff_trace_load(const char *path, const struct ff_schedule *s, struct ff_arena *a,
		const struct ff_span **spans, uint32_t *n, struct ff_error *err);

#endif
