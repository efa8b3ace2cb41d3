/* The critical path of a step: what it would end sooner without.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_PLANNER_CRITICAL_H
#define FF_PLANNER_CRITICAL_H

#include "layers.h"
#include "timed_plan.h"

enum ff_critical_kind {
	FF_CRITICAL_COMPUTE, /* and updates */
	FF_CRITICAL_MEMORY,  /* copies on one device */
	FF_CRITICAL_INSIDE,  /* links between devices of a node */
	FF_CRITICAL_NETWORK, /* between nodes */
	FF_CRITICAL_SLOWED,  /* what transfers take from what is computed beside them */
	FF_CRITICAL_KINDS
};
const char *ff_critical_kind_name(enum ff_critical_kind k); /* "compute", "network" */

/* Tasks of the path that do the same in one layer. */
struct ff_critical_part {
	enum ff_critical_kind kind;
	const char *what; /* "block0-47.mlp.fc1 forward", "gradient all-reduce" */
	uint32_t tasks;
	double us;
};

/* From the step's end back: before each task what ended last of all that it waits for, its
 * dependencies and those before it on its lanes.  All parts add up to the step, exactly. */
struct ff_critical {
	uint32_t n;
	struct ff_critical_part *part; /* by falling us */
	double us[FF_CRITICAL_KINDS];
};

/* All memory from `a`. */
int ff_critical_find(const struct ff_plan *p, const struct ff_layers *l, struct ff_arena *a,
		struct ff_critical *ret, struct ff_error *err);

#endif
