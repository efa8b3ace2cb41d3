/* Markov chain Monte Carlo search (Metropolis et al. 1953; for this problem
 * Jia, Zaharia, Aiken, MLSys 2019), annealed and reheated.
 *
 * The first half of the budget is cut into equal legs, one for each start:
 * each is annealed once, from mild to cold.  The second half are rounds that
 * all begin at the best strategy found, reheat, and anneal again; every second
 * round is mild, every fourth four times as hot, and so on, so that a search
 * stuck in a far corner of a small space gets out while one in a large space
 * mostly refines.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "crew.h"
#include "ff/cli.h"
#include "phases.h"

#define LEGS_SHARE 0.5          /* of the budget, for the starts */
#define ELIMINATION_SHARE 0.2   /* of the budget, at most: of time, or */
#define ELIMINATION_CALLS 20000 /* of proposals: what it asks so many times more is done */
#define BETA_PER_NODE                                                                              \
	64.0              /* preset: what one operator can change is that much less of the whole   \
			   */
#define BETA_RANGE 8.0    /* annealing goes from beta / range to beta * range */
#define HEATS 5           /* kinds of rounds, each 4 times as hot as the one before */
#define ROUND_PER_NODE 32 /* proposals of a round for each operator, */
#define ROUND_LEAST 128   /* and at least so many */
#define EXCHANGE_SHARE 0.0625 /* of the budget: how often chains look at each other */
#define TUNE_EVERY 16         /* proposals between changes of beta, */
#define TUNE_SECONDS 0.01     /* or this long, where the budget is time */
#define REPORT_EVERY 256      /* proposals between progress calls, */
#define REPORT_SECONDS 0.05   /* or this long */

#define MOST_STAGES 16 /* of a pipeline to start from */
#define LEAP_EVERY 64  /* one proposal in so many changes phases, where that matters */

static const char *const preset_starts[] = {"data-parallel", "expert", "single", "random",
		"elimination", "pipeline", "frugal", NULL};

struct chain {
	struct ff_crew *crew;
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
	struct ff_frame *frame; /* of the current strategy */
	struct ff_random random;
	struct ff_strategy current, best, adopted, leap;
	bool rephased; /* current and best may differ in their phases */
	struct ff_transaction proposed;
	struct ff_evaluation at, at_best;
	bool unsaved;                  /* the best is the current strategy, not copied yet */
	struct ff_evaluation at_saved; /* of the copy: the best but for what is unsaved */
	/* Nodes that may differ between current and best. */
	uint32_t *changed, n_changed;
	bool *is_changed;
	struct ff_change *back; /* from the one to the other */
	uint64_t proposals, accepted, next_tune, next_report, counted;
	double beta, from, reported, tuned; /* clock in seconds */
	double seconds, elimination_from;
	uint64_t elimination_calls;
	double next_exchange;              /* share of the budget */
	double share_from, share;          /* of the budget: the current leg's */
	uint64_t phase_from, phase_length; /* in proposals; length 0: by share */
	bool stop;
};

static void mark_changed(struct chain *c, uint32_t node)
{
	if (c->is_changed[node])
		return;
	c->is_changed[node] = true;
	c->changed[c->n_changed++] = node;
}

/* Copies the current strategy into the best, as far as they differ.  Where memory
 * is scarce a layout must be found first; a best without one is none. */
static int save_best(struct chain *c, struct ff_error *err)
{
	int64_t over = 0;
	int code = FF_OK;

	c->unsaved = false;
	if (c->at_best.fits && c->at_best.tight)
		code = ff_evaluator_layout(c->evaluator, &over, err);
	if (code < 0)
		return code;
	if (over > 0) {
		c->at_best = c->at_saved;
		return FF_OK;
	}
	if (c->rephased)
		ff_strategy_copy(&c->best, &c->current);
	c->rephased = false;
	for (uint32_t i = 0; i < c->n_changed; i++) {
		uint32_t node = c->changed[i];

		c->best.config[node] = c->current.config[node];
		c->is_changed[node] = false;
	}
	c->n_changed = 0;
	c->at_saved = c->at_best;
	return FF_OK;
}

static void note_if_best(struct chain *c)
{
	if (ff_how_much_worse(c->at_best, c->at) >= 0)
		return;
	c->at_best = c->at;
	c->unsaved = true;
}

static int chain_init(struct chain *c, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = c->graph->n_nodes;
	int code = ff_phases_init(&c->phases, c->space, c->graph, c->machine, c->opt->seed,
			c->number, a, err);

	if (code == FF_OK)
		code = ff_phases_frame(&c->phases, 1, &c->frame, err);
	if (code == FF_OK)
		code = ff_transaction_init(c->graph, a, &c->proposed, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->current, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->best, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->adopted, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->leap, err);
	if (code < 0)
		return code;
	c->changed = ff_arena_array(a, n, sizeof(*c->changed));
	c->is_changed = ff_arena_array(a, n, sizeof(*c->is_changed));
	c->back = ff_arena_array(a, n, sizeof(*c->back));
	if (!c->changed || !c->is_changed || !c->back)
		return ff_fail_memory(err);
	c->random.seed = c->opt->seed;
	c->random.stream = ff_philox_stream(c->number, 'a');
	c->reported = c->from;
	return FF_OK;
}

/* After every evaluation: on a large graph one may take a tenth of a second. */
static void look_at_clock(struct chain *c)
{
	double now = ff_clock_us() / 1e6;

	c->seconds = now - c->from;
	c->stop = c->stop || c->crew->stop;
	if (c->proposals < c->next_report && now - c->reported < REPORT_SECONDS)
		return;
	c->next_report = c->proposals + REPORT_EVERY;
	c->reported = now;
	c->crew->proposals += c->proposals - c->counted;
	c->counted = c->proposals;
	if (c->number > 0 || !c->opt->progress || c->stop)
		return;
	c->stop = c->opt->progress(c->opt->ctx, c->crew->proposals, c->seconds,
			c->at_best.fits ? c->at_best.step_us : INFINITY);
	if (c->stop)
		c->crew->stop = true;
}

/* Whether the time is up, or the caller wants to stop: what is going on is left
 * as it is. */
static bool in_hurry(const struct chain *c)
{
	return c->stop || (c->opt->seconds > 0 && c->seconds >= c->opt->seconds);
}

/* Shows the current strategy to the caller. */
static void show(struct chain *c, struct ff_evaluation e)
{
	if (!c->opt->visit)
		return;
	pthread_mutex_lock(&c->crew->mutex);
	c->opt->visit(c->opt->visit_ctx, &c->current, e);
	pthread_mutex_unlock(&c->crew->mutex);
}

/* `s` is what the evaluator holds. */
static int adopt(struct chain *c, const struct ff_strategy *s, struct ff_evaluation e,
		struct ff_error *err)
{
	c->at = e;
	c->rephased = true;
	ff_strategy_copy(&c->current, s);
	for (uint32_t i = 0; i < c->graph->n_nodes; i++)
		mark_changed(c, i);
	note_if_best(c);
	return ff_phases_frame(&c->phases, s->micro_batches, &c->frame, err);
}

/* Makes `s` the current strategy. */
static int go_to(struct chain *c, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_evaluation e;
	int code = c->unsaved ? save_best(c, err) : FF_OK;

	if (code == FF_OK)
		code = ff_evaluator_set(c->evaluator, s, &e, err);
	if (code == FF_OK)
		code = adopt(c, s, e, err);
	if (code < 0)
		return code;
	show(c, c->at);
	look_at_clock(c);
	return FF_OK;
}

/* By how much a proposal may be worse, drawn before it is looked at: it is accepted
 * with probability exp(-beta * worse). */
static double draw_patience(struct chain *c)
{
	return -log(1 - ff_random_unit(&c->random)) / c->beta;
}

/* Exchanges the configs of the current strategy and those of the proposal. */
static void swap_configs(struct chain *c)
{
	for (uint32_t i = 0; i < c->proposed.n; i++) {
		struct ff_change *change = &c->proposed.change[i];
		struct ff_config was = c->current.config[change->node];

		c->current.config[change->node] = change->config;
		change->config = was;
	}
}

/* Shows the proposed strategy to the caller. */
static void visit(struct chain *c, struct ff_evaluation e)
{
	swap_configs(c);
	show(c, e);
	swap_configs(c);
}

/* Makes the strategy proposed last the current one. */
static int keep(struct chain *c, struct ff_evaluation e, struct ff_error *err)
{
	int code = FF_OK;

	if (c->unsaved && ff_how_much_worse(c->at_best, e) > 0)
		code = save_best(c, err);
	ff_evaluator_keep(c->evaluator);
	for (uint32_t i = 0; i < c->proposed.n; i++) {
		const struct ff_change *change = &c->proposed.change[i];

		c->current.config[change->node] = change->config;
		mark_changed(c, change->node);
	}
	c->at = e;
	note_if_best(c);
	return code;
}

/* Proposes other phases.  They change the whole program, so it is set, and set back. */
static int leap(struct chain *c, double patience, struct ff_error *err)
{
	struct ff_evaluation e;
	int code = c->unsaved ? save_best(c, err) : FF_OK;

	if (code < 0 || !ff_phases_draw(&c->phases, &c->current, c->at, &c->leap))
		return code;
	code = ff_evaluator_set(c->evaluator, &c->leap, &e, err);
	if (code < 0)
		return code;
	c->proposals++;
	if (c->opt->visit)
		c->opt->visit(c->opt->visit_ctx, &c->leap, e);
	look_at_clock(c);
	if (ff_how_much_worse(c->at, e) > patience)
		return ff_evaluator_set(c->evaluator, &c->current, &e, err);
	c->accepted++;
	return adopt(c, &c->leap, e, err);
}

static int step(struct chain *c, struct ff_error *err)
{
	double patience = draw_patience(c), limit_us = INFINITY;
	struct ff_evaluation e;
	bool slower;
	int code;

	if (ff_phases_matter(&c->phases, &c->current, c->at) &&
			ff_random_below(&c->random, LEAP_EVERY) == 0)
		return leap(c, patience, err);
	ff_proposer_next(&c->frame->proposer, &c->current, &c->proposed);
	/* what does not fit may be followed by anything that lacks less */
	if (c->at.fits && !c->opt->visit)
		limit_us = c->at.step_us * (1 + patience);
	code = ff_evaluator_propose_within(c->evaluator, c->proposed.change, c->proposed.n,
			limit_us, &slower, &e, err);
	if (code < 0)
		return code;
	c->proposals++;
	if (c->opt->visit)
		visit(c, e);
	look_at_clock(c);
	if (slower)
		return FF_OK;
	if (ff_how_much_worse(c->at, e) > patience) {
		ff_evaluator_drop(c->evaluator);
		return FF_OK;
	}
	c->accepted++;
	return keep(c, e, err);
}

static bool out_of_budget(const struct chain *c)
{
	return in_hurry(c) || (c->limit > 0 && c->proposals >= c->limit);
}

/* Used share of the whole budget. */
static double budget_done(const struct chain *c)
{
	double done = 0;

	if (c->limit > 0)
		done = (double)c->proposals / (double)c->limit;
	if (c->opt->seconds > 0)
		done = fmax(done, c->seconds / c->opt->seconds);
	return done;
}

/* How far the current leg or round is; legs without a budget are rounds. */
static double phase_done(const struct chain *c)
{
	if (c->phase_length > 0)
		return (double)(c->proposals - c->phase_from) / (double)c->phase_length;
	return (budget_done(c) - c->share_from) / c->share;
}

/* Walks one leg or round from beta `hot` to `cold`. */
static int anneal(struct chain *c, double hot, double cold, struct ff_error *err)
{
	double done = 0;

	c->beta = hot;
	c->phase_from = c->proposals;
	while (!out_of_budget(c) && done < 1) {
		int code = step(c, err);

		if (code < 0)
			return code;
		if (c->proposals < c->next_tune &&
				(c->opt->seconds <= 0 || c->seconds - c->tuned < TUNE_SECONDS))
			continue;
		c->next_tune = c->proposals + TUNE_EVERY;
		c->tuned = c->seconds;
		done = phase_done(c);
		c->beta = hot * pow(cold / hot, fmin(done, 1));
	}
	return FF_OK;
}

/* Back to the best strategy, in one proposal: that keeps what the evaluator
 * remembers. */
static int return_to_best(struct chain *c, struct ff_error *err)
{
	struct ff_evaluation e;
	uint32_t n = 0;
	int code = FF_OK;

	if (c->unsaved)
		return FF_OK;
	if (c->rephased) {
		code = go_to(c, &c->best, err);
		c->rephased = false;
	}
	for (uint32_t i = 0; i < c->n_changed; i++) {
		uint32_t node = c->changed[i];

		c->is_changed[node] = false;
		if (ff_config_equal(&c->graph->nodes[node], &c->best.config[node],
				    &c->current.config[node]))
			continue;
		c->back[n++] = (struct ff_change){node, c->best.config[node]};
		c->current.config[node] = c->best.config[node];
	}
	c->n_changed = 0;
	if (!n || code < 0)
		return code;
	code = ff_evaluator_propose(c->evaluator, c->back, n, &e, err);
	if (code < 0)
		return code;
	ff_evaluator_keep(c->evaluator);
	c->at = e;
	look_at_clock(c);
	return FF_OK;
}

static double preset_beta(const struct chain *c)
{
	return c->opt->beta > 0 ? c->opt->beta : BETA_PER_NODE * c->frame->proposer.n_nodes;
}

/* Takes over the best of all chains, if it is another's. */
static int exchange(struct chain *c, struct ff_error *err)
{
	int code = c->unsaved ? save_best(c, err) : FF_OK;

	c->next_exchange += EXCHANGE_SHARE;
	if (code < 0 || c->n_chains == 1)
		return code;
	if (ff_crew_exchange(c->crew, c->number, &c->best, c->at_saved, &c->adopted))
		code = go_to(c, &c->adopted, err);
	return code;
}

static int walk_rounds(struct chain *c, struct ff_error *err)
{
	double beta = preset_beta(c);
	uint64_t length = (uint64_t)ROUND_PER_NODE * c->frame->proposer.n_nodes;

	c->phase_length = length > ROUND_LEAST ? length : ROUND_LEAST;
	for (uint64_t round = 1; !out_of_budget(c); round++) {
		uint32_t heat = (uint32_t)__builtin_ctzll(round);
		int code = FF_OK;

		while (code == FF_OK && c->next_exchange <= budget_done(c) && c->next_exchange < 1)
			code = exchange(c, err);
		if (code == FF_OK)
			code = return_to_best(c, err);

		if (code == FF_OK)
			code = anneal(c,
					beta / BETA_RANGE / pow(4, heat < HEATS ? heat : HEATS - 1),
					beta * BETA_RANGE, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

static bool elimination_ends(void *ctx)
{
	struct chain *c = ctx;

	look_at_clock(c);
	if (in_hurry(c))
		return true;
	if (c->limit > 0 &&
			++c->elimination_calls >
					ELIMINATION_CALLS + ELIMINATION_SHARE * (double)c->limit)
		return true;
	return c->opt->seconds > 0 &&
	       c->seconds - c->elimination_from > ELIMINATION_SHARE * c->opt->seconds;
}

/* The best of pipelines of 2, 4, 8 and so on stages. */
static int start_pipeline(struct chain *c, struct ff_arena *a, bool *found, struct ff_error *err)
{
	struct ff_evaluation best = {.step_us = INFINITY, .over_bytes = INT64_MAX};
	struct ff_strategy s, kept;
	char name[32];
	int code = FF_OK;

	*found = false;
	for (uint32_t n = 2; n <= c->machine->n_devices && n <= MOST_STAGES; n *= 2) {
		if (c->space->n_micro < 2 || in_hurry(c))
			break;
		snprintf(name, sizeof(name), "pipeline-%u", n);
		code = ff_init_strategy(
				name, c->space, c->graph, c->machine, c->opt->seed, a, &s, err);
		if (code == FF_OK)
			code = go_to(c, &s, err);
		if (code < 0)
			return code;
		if (*found && ff_how_much_worse(best, c->at) >= 0)
			continue;
		*found = true;
		kept = s;
		best = c->at;
	}
	return *found ? go_to(c, &kept, err) : code;
}

/* Makes the start called `name` current; not *found: there is none. */
static int start_from(struct chain *c, const char *name, const struct ff_machine *m,
		struct ff_arena *a, bool *found, struct ff_error *err)
{
	struct ff_strategy start;
	int code;

	if (!strcmp(name, "pipeline"))
		return start_pipeline(c, a, found, err);
	*found = strcmp(name, "frugal") || !c->at_best.fits || c->at_best.tight;
	if (!*found)
		return FF_OK; /* nobody needs to save memory */
	if (strcmp(name, "elimination") != 0) {
		code = ff_init_strategy(name, c->space, c->graph, m, c->opt->seed, a, &start, err);
		return code == FF_OK ? go_to(c, &start, err) : code;
	}
	*found = false;
	if (!c->opt->pricer)
		return FF_OK;
	c->elimination_from = c->seconds;
	code = c->unsaved ? save_best(c, err) : FF_OK;
	if (code == FF_OK)
		code = ff_search_eliminate(c->space, c->evaluator, c->graph, m, c->opt->pricer,
				elimination_ends, c, a, &start, found, err);
	return code == FF_OK && *found ? go_to(c, &start, err) : code;
}

/* Whether start number `i` of `n` is this chain's.  Elimination is the first's, whose
 * pricer is at hand; who has none begins with what comes round again. */
static bool is_mine(const struct chain *c, const char *const *starts, uint32_t i, uint32_t n)
{
	if (!strcmp(starts[i], "elimination"))
		return c->number == 0;
	return c->number < n ? i % c->n_chains == c->number : i == c->number % n;
}

static int walk_legs(struct chain *c, struct ff_error *err)
{
	const char *const *starts = c->opt->starts ? c->opt->starts : preset_starts;
	double beta = preset_beta(c);
	uint32_t n = 0, legs = 0, leg = 0;
	bool any = false, found;
	int code = FF_OK;

	while (starts[n])
		n++;
	for (uint32_t i = 0; i < n; i++)
		legs += is_mine(c, starts, i, n);
	if (c->limit == 0 && c->opt->seconds <= 0)
		c->phase_length =
				ROUND_LEAST + (uint64_t)ROUND_PER_NODE * c->frame->proposer.n_nodes;
	c->share = legs ? LEGS_SHARE / legs : LEGS_SHARE;
	for (uint32_t i = 0; i < n && (leg == 0 || !in_hurry(c)); i++) {
		if (!is_mine(c, starts, i, n))
			continue;
		code = start_from(c, starts[i], c->machine, c->arena, &found, err);
		any = any || found;
		c->share_from = leg++ * c->share;
		if (code == FF_OK && found && c->frame->proposer.n_nodes > 0)
			code = anneal(c, beta / BETA_RANGE, beta * BETA_RANGE, err);
		if (code < 0)
			return code;
	}
	/* where elimination was to be the only one and came to nothing */
	return any ? FF_OK : start_from(c, preset_starts[0], c->machine, c->arena, &found, err);
}

static void *walk(void *chain)
{
	struct chain *c = chain;
	struct ff_error *err = &c->error;
	int code = chain_init(c, c->arena, err);

	c->next_exchange = LEGS_SHARE;
	if (code == FF_OK)
		code = walk_legs(c, err);
	if (code == FF_OK && c->frame->proposer.n_nodes > 0)
		code = walk_rounds(c, err);
	if (code == FF_OK && c->unsaved)
		code = save_best(c, err);
	c->code = code;
	if (code < 0)
		c->crew->stop = true;
	ff_crew_leave(c->crew);
	return NULL;
}

/* Walks all chains, the first in this thread. */
static int walk_all(struct chain *chain, uint32_t n, struct ff_error *err)
{
	uint32_t started = 1;
	int code = FF_OK;

	for (; started < n; started++)
		if (pthread_create(&chain[started].thread, NULL, walk, &chain[started]) != 0) {
			code = ff_fail(err, FF_E_RUN, "cannot start thread %u of %u", started, n);
			chain->crew->stop = true;
			break;
		}
	for (uint32_t i = started; i < n; i++)
		ff_crew_leave(chain->crew);
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

/* The best of all chains; of equals the first chain's. */
static int collect(const struct chain *chain, uint32_t n, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err)
{
	const struct chain *best = &chain[0];
	struct ff_search_result r = {.proposals = 0};
	int code = ff_strategy_create(chain->graph, a, &r.best, err);

	for (uint32_t i = 0; i < n; i++) {
		if (ff_how_much_worse(best->at_best, chain[i].at_best) < 0)
			best = &chain[i];
		r.proposals += chain[i].proposals;
		r.accepted += chain[i].accepted;
	}
	if (code < 0)
		return code;
	if (!best->at_best.fits)
		return ff_fail(err, FF_E_NOFIT,
				"graph %s on machine %s: no strategy that fits in memory was found "
				"in %llu proposals; the closest lacks %lld bytes on all devices "
				"together",
				chain->graph->name, chain->machine->name,
				(unsigned long long)r.proposals,
				(long long)best->at_best.over_bytes);
	ff_strategy_copy(&r.best, &best->best);
	r.evaluation = best->at_best;
	r.seconds = ff_clock_us() / 1e6 - chain->from;
	*ret = r;
	return FF_OK;
}

int ff_search_mcmc(const struct ff_space *s, struct ff_evaluator *e, const struct ff_graph *g,
		const struct ff_machine *m, const struct ff_search_options *opt, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err)
{
	const struct ff_evaluation nothing = {.step_us = INFINITY, .over_bytes = INT64_MAX};
	uint32_t n = 1 + opt->n_more;
	double from = ff_clock_us() / 1e6;
	struct ff_arena own;
	struct chain *chain;
	struct ff_crew crew;
	int code;

	if (opt->starts && !opt->starts[0])
		return ff_fail(err, FF_E_INPUT, "a search needs a starting strategy");
	if (opt->proposals == 0 && opt->seconds <= 0 && !opt->progress)
		return ff_fail(err, FF_E_INPUT,
				"a search needs a budget: a number of proposals or of seconds");
	if (opt->proposals > 0 && n > opt->proposals)
		n = (uint32_t)opt->proposals;
	ff_arena_init(&own);
	chain = ff_arena_array(&own, n, sizeof(*chain));
	code = chain ? ff_crew_init(&crew, g, n, &own, err) : ff_fail_memory(err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		chain[i] = (struct chain){.crew = &crew,
				.number = i,
				.n_chains = n,
				.space = s,
				.evaluator = i ? opt->more[i - 1] : e,
				.graph = g,
				.machine = m,
				.opt = opt,
				.from = from,
				.at_best = nothing,
				.at_saved = nothing,
				.limit = opt->proposals / n + (i < opt->proposals % n)};
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
			ff_arena_finish(chain[i].arena);
		}
		ff_crew_finish(&crew);
	}
	ff_arena_finish(&own);
	return code;
}
