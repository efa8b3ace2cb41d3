/* Where passes over two strategies that differ in buckets alone may go on alike (rejoin.c).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_REJOIN_STATE_H
#define FF_SIMULATOR_REJOIN_STATE_H

#include "../pass.h"

/* Between these two steps of a program nothing is done with parameters: behind the first
 * micro-batch's forward, and before the first gradient of one is synchronised or brought to it. */
enum ff_rejoin_end { FF_REJOIN_FROM, FF_REJOIN_TO, FF_REJOIN_ENDS };
struct ff_rejoin_plan {
	uint32_t at[FF_REJOIN_ENDS]; /* steps; FF_NONE: no pass is left out */
	/* What is computed before such a step, and may be asked for behind it. */
	struct ff_rejoin_read {
		struct ff_timed_node *node;
		uint32_t micro, step; /* the step that asks */
	} * read[FF_REJOIN_ENDS];
	uint32_t n_read[FF_REJOIN_ENDS], cap_read[FF_REJOIN_ENDS];
	/* Edges over which what is there from the start is moved behind the first of them, and how
	 * often. */
	struct ff_rejoin_brings {
		uint32_t edge, times;
	} * brings;
	uint32_t n_brings, cap_brings;
};

/* All that the rest of a pass reads of the steps before, but for what has arrived at parameters:
 * that is read at the end alone. */
struct ff_rejoin_state {
	bool taken;
	struct ff_arena arena; /* of the times */
	double *lane, *idle, *limited;
	struct ff_saved *saved; /* `ready`: what has arrived; else what was computed */
	uint32_t n_saved, cap_saved;
};

struct ff_rejoining {
	bool may; /* the pass is of a proposal that changes no blocks but those of parameters */
	uint32_t at, end; /* the step at which the pass asks again, and which of the two it is */
	struct ff_rejoin_state now[FF_REJOIN_ENDS], next[FF_REJOIN_ENDS]; /* as struct ff_early's */
	double *more;      /* by device: for how much longer it has been idle */
	uint64_t n_folded; /* steps that passes left out */
};

#endif
