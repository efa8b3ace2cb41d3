/* What a step's time goes to, in the mean of all devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_TIMES_H
#define FF_PLANNER_TIMES_H

#include "timed_plan.h"

/* Every moment of every device is of one of these, so that they add up to the step. */
enum ff_time_class {
	FF_TIME_PRODUCT,
	FF_TIME_CONVOLUTION,
	FF_TIME_ATTENTION,
	FF_TIME_RECURRENCE,
	FF_TIME_NORM,
	FF_TIME_MEMORY,  /* kernels bound by memory: elementwise, softmax, pools, lookups */
	FF_TIME_AGAIN,   /* whatever is computed again for backward */
	FF_TIME_UPDATE,  /* and norms of gradients, and gradients that wait */
	FF_TIME_COPIES,  /* within a device's memory, and of data to it, beside nothing */
	FF_TIME_EXPOSED, /* communication that nothing is computed beside */
	FF_TIME_IDLE,    /* neither: bubbles, and waits for other devices */
	FF_TIME_COUNT
};
const char *ff_time_class_name(enum ff_time_class c); /* "product" */

struct ff_times {
	double us[FF_TIME_COUNT]; /* a device's, in the mean */
	double compute_us;        /* of these all before exposed communication */
	double communication_us;  /* with other devices, exposed or not */
	double *node_us;          /* by node: computing it, all passes, a device's in the mean */
};

/* All memory from `a`. */
int ff_times_find(const struct ff_plan *p, struct ff_arena *a, struct ff_times *ret,
		struct ff_error *err);
/* Of the kernels of `node`, the class of what takes longest to compute. */
enum ff_time_class ff_time_class_of(const struct ff_graph *g, uint32_t node);

#endif
