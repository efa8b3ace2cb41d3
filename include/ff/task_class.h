/* Tasks by what they do, wherever they stand in the graph: terms in which the prediction of a
 * step and its execution are set side by side.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TASK_CLASS_H
#define FF_TASK_CLASS_H

#include "ff/schedule.h"
#include "ff/trace.h"

struct ff_task_classes {
	uint32_t n;
	const char **name; /* by class: "conv2d backward", "all-gather forward", "update" */
	uint32_t *runs;    /* by class: its tasks, each as often as devices take part in it */
	uint32_t *of;      /* by task */
};

/* In the order of their first tasks, so the same on every rank.  All memory from `a`. */
int ff_task_classes_of(const struct ff_schedule *s, struct ff_arena *a, struct ff_task_classes *ret,
		struct ff_error *err);
/* Adds what `n` spans took to us[class], microseconds. */
void ff_task_classes_add(const struct ff_task_classes *c, const struct ff_span *spans, uint32_t n,
		double *us);
/* Adds to us[class] how long devices waited for each other in tasks of several: `n` spans of all
 * devices in one step, on one clock.  Each waits from its own start to that of the last other one
 * that started before it was done; what is left of its span it spends moving.  `scratch` gets back
 * what it gave. */
int ff_task_classes_wait(const struct ff_task_classes *c, const struct ff_span *spans, uint32_t n,
		struct ff_arena *scratch, double *us, struct ff_error *err);

#endif
