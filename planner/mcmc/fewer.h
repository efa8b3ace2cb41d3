/* Starts on fewer devices than there are.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_FEWER_H
#define FF_PLANNER_FEWER_H

#include "chain.h"

/* A start of that name for the first `n` devices, of several kinds of nodes for those from
 * notes.node on; FF_E_INPUT: there is none. */
int ff_chain_make_on(struct ff_chain *c, const char *name, uint32_t n, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);
/* How many devices there are on fewer nodes than `n` are on, from notes.node on: on half of them, a
 * quarter and so on; then on that node, and then half of `n`; 1: it is odd. */
uint32_t ff_chain_fewer(const struct ff_chain *c, uint32_t n);
/* A look at data parallelism on one node alone: over a slow network little is faster.  Of several
 * kinds of nodes the fastest is notes.node, below called the first. */
int ff_chain_look_at_node(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);
/* A look at plain starts, elimination and the grid on the few nodes where data parallelism is
 * fastest, and on the first node, on half of it and so on, as far as data parallelism is the faster
 * the fewer devices it has.  Small batches are launches and latency, sums over a slow network wait
 * for it, and from all devices no change of a few operators leads there. */
int ff_chain_look_at_fewer(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);
/* A look at branches side by side, each on some of the devices, or of the first node's where data
 * parallelism is faster there. */
int ff_chain_look_at_branches(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);

#endif
