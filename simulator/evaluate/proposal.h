/* What is proposed: what it changes, and what that touches.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PROPOSAL_H
#define FF_SIMULATOR_PROPOSAL_H

#include "ff/evaluate.h"
#include "ff/sharing.h"
#include "memo/memo.h"

struct ff_trial;

/* What a proposal replaced: a node's or an edge's block. */
struct ff_swap {
	bool is_edge;
	uint32_t id;
	union {
		struct ff_memo_node *node;
		struct ff_memo_edge *edge;
	} was;
};

struct ff_proposal {
	struct ff_change *changes;
	uint32_t n_changes, cap_changes;
	uint32_t *changed_at;      /* by node: where in `changes` it stands, if it does */
	struct ff_memo_wish *wish; /* blocks of the nodes it changes */
	struct ff_swap *swap;
	uint32_t n_swaps, cap_swaps;
	bool accounted;        /* it is in the account, */
	bool timed;            /* and was timed, to its end */
	bool rebuckets;        /* it changes buckets, */
	bool reshares;         /* or which moves are shared, or which gradients are added up */
	uint32_t *mark, stamp; /* by value: the stamp of when it was last listed */
	uint32_t *touched, n_touched;
	uint32_t *near, n_near;   /* edges of what is touched, in that order */
	uint8_t *flat_was;        /* as ff_placed has it, of what is touched; before the proposal */
	uint32_t n_flat_was;      /* likewise */
	struct ff_sums sums_next; /* scratch, */
	uint32_t *shared_next;    /* likewise */
	uint32_t first_changed;   /* the first step of forward that it changes */
	/* Another order: */
	bool reordered;           /* it is proposed, */
	bool recounted;           /* and of the account only what comes at other steps is new: */
	uint32_t *dirty, n_dirty; /* these values */
	bool *node_dirty;         /* by node: it is computed in another step */
	int32_t *priority;
};

/* swap.c */
/* Puts `new` in the place of a node's block and notes in the proposal what was there.  NULL: the
 * node has none any more. */
int ff_swap_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new, struct ff_error *err);
/* The same of an edge, with the block for those that its ends have now. */
int ff_swap_edge(struct ff_trial *e, uint32_t edge, struct ff_error *err);
/* Without a note; there is room for its times, as it was in place before or is NULL. */
void ff_swap_put_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new);
void ff_swap_put_edge(struct ff_trial *e, uint32_t edge, struct ff_memo_edge *new);
/* Whether anything moves at `edge` in `pass` follows from the blocks in place: says it anew. */
void ff_swap_set_state(struct ff_trial *e, uint32_t edge, enum ff_pass pass);
/* Whether the block of `edge` is for these ends already, and for its turn among the uses. */
bool ff_swap_has_ends(const struct ff_trial *e, uint32_t edge, uint64_t ends);

#endif
