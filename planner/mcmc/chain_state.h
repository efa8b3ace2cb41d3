/* What a chain knows: its strategy, the best so far, the budget, and how far it has come.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CHAIN_STATE_H
#define FF_PLANNER_CHAIN_STATE_H

#include "elite.h"
#include "ff/search.h"
#include "hand/grid.h"
#include "pool.h"
#include "propose/order.h"
#include "propose/phases.h"
#include "space/shapes.h"

/* The best that was found in this run. */
struct ff_chain_best {
	struct ff_strategy strategy;   /* a copy, where one is saved */
	struct ff_evaluation at;       /* of the best, copied or not */
	struct ff_evaluation at_saved; /* of the copy */
	bool saved;    /* there is a best that was laid out, if it had to be, and copied */
	bool unsaved;  /* the best is the current strategy, not copied yet */
	bool laid_out; /* and known to have a layout */
	bool rephased; /* it and the current one may differ in their phases */
	/* Who has no more to spare than that is likely to have no layout. */
	int64_t too_tight_bytes;
	uint32_t n_too_tight;
	uint32_t *changed, n_changed; /* nodes that may differ between it and the current one */
	bool *is_changed;
	struct ff_change *back; /* from the one to the other */
};

/* What is left of the budget, and when it is time for what. */
struct ff_chain_clock {
	uint64_t limit; /* of proposals; 0: none */
	uint64_t counted, next_tune, next_report;
	double seconds, from, reported, tuned; /* clock in seconds */
	double layout_s; /* the longest layout so far, per data parallelism's instances */
	double first_s;  /* until the first that fits was kept; INFINITY: none is yet */
	double elimination_from;
	uint64_t elimination_calls;
};

/* How far the chain has come: one run from a restart to the next, in it start by start. */
struct ff_chain_run {
	uint32_t n;                        /* begun: the first, and one a restart */
	uint64_t from;                     /* proposals before this one, */
	double done, most;                 /* share of the budget; that it may take */
	bool recalled;                     /* all are over, and the best of them goes on */
	double next_exchange;              /* share of the budget */
	double share_from, share;          /* of the budget: the current start's */
	uint64_t phase_from, phase_length; /* in proposals; length 0: by share */
	/* The best when a start's walk began, what it began with, and its own best so far. */
	struct ff_evaluation known, begun, least;
	bool is_start;        /* a start is walked */
	struct ff_elite ends; /* where walks from starts have ended */
	double beta;
	double leap_every; /* proposals, from one of other phases to the next */
	bool reorders;     /* orders are walked, too */
};

/* A start of a family: its name on the first `devices`. */
#define FF_MEMBER_NAME 64
struct ff_chain_member {
	char name[FF_MEMBER_NAME];
	uint32_t devices;
	int64_t bucket_bytes;
	struct ff_evaluation at;
};

/* The best of a family, the better ones first.  They are sought once. */
#define FF_FAMILIES 2
#define FF_MEMBERS 4
struct ff_chain_family {
	bool sought;
	uint32_t n;
	struct ff_chain_member best[FF_MEMBERS];
};

/* What is known of all runs together. */
struct ff_chain_notes {
	struct ff_seeds seeds;
	struct ff_shapes shapes; /* none, where one plan is enough */
	char grid[FF_GRID_NAME]; /* the best of the grid by hand, where it was looked through; */
	int64_t grid_bucket_bytes;
	bool grid_leads;   /* it is better than all plain starts */
	bool hybrid_leads; /* zero-1-hybrid is better than plain starts before it */
	double grid_from;  /* clock in seconds */
	uint32_t node; /* on which data parallelism is fastest, where nodes are of several kinds */
	double all_us, node_us; /* data parallelism on all devices, on that node; 0: unknown */
	int64_t *tuned_bytes; /* by start, its best buckets; 0: not looked at, or there are none */
	double go_to_s;       /* what it took to make the last plain start current */
	bool slow;            /* the budget is too short for walks from starts */
	struct ff_chain_family family[FF_FAMILIES];
};

struct ff_chain {
	struct ff_chain_pool *pool;
	uint32_t number, n_chains;
	pthread_t thread;
	struct ff_arena *arena;
	struct ff_error error;
	int code;
	const struct ff_machine *machine;
	const struct ff_space *space;
	const struct ff_graph *graph;
	const struct ff_search_options *opt;
	struct ff_evaluator *evaluator;
	struct ff_phases phases;
	struct ff_orders orders;
	struct ff_random random;
	struct ff_frame *frame; /* of the current strategy */
	struct ff_strategy current;
	struct ff_evaluation at;
	struct ff_transaction proposed;
	struct ff_strategy adopted, leap;
	uint64_t proposals, accepted;
	struct ff_chain_best best;
	struct ff_chain_clock clock;
	struct ff_chain_run run;
	struct ff_elite elite; /* of runs before this one */
	struct ff_chain_notes notes;
	bool stop;
	bool lacked_memory; /* the host's; the evaluator is spent */
};

#endif
