/* One chain of a search: what starts.c begins and mcmc.c lays out.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CHAIN_H
#define FF_PLANNER_CHAIN_H

#include "chain_state.h"

#define FF_BETA_RANGE 8.0    /* annealing goes from beta / range to beta * range */
#define FF_STARTS_SHARE 0.25 /* of the budget or of a run, for the starts */
#define FF_ROUND_PER_NODE 32 /* proposals of a round for each operator, */
#define FF_ROUND_LEAST 128   /* and at least so many */

/* All else is set and zero. */
int ff_chain_init(struct ff_chain *c, struct ff_arena *a, struct ff_error *err);
/* Makes `s` the current strategy. */
int ff_chain_go_to(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err);
/* Back to the best; where none is saved, the current strategy stays. */
int ff_chain_return(struct ff_chain *c, struct ff_error *err);
/* This run's best counts as a seed's. */
void ff_chain_count_seed(struct ff_chain *c);
/* Ends a run: its best is kept among the elite, and the next begins with nothing. */
int ff_chain_retire(struct ff_chain *c, struct ff_error *err);
/* Operators in the focus, and their places in the order, become those of `s`; nothing
 * where one of the two is cut into micro-batches. */
int ff_chain_crossover(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err);
/* Walks one start or round from beta `hot` to `cold`. */
int ff_chain_anneal(struct ff_chain *c, double hot, double cold, struct ff_error *err);
/* The transaction in `proposed` is accepted if the step is longer by at most `patience` of it. */
int ff_chain_try(struct ff_chain *c, double patience, bool *kept, struct ff_error *err);
/* Tries what was drawn into `leap`, all of it at once.  *helped: it is better; *kept: it is worse
 * by at most `patience` of a step, and the current strategy from now on. */
int ff_chain_try_leap(struct ff_chain *c, double patience, bool *helped, bool *kept,
		struct ff_error *err);
/* Operators are issued as a list schedule has them (listed.h), where that is no slower. */
int ff_chain_list(struct ff_chain *c, struct ff_error *err);
/* Whether the start that is walked would be behind the best at the end of its walk still, if it
 * went on as so far, `done` of the walk: there is a plan that fits, and rounds from that lead
 * further. */
bool ff_chain_leads_nowhere(const struct ff_chain *c, double done);
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
