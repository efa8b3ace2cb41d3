/* A trial: one strategy under evaluation, and a proposal to change it.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_SIMULATOR_TRIAL_H
#define FF_SIMULATOR_TRIAL_H

#include "early_state.h"
#include "ff/evaluate.h"
#include "ff/program.h"
#include "ff/sharing.h"
#include "folding.h"
#include "memo.h"
#include "pass.h"

/* What a proposal replaced: a node's or an edge's block. */
struct ff_swap {
	bool is_edge;
	uint32_t id;
	union {
		struct ff_memo_node *node;
		struct ff_memo_edge *edge;
	} was;
};

struct ff_param_use {
	uint32_t node, slot, param;
};

/* The graph of one of so many micro-batches, and what is known of its blocks. */
struct ff_micro {
	uint32_t micro_batches;
	const struct ff_graph *g;
	struct ff_memo memo;
	struct ff_micro *next;
};

/* A strategy as it is evaluated: the current one and a proposal, or one that is tried. */
struct ff_trial {
	struct ff_evaluator *home;
	const struct ff_graph *g; /* of one micro-batch */
	const struct ff_machine *m;
	struct ff_pricer *p;
	const int64_t *limit; /* by device: of memory */
	struct ff_arena arena, scratch;
	struct ff_memo *memo; /* of `g` */
	uint32_t *order, *position, *first_edge;
	/* Uses of parameters, as backward comes to them: all that complete gradients, and all
	 * that add to them. */
	struct ff_param_use *completing, *adding;
	uint32_t n_completing, n_adding;
	uint32_t *completes_at;      /* by parameter: where in `completing` it stands */
	bool *first_use, *completes; /* by edge */
	struct ff_ends *ends;        /* by edge */
	/* By edge: the first step of the first micro-batch's forward that may move something to who
	 * reads there: its own, or one of another use of the same value.  FF_NONE: none does. */
	uint32_t *begins;
	uint32_t *shared_from;          /* by edge: ff_edge_shared_from, of the blocks in place */
	bool *is_shared;                /* by edge: its moves bring what another reads */
	struct ff_sums sums, sums_next; /* likewise; `first` is first_use.  Scratch */
	uint32_t *n_added;        /* by node: of how many uses the gradient is added to another's */
	uint32_t n_sums;          /* uses whose gradients others' moves take; 0: mostly none does */
	bool reshares;            /* the proposal changes that, or `is_shared` */
	struct ff_ordered *other; /* another order: the next one, or that before the proposal */
	bool reordered;           /* it is proposed, */
	bool recounted;           /* and of the account only what comes at other steps is new: */
	uint32_t *shifted, n_shifted; /* these values */
	bool *node_shifted;           /* by node: it is computed in another step */

	struct ff_memo_node **node;         /* by node; NULL for inputs and synced parameters */
	const struct ff_node_block **block; /* by node: its block */
	struct ff_memo_edge **edge;         /* NULL for those of synced parameters */
	bool *synced;                       /* by node */
	bool *flat, *flat_was; /* by node: a parameter that has flat buckets; before the proposal */
	uint32_t n_flat, n_flat_was; /* how many there are; were */
	uint32_t n_dropped;          /* of those, that are brought again: their buckets may be */
	struct ff_shards *shards;    /* likewise */
	bool has_kept;               /* some operator keeps something from step to step */
	bool has_scratch;            /* some parameter has several readers */
	struct ff_gathered gathered[2], *now, *next; /* the current strategy's, a proposal's */
	struct ff_updates updates;
	struct ff_strategy strategy; /* current */

	const struct ff_change *change; /* the proposal: a copy */
	struct ff_change *changes;
	uint32_t n_changes, cap_changes;
	uint32_t *changed_at;      /* by node: where in `changes` it stands, if it does */
	struct ff_memo_wish *wish; /* blocks of the nodes it changes */
	struct ff_swap *swap;
	uint32_t n_swaps, cap_swaps;
	bool proposed;
	uint32_t *mark, stamp; /* by value: the stamp of when it was last listed */
	uint32_t *touched, n_touched;
	uint32_t *near, n_near; /* edges of what is touched, in that order */

	struct ff_program program;
	struct ff_arena order_arena;                 /* of the program */
	struct ff_timed_node *timed[FF_PHASE_COUNT]; /* by phase, by node */
	uint8_t *state[2];                           /* by pass, by edge */
	uint64_t *active; /* a bit a step: all but those that move nothing */
	bool rebuckets;   /* the proposal changes buckets */
	double *lane;     /* when it is free */
	double *idle;     /* of a lane that computes: so far */
	double *limited;  /* by device: ends of its last FF_PREFETCH_DISTANCE limited computes, last
			     first */
	uint32_t *sync_lane;
	struct ff_arrival *arrival; /* all of this pass */
	uint32_t n_arrivals;

	struct ff_snapshot snapshot[FF_SNAPSHOTS];
	uint32_t n_snapshots, since; /* proposals since the strategy became current */
	uint32_t n_taken;       /* so many are the strategy's: what is before them is as it was */
	uint32_t first_changed; /* the first step of forward that the proposal changes */
	bool planned, recorded; /* it is known where they are taken; all are the strategy's */
	struct ff_arena plan_arena, snapshot_arena; /* what they are, what there was */

	struct ff_folding fold;
	struct ff_early early;

	/* busy.c: how long each lane is at least, now and with the proposal */
	double *busy, *busy_next, most_us;
	bool too_slow; /* some lane is busy, or idle and busy, for longer than `most_us` */

	/* account.c: bytes that come (and, behind their last step, go), by step and
	 * device; what they come to. */
	struct ff_account {
		struct ff_arena arena;
		int64_t *change_bytes; /* [rows][devices] */
		uint32_t *row, n_rows; /* by step, and behind the last; FF_NONE: as a time before */
		bool *counted;         /* by micro-batch: it has such steps */
	} account;
	struct ff_noted { /* what a proposal has added, to be taken back if it is dropped */
		size_t at;
		int64_t bytes;
	} * noted;
	uint32_t n_noted;
	bool notes;
	int64_t *pinned, *live, *peak, *before; /* by device; `before`: a time before */
};

/* Whether backward adds to the gradient of a parameter at `edge`: another use or an
 * earlier micro-batch has written it. */
static inline bool ff_trial_adds(const struct ff_trial *e, uint32_t edge, uint32_t micro)
{
	return micro > 0 || (!e->first_use[edge] && e->synced[ff_edge_source(e->g, edge)]);
}

/* `ready` of a node's parts, to which something is about to be moved: it is taken out when the
 * node is computed, or at last. */
static inline double *ff_time_expect(struct ff_trial *e, struct ff_timed_node *t, uint32_t micro)
{
	if (!t->arrived[micro]) {
		t->arrived[micro] = true;
		e->arrival[e->n_arrivals++] = (struct ff_arrival){t, micro};
	}
	return ff_timed_ready(t, micro);
}

/* The blocks of what is moved forward to who reads at `edge`. */
static inline const struct ff_redistribution *ff_trial_forward(
		const struct ff_trial *e, uint32_t edge)
{
	uint32_t from = e->shared_from[edge];

	return &e->edge[from == FF_NONE ? edge : from]->moved[FF_FORWARD];
}

/* The edge whose moves take the gradient that is made at `edge`: it, or of another use. */
static inline uint32_t ff_trial_sent(const struct ff_trial *e, uint32_t edge)
{
	uint32_t sent = e->n_sums ? e->sums.sent[edge] : FF_NONE;

	return sent == FF_NONE ? edge : sent;
}

/* Whether that gradient is added to another's. */
static inline bool ff_trial_sums(const struct ff_trial *e, uint32_t edge)
{
	return e->n_sums && e->sums.added[edge] != FF_NONE;
}

/* Whether more need not be known of the proposal. */
static inline bool ff_is_rejected(const struct ff_trial *e)
{
	return e->too_slow || e->early.rejected;
}

#endif
