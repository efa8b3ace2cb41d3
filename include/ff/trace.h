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

/* One process a device, one thread a lane.  `title` names the timeline. */
void ff_trace_write(const struct ff_schedule *s, const char *title, const struct ff_span *spans,
		uint32_t n, struct ff_out *o);

#endif
