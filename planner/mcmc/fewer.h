/* Starts on fewer devices than there are.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_FEWER_H
#define FF_PLANNER_FEWER_H

#include "chain.h"

/* A look at data parallelism on the first node alone: over a slow network little is faster. */
int ff_chain_look_at_node(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);
/* A look at plain starts, elimination and the grid on the first node, on half of it and so on, as
 * far as data parallelism is the faster the fewer devices it has.  Small batches are launches and
 * latency, and from all devices no change of a few operators leads there. */
int ff_chain_look_at_fewer(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);

/* A look at branches side by side, each on some of the devices, or of the first node's where data
 * parallelism is faster there. */
int ff_chain_look_at_branches(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);

/* starts.c: makes a start current that was made with `code`, with the buckets that are best for it;
 * `why` says what is wrong, and one that is not for this space is left out. */
int ff_chain_go_to_made(struct ff_chain *c, int code, struct ff_strategy *s,
		const struct ff_error *why, struct ff_error *err);
/* starts.c: what elimination finds in `space`, of this chain's graph and machine. */
int ff_chain_eliminate(struct ff_chain *c, const struct ff_space *space, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err);
/* starts.c: the best of the grid by hand on `m`, of those it has time for; *found false: none fits.
 */
int ff_chain_find_by_hand(struct ff_chain *c, const struct ff_space *space,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err);

#endif
