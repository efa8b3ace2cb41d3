/* One chain of a search: what starts.c begins and mcmc.c lays out.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CHAIN_H
#define FF_PLANNER_CHAIN_H

#include "elite.h"
#include "hand/grid.h"
#include "pool.h"
#include "propose/order.h"
#include "propose/phases.h"
#include "space/shapes.h"

#define FF_BETA_RANGE 8.0    /* annealing goes from beta / range to beta * range */
#define FF_STARTS_SHARE 0.25 /* of the budget or of a run, for the starts */
#define FF_ROUND_PER_NODE 32 /* proposals of a round for each operator, */
#define FF_ROUND_LEAST 128   /* and at least so many */

/* The best that was found in this run. */
struct ff_chain_best {
	struct ff_strategy strategy;   /* a copy, where one is saved */
	struct ff_evaluation at;       /* of the best, copied or not */
	struct ff_evaluation at_saved; /* of the copy */
	bool saved;    /* there is a best that was laid out, if it had to be, and copied */
	bool unsaved;  /* the best is the current strategy, not copied yet */
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
	double layout_s;                       /* the longest layout so far, by the micro-batch */
	double first_s; /* until the first that fits was kept; INFINITY: none is yet */
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
	double beta;
	double leap_every; /* proposals, from one of other phases to the next */
	bool reorders;     /* orders are walked, too */
};

/* What is known of all runs together. */
struct ff_chain_notes {
	struct ff_seeds seeds;
	struct ff_shapes shapes; /* none, where one plan is enough */
	char grid[FF_GRID_NAME]; /* the best of the grid by hand, where it was looked through; */
	int64_t grid_bucket_bytes;
	bool grid_leads;  /* it is better than all plain starts */
	double grid_from; /* clock in seconds */
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
};

/* All else is set and zero. */
int ff_chain_init(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);
/* Makes `s` the current strategy. */
int ff_chain_go_to(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err);
/* Back to the best; where none is saved, the current strategy stays. */
int ff_chain_return(struct ff_chain *c, struct ff_error *err);
/* Copies the best, if it is the current strategy and not copied yet.  Where it has no layout
 * it is forgotten. */
int ff_chain_save(struct ff_chain *c, struct ff_error *err);
/* The same on the walk, where it goes on from the best to something worse. */
int ff_chain_save_on_the_way(struct ff_chain *c, struct ff_error *err);
/* What is still to be done when the walk is over: the best is laid out, and the caller lowers it,
 * for which it has kept time as for one micro-batch. */
double ff_chain_last_s(const struct ff_chain *c);
/* Whether there is time to lay out a strategy and to lower it behind the search; there has to be
 * where nothing else is known that fits. */
bool ff_chain_may_lay_out(const struct ff_chain *c, uint32_t micro_batches);
/* This run's best counts as a seed's. */
void ff_chain_count_seed(struct ff_chain *c);
/* Ends a run: its best is kept among the elite, and the next begins with nothing. */
int ff_chain_retire(struct ff_chain *c, struct ff_error *err);
/* Operators in the focus, and their places in the order, become those of `s`; nothing
 * where one of the two is cut into micro-batches. */
int ff_chain_graft(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err);
/* Walks one start or round from beta `hot` to `cold`. */
int ff_chain_anneal(struct ff_chain *c, double hot, double cold, struct ff_error *err);
double ff_chain_beta(const struct ff_chain *c);
/* Reads the clock, and reports. */
void ff_chain_look(struct ff_chain *c);
/* The time is up, or the caller wants to stop. */
bool ff_chain_in_hurry(const struct ff_chain *c);
bool ff_chain_out_of_budget(const struct ff_chain *c);
/* Used share of the whole budget. */
double ff_chain_budget_done(const struct ff_chain *c);

/* Proposals of a run, from one restart to the next, if there may be more than one. */
uint64_t ff_chain_run_length(const struct ff_chain *c);

/* starts.c: this chain's starts, each annealed once. */
int ff_chain_walk_starts(struct ff_chain *c, struct ff_error *err);

#endif
