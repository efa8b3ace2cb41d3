/* One chain of a search: what starts.c begins and mcmc.c lays out.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CHAIN_H
#define FF_PLANNER_CHAIN_H

#include "elite.h"
#include "order.h"
#include "phases.h"
#include "pool.h"

#define FF_BETA_RANGE 8.0    /* annealing goes from beta / range to beta * range */
#define FF_STARTS_SHARE 0.25 /* of the budget or of a run, for the starts */
#define FF_ROUND_PER_NODE 32 /* proposals of a round for each operator, */
#define FF_ROUND_LEAST 128   /* and at least so many */

struct ff_chain {
	struct ff_chain_pool *pool;
	uint32_t number, n_chains;
	uint64_t limit; /* of proposals; 0: none */
	struct ff_arena *arena;
	struct ff_error error;
	int code;
	pthread_t thread;
	const struct ff_machine *machine;
	const struct ff_space *space;
	struct ff_evaluator *evaluator;
	const struct ff_graph *graph;
	const struct ff_search_options *opt;
	struct ff_phases phases;
	struct ff_orders orders;
	struct ff_frame *frame; /* of the current strategy */
	struct ff_random random;
	struct ff_strategy current, best, adopted, leap;
	bool saved;    /* there is a best that was laid out, if it had to be, and copied */
	bool rephased; /* current and best may differ in their phases */
	struct ff_transaction proposed;
	struct ff_evaluation at, at_best;
	struct ff_elite elite;         /* of runs before this one */
	bool unsaved;                  /* the best is the current strategy, not copied yet */
	struct ff_evaluation at_saved; /* of the copy: the best but for what is unsaved */
	int64_t too_tight_bytes; /* who has no more to spare than that is likely to have no layout
				  */
	uint32_t n_too_tight;
	/* Nodes that may differ between current and best. */
	uint32_t *changed, n_changed;
	bool *is_changed;
	struct ff_change *back; /* from the one to the other */
	uint64_t proposals, accepted, next_tune, next_report, counted;
	double beta, from, reported, tuned; /* clock in seconds */
	double leap_every;                  /* proposals, from one of other phases to the next */
	double seconds, elimination_from;
	uint64_t elimination_calls;
	uint32_t runs;                     /* begun: the first, and one a restart */
	bool recalled;                     /* all are over, and the best of them goes on */
	uint64_t run_from;                 /* proposals before this one */
	double next_exchange;              /* share of the budget */
	double share_from, share;          /* of the budget: the current start's */
	uint64_t phase_from, phase_length; /* in proposals; length 0: by share */
	bool reorders;                     /* orders are walked, too */
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
