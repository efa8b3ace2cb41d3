/* A trial: one strategy under evaluation, and a proposal to change it.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_SIMULATOR_TRIAL_H
#define FF_SIMULATOR_TRIAL_H

#include <string.h>

#include "early_state.h"
#include "order_state.h"
#include "placed.h"
#include "proposal.h"
#include "shortcuts/pipe_slot_state.h"
#include "shortcuts/rejoin_state.h"
#include "stretches.h"

/* The graph of one of so many micro-batches, and what is known of its blocks. */
struct ff_micro {
	uint32_t micro_batches;
	const struct ff_graph *g;
	struct ff_memo memo;
	struct ff_micro *next;
};

/* busy.c: how long each lane is busy. */
struct ff_busy {
	double *now, *next;               /* by lane: for how long at least; with the proposal */
	double *slowed_now, *slowed_next; /* by device: how long moves slow down what it computes */
	double *known; /* by device, of this pass: both, and what buckets take besides */
	double most_us;
	bool too_slow; /* some lane is busy, or idle and busy, for longer than `most_us` */
};

/* time.c: times of one pass. */
struct ff_times {
	struct ff_timed_node *node[FF_PHASE_COUNT]; /* by phase, by node */
	double *lane;                               /* when it is free */
	double *idle;                               /* of a lane that computes: so far */
	double *limited;     /* by device: ends of its last FF_PREFETCH_DISTANCE limited computes,
			      * last first */
	uint32_t *sync_lane; /* scratch */
	double *each;        /* by device: scratch */
	const double *us;    /* of the parts of what is computed */
	uint32_t n_arrivals; /* of this pass: ff_order.arrival */
	uint64_t pass;       /* its number */
	struct ff_updates updates;
	struct ff_stretches stretches;
};

/* snapshot.c: the pass over the current strategy, as it stood before some steps. */
struct ff_snapshots {
	struct ff_snapshot at[FF_SNAPSHOTS];
	uint32_t n, since;      /* proposals since the strategy became current */
	uint32_t n_taken;       /* so many are the strategy's: what is before them is as it was */
	bool planned, recorded; /* it is known where they are taken; all are the strategy's */
	struct ff_arena plan_arena, arena; /* what they are, what there was */
};

/* account.c: what the account comes to, by device, and what a proposal has added to it. */
struct ff_tally {
	bool has_kept;    /* some operator keeps something from step to step */
	bool has_scratch; /* some parameter has several readers */
	int64_t *pinned;
	/* What comes and goes together: so many bytes on each of some neighbours; or, where it is
	 * no such row, by device.  n_row and first: 0 and FF_NONE, if there is none. */
	uint32_t row, n_row;
	int64_t row_bytes;
	int64_t *bundle;
	uint32_t first, last;
	struct ff_noted {
		uint32_t device, row;
		int64_t bytes;
	} * noted; /* what the proposal has added, to be taken back if it is dropped */
	uint32_t n_noted;
	bool notes;
	/* Of the last proposals that may lack so many bytes only: those that were counted, and of
	 * them those that lack more. */
	uint32_t n_counted, n_lacking;
};

/* A strategy as it is evaluated: the current one and a proposal, or one that is tried.  Its state
 * is split by who changes it. */
struct ff_trial {
	struct ff_evaluator *home;
	const struct ff_graph *g; /* of one micro-batch */
	const struct ff_machine *m;
	struct ff_pricer *p;
	const int64_t *limit; /* by device: of memory */
	struct ff_arena arena, scratch;
	struct ff_memo *memo;        /* of `g` */
	struct ff_edge_ends *ends;   /* by edge */
	struct ff_strategy strategy; /* current */
	struct ff_order order, *other;
	struct ff_placed placed;
	struct ff_proposal proposal;
	struct ff_times times;
	struct ff_busy busy;
	struct ff_snapshots snapshots;
	struct ff_folding fold;
	struct ff_layering layers;
	struct ff_pipe_slot_pass slots;
	struct ff_rejoining rejoin;
	struct ff_early early;
	struct ff_tally tally;
};

/* The buckets in place: the proposal's, if it changes them. */
static inline struct ff_gathered *ff_trial_gathered(const struct ff_trial *e)
{
	return e->proposal.rebuckets ? e->placed.next : e->placed.now;
}

static inline struct ff_block_graph ff_trial_blocks(const struct ff_trial *e)
{
	return (struct ff_block_graph){e->g, e->order.position, e->placed.block};
}

/* Whether backward adds to the gradient of a parameter at `edge`: another use or an
 * earlier micro-batch has written it.  Buckets are gathered. */
static inline bool ff_trial_adds(const struct ff_trial *e, uint32_t edge, uint32_t micro)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);
	uint32_t param = ff_edge_source(e->g, edge);

	return (micro > 0 && !ff_trial_gathered(e)->synced.scattered[param]) ||
	       (!e->order.first_use[edge] && e->placed.synced[param] &&
			       ff_reader_adds(&blocks, edge));
}

/* `ready` of a node's parts, to which something is about to be moved: it is taken out when the
 * node is computed, or at last. */
static inline double *ff_time_expect(struct ff_trial *e, struct ff_timed_node *t, uint32_t micro)
{
	if (!t->arrived[micro]) {
		t->arrived[micro] = true;
		e->order.arrival[e->times.n_arrivals++] = (struct ff_arrival){t, micro};
	}
	return ff_timed_ready(t, micro);
}

/* What has arrived is taken out. */
static inline void ff_time_forget(struct ff_timed_node *t, uint32_t micro)
{
	memset(ff_timed_ready(t, micro), 0, t->n * sizeof(*t->ready));
	t->arrived[micro] = false;
}

/* The blocks of what is moved forward to who reads at `edge`. */
static inline const struct ff_redistribution *ff_trial_forward(
		const struct ff_trial *e, uint32_t edge)
{
	uint32_t from = e->placed.shared_from[edge];

	return &e->placed.edge[from == FF_NONE ? edge : from]->moved[FF_FORWARD].by;
}

/* The edge whose moves take the gradient that is made at `edge`: it, or of another use. */
static inline uint32_t ff_trial_sent(const struct ff_trial *e, uint32_t edge)
{
	uint32_t sent = e->placed.n_sums ? e->placed.sums.sent[edge] : FF_NONE;

	return sent == FF_NONE ? edge : sent;
}

/* Whether that gradient is added to another's. */
static inline bool ff_trial_sums(const struct ff_trial *e, uint32_t edge)
{
	return e->placed.n_sums && e->placed.sums.added[edge] != FF_NONE;
}

/* Whether more need not be known of the proposal. */
static inline bool ff_is_rejected(const struct ff_trial *e)
{
	return e->busy.too_slow || e->early.rejected;
}

#endif
