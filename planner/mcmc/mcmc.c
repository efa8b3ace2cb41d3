/* Markov chain Monte Carlo search (Metropolis et al. 1953; for this problem
 * Jia, Zaharia, Aiken, MLSys 2019), annealed and reheated.
 *
 * A run begins with its starts, which share a quarter of it equally:
 * each is annealed once, from mild to cold.  The rest are rounds that
 * all begin at the best strategy found, reheat, and anneal again; every second
 * round is mild, every fourth four times as hot, and so on, so that a search
 * stuck in a far corner of a small space gets out while one in a large space
 * mostly refines.  After the first rounds half of the proposals are about a few operators in a
 * row, drawn for the round, while all others stay as they are: parts of a network that have
 * little to do with each other would otherwise have to come right at once.  Where the budget
 * allows the chain restarts: runs know nothing of each other, and at last there are rounds from the
 * best, which crosses over with others.  Rounds walk the order in which
 * operators are issued as well: with starts that would suit the first layout found, and keep others
 * from being tried.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "best.h"
#include "chain.h"
#include "ff/cli.h"
#include "propose/propose.h"
#include "relink.h"
#include "sweeps.h"

#define HEATS 5               /* kinds of rounds, each 4 times as hot as the one before */
#define FOCUS_LEAST 4         /* operators in a row that a round is about */
#define FIRST_ROUNDS 4        /* that are about all operators, before any are about few */
#define RUNS_SHARE 0.75       /* of the budget, for all runs */
#define EXCHANGE_FROM 0.5     /* of the budget */
#define EXCHANGE_SHARE 0.0625 /* of the budget: how often chains look at each other */

/* Takes over the best of all chains, if it is another's. */
static int exchange(struct ff_chain *c, struct ff_error *err)
{
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	c->run.next_exchange += EXCHANGE_SHARE;
	if (code < 0 || c->n_chains == 1)
		return code;
	if (!c->notes.seeds.n)
		ff_chain_count_seed(c); /* from here on they know of each other */
	if (ff_chain_pool_exchange(
			    c->pool, c->number, &c->best.strategy, c->best.at_saved, &c->adopted))
		code = ff_chain_go_to(c, &c->adopted, err);
	return code;
}

/* Rounds that are about all operators, and those that are about a few in a row. */
struct rounds {
	uint64_t n[2];
	uint64_t owed;           /* proposals that may be about a few */
	struct ff_sweeps sweeps; /* before those that are about all */
};

/* Draws which operators the next round is about: few as often as many. */
static void draw_focus(struct ff_chain *c, uint32_t *first, uint32_t *n)
{
	uint32_t all = c->frame->proposer.n_all;
	double most = (double)all / FOCUS_LEAST;

	*n = (uint32_t)(FOCUS_LEAST * pow(most, ff_random_unit(&c->random)));
	*first = ff_random_below(&c->random, all - *n + 1);
}

/* Draws a focus, and now and then what another run made of those operators. */
static int focus(struct ff_chain *c, bool *crossed, struct ff_error *err)
{
	uint32_t first, n, other;

	draw_focus(c, &first, &n);
	ff_proposer_focus(&c->frame->proposer, first, n);
	*crossed = c->run.recalled && c->elite.n > 1 && ff_random_below(&c->random, 2);
	if (!*crossed)
		return FF_OK;
	other = 1 + ff_random_below(&c->random, c->elite.n - 1);
	return ff_chain_crossover(c, &c->elite.best[other], err);
}

/* After the first rounds about all, half of the proposals are about a few. */
static void count(struct rounds *r, bool focused, uint64_t proposals)
{
	if (focused)
		r->owed -= proposals < r->owed ? proposals : r->owed;
	else if (r->n[0] >= FIRST_ROUNDS)
		r->owed += proposals;
}

static int walk_round(struct ff_chain *c, struct rounds *r, struct ff_error *err)
{
	bool focused = r->owed > 0;
	uint32_t heat = (uint32_t)__builtin_ctzll(++r->n[focused]);
	double beta = ff_chain_beta(c);
	uint64_t from = c->proposals;
	bool crossed = false;
	int code = FF_OK;

	if (!focused)
		code = ff_chain_sweep(c, &r->sweeps, err);
	if (code == FF_OK && focused && c->frame->proposer.n_all > FOCUS_LEAST)
		code = focus(c, &crossed, err);
	if (code < 0)
		return code;
	c->run.share_from = ff_chain_budget_done(c);
	c->run.share = 0;
	if (c->run.most < 1 && !c->run.recalled)
		c->run.share = fmax(c->run.most - (c->run.share_from - c->run.done), 1e-9);
	else if (r->n[0] == 1 && !focused)
		c->run.share = fmax(1 - c->run.share_from, 1e-9); /* there may be no other */
	c->run.phase_length = (uint64_t)FF_ROUND_PER_NODE * c->frame->proposer.n_nodes;
	if (c->run.phase_length < FF_ROUND_LEAST)
		c->run.phase_length = FF_ROUND_LEAST;
	heat = crossed ? 0 : heat < HEATS ? heat : HEATS - 1;
	code = ff_chain_anneal(c, beta / FF_BETA_RANGE / pow(4, heat), beta * FF_BETA_RANGE, err);
	ff_proposer_focus(&c->frame->proposer, 0, c->frame->proposer.n_all);
	if (code == FF_OK && !focused)
		code = ff_chain_relink_end(c, err);
	count(r, focused, c->proposals - from);
	return code;
}

/* How many runs there have to be; 0: as many as the budget allows. */
static uint32_t asked_seeds(const struct ff_chain *c)
{
	bool one = c->n_chains > 1 || c->frame->proposer.n_all == 0 ||
		   (c->clock.limit == 0 && c->opt->seconds <= 0);

	return one ? 1 : c->opt->seeds;
}

/* Whether another run of the same length ends early enough. */
static bool may_restart(const struct ff_chain *c)
{
	double done = ff_chain_budget_done(c);

	if (asked_seeds(c))
		return c->run.n < asked_seeds(c);
	return done > 0 && done + done / c->run.n <= RUNS_SHARE;
}

/* This run had its time, and is not the only one. */
static bool is_over(const struct ff_chain *c)
{
	if (c->run.recalled || (c->run.n == 1 && !may_restart(c)))
		return false;
	if (asked_seeds(c))
		return ff_chain_budget_done(c) - c->run.done >= c->run.most;
	return c->proposals - c->run.from >= ff_chain_run_length(c);
}

/* What is left for runs is shared by those that there have to be. */
static void share_out(struct ff_chain *c)
{
	uint32_t n = asked_seeds(c);

	c->run.done = ff_chain_budget_done(c);
	c->run.most = 1;
	if (n > 1)
		c->run.most = fmax(RUNS_SHARE - c->run.done, 0) / (n - c->run.n + 1);
}

/* Its phases first: other splits suit others. */
static int sweep_best(struct ff_chain *c, struct ff_sweeps *sweeps, struct ff_error *err)
{
	int code = ff_chain_return(c, err);

	if (code == FF_OK)
		code = ff_chain_sweep_phases(c, err);
	return code == FF_OK ? ff_chain_sweep_all(c, sweeps, err) : code;
}

static int walk_rounds(struct ff_chain *c, struct ff_error *err)
{
	const struct ff_elite *others = c->run.recalled ? &c->elite : &c->run.ends;
	struct rounds rounds = {0};
	int code = FF_OK;

	c->run.reorders = true;
	if (!ff_chain_out_of_budget(c))
		code = sweep_best(c, &rounds.sweeps, err);
	for (uint32_t i = 0; i < others->n && code == FF_OK; i++)
		code = ff_chain_relink(c, &others->best[i], err);
	while (code == FF_OK && !ff_chain_out_of_budget(c) && !is_over(c)) {
		while (code == FF_OK && c->run.next_exchange <= ff_chain_budget_done(c) &&
				c->run.next_exchange < 1)
			code = exchange(c, err);
		if (code == FF_OK)
			code = ff_chain_return(c, err);
		if (code == FF_OK)
			code = walk_round(c, &rounds, err);
	}
	c->run.reorders = false;
	return code;
}

static int run(struct ff_chain *c, struct ff_error *err)
{
	int code;

	c->run.n++;
	c->run.from = c->proposals;
	c->run.ends.n = 0;
	share_out(c);
	code = ff_chain_walk_starts(c, err);
	if (code == FF_OK && c->frame->proposer.n_all > 0)
		code = walk_rounds(c, err);
	return code;
}

/* The best of all runs becomes the current strategy. */
static int recall(struct ff_chain *c, struct ff_error *err)
{
	int code = ff_chain_retire(c, err);

	c->run.recalled = true;
	return code == FF_OK && c->elite.n ? ff_chain_go_to(c, &c->elite.best[0], err) : code;
}

static int walk_runs(struct ff_chain *c, struct ff_error *err)
{
	int code = run(c, err);

	while (code == FF_OK && !ff_chain_out_of_budget(c) && may_restart(c)) {
		code = ff_chain_retire(c, err);
		if (code == FF_OK)
			code = run(c, err);
	}
	if (code == FF_OK && c->run.n > 1)
		code = recall(c, err);
	if (code == FF_OK && c->run.n > 1)
		code = walk_rounds(c, err);
	if (code == FF_OK && c->best.unsaved)
		code = ff_chain_save(c, err);
	if (code == FF_OK && !c->notes.seeds.n)
		ff_chain_count_seed(c);
	return code;
}

/* Where the host has no memory left the best that was kept is what this chain finds. */
static int end_without_memory(struct ff_chain *c)
{
	const struct ff_elite *others = &c->elite; /* of runs before this one */

	c->best.at = c->best.at_saved;
	if (others->n && ff_how_much_worse(c->best.at, others->at[0]) < 0) {
		c->best.at = others->at[0];
		ff_strategy_copy(&c->best.strategy, &others->best[0]);
	}
	c->lacked_memory = true;
	return c->best.at.fits ? FF_OK : FF_E_NOMEM;
}

static void *walk(void *chain)
{
	struct ff_chain *c = chain;
	struct ff_error *err = &c->error;
	int code = ff_chain_init(c, c->arena, err);

	c->run.next_exchange = EXCHANGE_FROM;
	if (code == FF_OK)
		code = walk_runs(c, err);
	if (code == FF_E_NOMEM)
		code = end_without_memory(c);
	c->code = code;
	if (code < 0)
		c->pool->stop = true;
	ff_chain_pool_leave(c->pool);
	return NULL;
}

/* Walks all chains, the first in this thread. */
static int walk_all(struct ff_chain *chain, uint32_t n, struct ff_error *err)
{
	uint32_t started = 1;
	int code = FF_OK;

	for (; started < n; started++)
		if (pthread_create(&chain[started].thread, NULL, walk, &chain[started]) != 0) {
			code = ff_fail(err, FF_E_RUN, "cannot start thread %u of %u", started, n);
			chain->pool->stop = true;
			break;
		}
	for (uint32_t i = started; i < n; i++)
		ff_chain_pool_leave(chain->pool);
	walk(&chain[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(chain[i].thread, NULL);
	for (uint32_t i = 0; i < started && code == FF_OK; i++) {
		code = chain[i].code;
		if (code < 0)
			*err = chain[i].error;
	}
	return code;
}

static void add_seeds(struct ff_seeds *all, const struct ff_seeds *s)
{
	if (!s->n)
		return;
	all->least_us = all->n ? fmin(all->least_us, s->least_us) : s->least_us;
	all->most_us = fmax(all->most_us, s->most_us);
	all->n += s->n;
}

/* The best of all chains; of equals the first chain's. */
static int collect(const struct ff_chain *chain, uint32_t n, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err)
{
	const struct ff_chain *best = &chain[0];
	struct ff_search_result r = {.first_s = INFINITY};
	struct ff_shapes shapes = {.n = 0};
	int code = ff_strategy_create(chain->graph, a, &r.best, err);

	if (code == FF_OK && chain->opt->top > 1)
		code = ff_shapes_init(&shapes, chain->graph, 2 * chain->opt->top, a, err);
	if (code < 0)
		return code;

	for (uint32_t i = 0; i < n; i++) {
		if (ff_how_much_worse(best->best.at, chain[i].best.at) < 0)
			best = &chain[i];
		r.proposals += chain[i].proposals;
		r.accepted += chain[i].accepted;
		r.first_s = fmin(r.first_s, chain[i].clock.first_s);
		add_seeds(&r.seeds, &chain[i].notes.seeds);
		r.lacked_memory |= chain[i].lacked_memory;
		for (uint32_t k = 0; k < chain[i].notes.shapes.n; k++)
			ff_shapes_add(&shapes, &chain[i].notes.shapes.plan[k],
					chain[i].notes.shapes.step_us[k]);
	}
	r.shape = shapes.plan;
	r.n_shapes = shapes.n;
	for (uint32_t k = 0; k < r.n_shapes; k++)
		ff_strategy_settle(chain->graph, &r.shape[k]);
	ff_strategy_copy(&r.best, &best->best.strategy);
	r.evaluation = best->best.at;
	/* as a file will have it */
	if (ff_strategy_settle(chain->graph, &r.best) && !best->lacked_memory)
		code = ff_evaluator_set(best->evaluator, &r.best, &r.evaluation, err);
	if (code < 0)
		return code;
	r.seconds = ff_clock_us() / 1e6 - chain->clock.from;
	*ret = r;
	if (r.evaluation.fits)
		return FF_OK;
	return ff_fail(err, FF_E_NOFIT,
			"graph %s on machine %s: no strategy that fits in memory was found in %llu "
			"proposal%s; the closest lacks %.1f MiB, on all devices together",
			chain->graph->name, chain->machine->name, (unsigned long long)r.proposals,
			r.proposals == 1 ? "" : "s", (double)r.evaluation.over_bytes / (1 << 20));
}

int ff_search_mcmc(const struct ff_space *s, struct ff_evaluator *e, const struct ff_graph *g,
		const struct ff_machine *m, const struct ff_search_options *opt, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err)
{
	const struct ff_evaluation nothing = {.step_us = INFINITY, .over_bytes = INT64_MAX};
	uint32_t n = 1 + opt->n_more;
	double from = ff_clock_us() / 1e6;
	struct ff_arena own;
	struct ff_chain *chain;
	struct ff_chain_pool pool;
	int code;

	if (opt->starts && !opt->starts[0] && !opt->n_given)
		return ff_fail(err, FF_E_INPUT, "a search needs a starting strategy");
	if (opt->proposals == 0 && opt->seconds <= 0 && !opt->progress)
		return ff_fail(err, FF_E_INPUT,
				"a search needs a budget: a number of proposals or of seconds");
	if (opt->proposals > 0 && n > opt->proposals)
		n = (uint32_t)opt->proposals;
	ff_arena_init(&own);
	chain = ff_arena_array(&own, n, sizeof(*chain));
	code = chain ? ff_chain_pool_init(&pool, g, n, &own, err) : ff_fail_memory(err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		chain[i] = (struct ff_chain){.pool = &pool,
				.number = i,
				.n_chains = n,
				.space = s,
				.evaluator = i ? opt->more[i - 1] : e,
				.graph = g,
				.machine = m,
				.opt = opt,
				.best = {.at = nothing, .at_saved = nothing},
				.clock = {.from = from,
						.first_s = INFINITY,
						.limit = opt->proposals / n +
							 (i < opt->proposals % n)}};
		chain[i].arena = ff_arena_alloc(&own, sizeof(*chain[i].arena));
		code = chain[i].arena ? FF_OK : ff_fail_memory(err);
		if (code == FF_OK)
			ff_arena_init(chain[i].arena);
	}
	if (code == FF_OK) {
		code = walk_all(chain, n, err);
		if (code == FF_OK)
			code = collect(chain, n, a, ret, err);
		for (uint32_t i = 0; i < n; i++) {
			ff_phases_finish(&chain[i].phases);
			ff_orders_finish(&chain[i].orders);
			ff_arena_finish(chain[i].arena);
		}
		ff_chain_pool_finish(&pool);
	}
	ff_arena_finish(&own);
	return code;
}
