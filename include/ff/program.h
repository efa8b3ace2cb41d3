/* The program of a training step: what is done in which order, operator by operator,
 * however each is split.  It is the one walk over the graph: ff_lower makes tasks of
 * its steps, the simulator's evaluator times them, the account of memory numbers
 * them.  docs/schedule.md tells the order and why.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROGRAM_H
#define FF_PROGRAM_H

#include "ff/work.h"

enum ff_step_kind {
	FF_STEP_MOVES,   /* redistribution at edge `id`: values forward, gradients backward */
	FF_STEP_COMPUTE, /* all parts of node `id` */
	FF_STEP_SYNC,    /* buckets whose gradients node `id` completes */
	FF_STEP_UPDATE,  /* all buckets */
};
struct ff_step {
	enum ff_step_kind kind;
	enum ff_pass pass;
	uint32_t id;
};

struct ff_program {
	uint32_t n;
	const struct ff_step *step;
};

/* `order` are the nodes in issue order.  Memory from `a`. */
int ff_program_build(const struct ff_graph *g, const uint32_t *order, struct ff_arena *a,
		struct ff_program *ret, struct ff_error *err);
/* The most steps that a program of `g` has. */
uint32_t ff_program_bound(const struct ff_graph *g);

#endif
