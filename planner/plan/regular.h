/* The regular plan that is nearest to a plan: degrees of tensor, data and pipeline parallelism.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_REGULAR_H
#define FF_PLANNER_REGULAR_H

#include "hand/megatron.h"

/* What a tool can do. */
struct ff_regular_limits {
	bool tensor, pipeline, context;
	/* FF_MEGATRON_ZERO_*, the furthest that goes with each of them */
	uint32_t tensor_updates, pipeline_updates;
	bool blocks;     /* some of a stage are recomputed, and others not */
	uint32_t chunks; /* of the interleaved order, at most; 0: none */
	bool zb_v;       /* that order */
	bool hybrid;     /* updates are cut over groups of devices */
};

struct ff_regular {
	struct ff_megatron h;
	struct ff_strategy strategy;
	double alike; /* of the network's FLOPs, the share in operators that are cut as the plan's
		       */
	/* Blocks of each stage, where stages have not equally many; NULL: they have, or the network
	 * repeats none. */
	const uint32_t *blocks;
	uint32_t n_stages;
};

/* *found false: no regular plan is for this network and machine.  Memory from `a`. */
int ff_regular_find(const struct ff_graph *g, const struct ff_machine *m,
		const struct ff_strategy *plan, const struct ff_regular_limits *limits,
		struct ff_arena *a, struct ff_regular *ret, bool *found, struct ff_error *err);
/* What --simulate calls it. */
void ff_regular_name(const struct ff_megatron *h, char *buf, size_t size);

#endif
