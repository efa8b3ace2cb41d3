/* Classes of tasks by what they do, over all nodes.  They compare a predicted step with a measured
 * one.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TASK_CLASS_H
#define FF_TASK_CLASS_H

#include "ff/schedule.h"
#include "ff/trace.h"

struct ff_task_classes {
	uint32_t n;
	const char **name; /* by class: "conv2d backward", "all-gather forward", "update" */
	uint32_t *runs;    /* by class: its tasks, each counted once a device that takes part */
	uint32_t *of;      /* by task */
};

/* In the order of their first tasks, so the same on every rank.  All memory from `a`. */
int ff_task_classes_of(const struct ff_schedule *s, struct ff_arena *a, struct ff_task_classes *ret,
		struct ff_error *err);
/* Adds what `n` spans took to us[class], microseconds. */
void ff_task_classes_add(const struct ff_task_classes *c, const struct ff_span *spans, uint32_t n,
		double *us);
/* Adds to us[class] the time that devices waited for each other in tasks of several devices.
 * `spans`: those of all devices in one step, on one clock.  A device waits from its own start to
 * the last start of another device before its own end; the rest of its span is transfer.  `scratch`
 * is rewound. */
int ff_task_classes_wait(const struct ff_task_classes *c, const struct ff_span *spans, uint32_t n,
		struct ff_arena *scratch, double *us, struct ff_error *err);

#endif
