/* A proposal: its changes, and what they touch.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PROPOSAL_H
#define FF_SIMULATOR_PROPOSAL_H

#include "ff/evaluate.h"
#include "ff/sharing.h"
#include "memo/memo.h"

struct ff_trial;

/* A block of a node or an edge that a proposal replaced. */
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
	uint32_t *changed_at;      /* by node: its index in `changes`, if it is there */
	struct ff_memo_wish *wish; /* blocks of the nodes it changes */
	struct ff_swap *swap;
	uint32_t n_swaps, cap_swaps;
	bool accounted;        /* the account includes it */
	bool timed;            /* it was timed to the end */
	bool rebuckets;        /* it changes buckets */
	bool reshares;         /* it changes which moves are shared or which gradients are summed */
	uint32_t *mark, stamp; /* by value: the stamp of its last listing */
	uint32_t *touched, n_touched; /* values of the changed nodes */
	uint32_t *near, n_near;       /* edges of the touched values, in their order */
	uint8_t *flat_was;            /* by touched value: ff_placed's entry before the proposal */
	uint32_t n_flat_was;          /* likewise */
	struct ff_sums sums_next;     /* scratch */
	uint32_t *shared_next;        /* scratch */
	uint32_t first_changed;       /* the first forward step that it changes */
	/* A proposal of another order. */
	bool reordered;
	bool recounted;           /* the account was updated only for the dirty values: */
	uint32_t *dirty, n_dirty; /* values that are made or read in other steps */
	bool *node_dirty;         /* by node: it is computed in another step */
	int32_t *priority;
};

/* swap.c */
/* Replaces a node's block by `new` (NULL: by none) and records the old one in the proposal. */
int ff_swap_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new, struct ff_error *err);
/* Likewise an edge's, by the block for the current blocks of its ends. */
int ff_swap_edge(struct ff_trial *e, uint32_t edge, struct ff_error *err);
/* Without a record.  The block was in place before, so there is room for its times, or it is NULL.
 */
void ff_swap_put_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new);
void ff_swap_put_edge(struct ff_trial *e, uint32_t edge, struct ff_memo_edge *new);
/* Recomputes whether anything moves at `edge` in `pass`. */
void ff_swap_set_state(struct ff_trial *e, uint32_t edge, enum ff_pass pass);
/* Whether the block of `edge` already fits these ends and its order among the uses. */
bool ff_swap_has_ends(const struct ff_trial *e, uint32_t edge, uint64_t ends);

#endif
