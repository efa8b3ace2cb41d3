/* One chain of a search: its strategy, the best it has seen, and its steps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include <math.h>
#include <string.h>

#include "best.h"
#include "ff/cli.h"
#include "propose/listed.h"
#include "propose/propose.h"

#define BETA_PER_NODE 64.0  /* preset: what one operator can change is so much less of the whole */
#define TUNE_EVERY 16       /* proposals between changes of beta, */
#define TUNE_SECONDS 0.01   /* or this long, where the budget is time */
#define REPORT_EVERY 256    /* proposals between progress calls, */
#define REPORT_SECONDS 0.05 /* or this long */
/* One proposal in so many changes phases, where that matters: more where memory is scarce,
 * and where that has helped: half, and a part of so many more again if it has not */
#define LEAP_EVERY 256.0
#define LEAP_EVERY_TIGHT 64.0
#define LEAP_EVERY_LEAST 16.0
#define LEAP_FORGETS 16
#define SURE_AFTER 0.125  /* of a start's walk, it is known where it leads */
#define CLOSE 0.1         /* in logarithms: a start that is no further behind may lead elsewhere */
#define RUN_PER_NODE 5000 /* proposals for each operator, from one restart to the next */

static void mark_changed(struct ff_chain *c, uint32_t node)
{
	if (c->best.is_changed[node])
		return;
	c->best.is_changed[node] = true;
	c->best.changed[c->best.n_changed++] = node;
}

static void note_if_best(struct ff_chain *c)
{
	if (ff_how_much_worse(c->best.at, c->at) >= 0)
		return;
	c->best.at = c->at;
	c->best.unsaved = true;
	c->best.laid_out = false;
}

int ff_chain_init(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	uint32_t n = c->graph->n_nodes;
	int code = ff_phases_init(&c->phases, c->space, c->graph, c->machine, c->opt->seed,
			c->number, a, err);

	c->phases.evaluator = c->evaluator;
	if (code == FF_OK)
		code = ff_orders_init(&c->orders, c->graph, c->opt->seed, c->number, a, err);
	if (code == FF_OK)
		code = ff_elite_init(&c->elite, c->graph, a, err);
	if (code == FF_OK)
		code = ff_elite_init(&c->run.ends, c->graph, a, err);
	if (code == FF_OK && c->opt->top > 1)
		code = ff_shapes_init(&c->notes.shapes, c->graph, 2 * c->opt->top, a, err);
	if (code == FF_OK)
		code = ff_phases_frame(&c->phases, 1, &c->frame, err);
	if (code == FF_OK)
		code = ff_transaction_init(c->graph, a, &c->proposed, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->current, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->best.strategy, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->adopted, err);
	if (code == FF_OK)
		code = ff_strategy_create(c->graph, a, &c->leap, err);
	if (code < 0)
		return code;
	c->best.changed = ff_arena_array(a, n, sizeof(*c->best.changed));
	c->best.is_changed = ff_arena_array(a, n, sizeof(*c->best.is_changed));
	c->best.back = ff_arena_array(a, n, sizeof(*c->best.back));
	if (!c->best.changed || !c->best.is_changed || !c->best.back)
		return ff_fail_memory(err);
	c->random.seed = c->opt->seed;
	c->random.stream = ff_philox_stream(c->number, 'a');
	c->clock.reported = c->clock.from;
	c->run.leap_every = LEAP_EVERY;
	c->best.too_tight_bytes = INT64_MIN;
	ff_evaluator_reject_early(c->evaluator, true);
	return FF_OK;
}

/* Of this run and those before it. */
static double least_us(const struct ff_chain *c)
{
	double us = c->best.at.fits ? c->best.at.step_us : INFINITY;

	return c->elite.n && c->elite.at[0].fits ? fmin(us, c->elite.at[0].step_us) : us;
}

/* After every evaluation: on a large graph one may take a tenth of a second. */
void ff_chain_look(struct ff_chain *c)
{
	double now = ff_clock_us() / 1e6;

	c->clock.seconds = now - c->clock.from;
	c->stop = c->stop || c->pool->stop;
	if (c->proposals < c->clock.next_report && now - c->clock.reported < REPORT_SECONDS)
		return;
	c->clock.next_report = c->proposals + REPORT_EVERY;
	c->clock.reported = now;
	c->pool->proposals += c->proposals - c->clock.counted;
	c->clock.counted = c->proposals;
	if (c->number > 0 || !c->opt->progress || c->stop)
		return;
	c->stop = c->opt->progress(c->opt->ctx, c->pool->proposals, c->clock.seconds, least_us(c));
	if (c->stop)
		c->pool->stop = true;
}

/* Whether the time is up, or the caller wants to stop: what is going on is left
 * as it is. */
bool ff_chain_in_hurry(const struct ff_chain *c)
{
	return c->stop || (c->opt->seconds > 0 && ff_chain_has_to_end(c));
}

/* Shows a strategy to the caller. */
static void show(struct ff_chain *c, const struct ff_strategy *s, struct ff_evaluation e)
{
	if (!c->opt->visit)
		return;
	pthread_mutex_lock(&c->pool->mutex);
	c->opt->visit(c->opt->visit_ctx, s, e);
	pthread_mutex_unlock(&c->pool->mutex);
}

/* `s` is what the evaluator holds. */
static int adopt(struct ff_chain *c, const struct ff_strategy *s, struct ff_evaluation e,
		struct ff_error *err)
{
	struct ff_frame *was = c->frame;
	int code;

	c->at = e;
	c->best.rephased = true;
	ff_strategy_copy(&c->current, s);
	for (uint32_t i = 0; i < c->graph->n_nodes; i++)
		mark_changed(c, i);
	note_if_best(c);
	code = ff_phases_frame(&c->phases, s->micro_batches, &c->frame, err);
	if (code == FF_OK && c->frame != was)
		ff_proposer_focus(&c->frame->proposer, 0, c->frame->proposer.n_all);
	return code;
}

/* Makes `s` the current strategy. */
int ff_chain_go_to(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_evaluation e;
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	if (code == FF_OK)
		code = ff_evaluator_set(c->evaluator, s, &e, err);
	if (code == FF_OK)
		code = adopt(c, s, e, err);
	if (code < 0)
		return code;
	if (c->notes.shapes.most && e.fits)
		ff_shapes_add(&c->notes.shapes, s, e.step_us);
	show(c, &c->current, c->at);
	ff_chain_look(c);
	return FF_OK;
}

/* By how much a proposal may be worse, drawn before it is looked at: it is accepted
 * with probability exp(-beta * worse). */
static double draw_patience(struct ff_chain *c)
{
	return -log(1 - ff_random_unit(&c->random)) / c->run.beta;
}

/* Exchanges the configs of the current strategy and those of the proposal. */
static void swap_configs(struct ff_chain *c)
{
	for (uint32_t i = 0; i < c->proposed.n; i++) {
		struct ff_change *change = &c->proposed.change[i];
		struct ff_config was = c->current.config[change->node];

		c->current.config[change->node] = change->config;
		change->config = was;
	}
}

/* Shows the proposed strategy to the caller. */
static void visit(struct ff_chain *c, struct ff_evaluation e)
{
	swap_configs(c);
	show(c, &c->current, e);
	swap_configs(c);
}

/* Makes the strategy proposed last the current one. */
static int keep(struct ff_chain *c, struct ff_evaluation e, struct ff_error *err)
{
	int code = FF_OK;

	if (c->best.unsaved && ff_how_much_worse(c->best.at, e) > 0)
		code = ff_chain_save_on_the_way(c, err);
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

/* What a proposal may take at most.  What does not fit may be followed by anything that
 * lacks less, and the caller wants to see all. */
static double limit_us(const struct ff_chain *c, double patience)
{
	return c->at.fits && !c->opt->visit ? c->at.step_us * (1 + patience) : INFINITY;
}

/* Rounding must not decide: by so much more they may lack, and are compared then. */
#define MARGIN_BYTES 4096

/* How many bytes it may lack at most: none, where the current strategy lacks none. */
static int64_t limit_over(const struct ff_chain *c, double patience)
{
	double most = (double)c->at.over_bytes * (1 + patience) + MARGIN_BYTES;

	if (c->at.fits && !c->opt->visit)
		return 0;
	return most < (double)(INT64_MAX / 2) && !c->opt->visit ? (int64_t)most : INT64_MAX;
}

/* Whether a parameter would have no config, and be gathered again all the same: no strategy file
 * says so (ff_strategy_settle), and what it says may not fit. */
static bool cannot_be_written(const struct ff_chain *c)
{
	const struct ff_transaction *t = &c->proposed;

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t node = t->change[i].node;

		if (c->current.recompute[node] && ff_node_is_parameter(c->graph, node) &&
				!t->change[i].config.n_parts && !t->change[i].config.flat)
			return true;
	}
	return false;
}

/* Asks the evaluator for what is proposed; *worse: it is not accepted, and forgotten. */
static int propose(struct ff_chain *c, double patience, bool *worse, struct ff_evaluation *e,
		struct ff_error *err)
{
	const struct ff_transaction *t = &c->proposed;
	struct ff_most most = {limit_us(c, patience), limit_over(c, patience)};

	return ff_evaluator_propose_within(c->evaluator, t->change, t->n, most, worse, e, err);
}

/* How many proposals go by until the next leap, on average. */
static uint32_t leap_every(const struct ff_chain *c)
{
	return (uint32_t)fmin(c->run.leap_every, c->at.tight ? LEAP_EVERY_TIGHT : LEAP_EVERY);
}

static void learn_leap(struct ff_chain *c, bool helped)
{
	uint32_t half = leap_every(c) / 2;

	if (helped)
		c->run.leap_every = fmax(half, LEAP_EVERY_LEAST);
	else
		c->run.leap_every = fmin(c->run.leap_every * (1 + 1.0 / LEAP_FORGETS), LEAP_EVERY);
}

/* Orders that differ in everything must pay at once; those that differ a little are walked
 * (order.c). */
static bool is_welcome(const struct ff_chain *c, struct ff_evaluation e, double patience)
{
	size_t size = c->graph->n_nodes * sizeof(*c->leap.priority);
	double worse = ff_how_much_worse(c->at, e);

	if (memcmp(c->leap.priority, c->current.priority, size) != 0)
		return worse < 0;
	return worse <= patience;
}

int ff_chain_try_leap(
		struct ff_chain *c, double patience, bool *helped, bool *kept, struct ff_error *err)
{
	struct ff_evaluation e;
	bool slower = false;
	int code = ff_evaluator_try(
			c->evaluator, &c->leap, limit_us(c, patience), &slower, &e, err);

	*kept = false;
	if (code < 0)
		return code;
	c->proposals++;
	*helped = !slower && ff_how_much_worse(c->at, e) < 0;
	if (!slower)
		show(c, &c->leap, e);
	ff_chain_look(c);
	if (slower || !is_welcome(c, e, patience))
		return FF_OK;
	ff_evaluator_take(c->evaluator);
	c->accepted++;
	*kept = true;
	return adopt(c, &c->leap, e, err);
}

/* Proposes other phases. */
static int leap(struct ff_chain *c, double patience, struct ff_error *err)
{
	bool changed, helped, kept;
	int code = c->best.unsaved ? ff_chain_save_on_the_way(c, err) : FF_OK;

	if (code == FF_OK)
		code = ff_phases_draw(&c->phases, &c->current, c->at, &c->leap, &changed, err);
	if (code < 0 || !changed)
		return code;
	code = ff_chain_try_leap(c, patience, &helped, &kept, err);
	if (code == FF_OK)
		learn_leap(c, helped);
	return code;
}

/* The current strategy and what was drawn exchange their priorities. */
static void swap_priorities(struct ff_chain *c)
{
	int32_t *was = c->current.priority;

	c->current.priority = c->leap.priority;
	c->leap.priority = was;
}

/* Shows the current strategy in the order proposed. */
static void visit_order(struct ff_chain *c, struct ff_evaluation e)
{
	swap_priorities(c);
	show(c, &c->current, e);
	swap_priorities(c);
}

/* Makes the order proposed last the current one. */
static int keep_order(struct ff_chain *c, struct ff_evaluation e, struct ff_error *err)
{
	int code;

	ff_transaction_clear(&c->proposed);
	code = keep(c, e, err);
	swap_priorities(c);
	c->best.rephased = true;
	return code;
}

/* How a proposal of a kind is shown and kept. */
struct manner {
	void (*visit)(struct ff_chain *c, struct ff_evaluation e);
	int (*keep)(struct ff_chain *c, struct ff_evaluation e, struct ff_error *err);
};
static const struct manner as_splits = {visit, keep}, as_order = {visit_order, keep_order};

/* What is proposed costs `e`, unless it is `slower` than was looked at, and gone: kept or dropped.
 */
static int settle(struct ff_chain *c, const struct manner *as, double patience, bool slower,
		struct ff_evaluation e, struct ff_error *err)
{
	c->proposals++;
	if (c->opt->visit)
		as->visit(c, e);
	ff_chain_look(c);
	if (slower)
		return FF_OK;
	if (ff_how_much_worse(c->at, e) > patience) {
		ff_evaluator_drop(c->evaluator);
		return FF_OK;
	}
	c->accepted++;
	return as->keep(c, e, err);
}

/* The same, and its kind is drawn more or less often. */
static int decide(struct ff_chain *c, const struct manner *as, double patience, bool slower,
		struct ff_evaluation e, struct ff_error *err)
{
	ff_proposer_learn(&c->frame->proposer, !slower && ff_how_much_worse(c->at, e) < 0);
	return settle(c, as, patience, slower, e, err);
}

/* Proposes that some operators are issued earlier or later. */
static int reorder(struct ff_chain *c, double patience, struct ff_error *err)
{
	const struct ff_proposer *p = &c->frame->proposer;
	bool slower = false, changed, is_all = p->n_nodes == p->n_all;
	struct ff_evaluation e;
	int code;

	ff_orders_focus(&c->orders, is_all ? 0 : p->node[0],
			is_all ? UINT32_MAX : p->node[p->n_nodes - 1]);
	code = ff_orders_draw(&c->orders, &c->current, c->leap.priority, &changed, err);
	if (code < 0)
		return code;
	if (!changed) {
		ff_proposer_learn(&c->frame->proposer, false);
		return FF_OK;
	}
	code = ff_evaluator_reorder(
			c->evaluator, c->leap.priority, limit_us(c, patience), &slower, &e, err);
	if (code < 0)
		return code;
	return decide(c, &as_order, patience, slower, e, err);
}

/* So many proposals were asked for, and made. */
static bool has_no_more(const struct ff_chain *c)
{
	return c->clock.limit > 0 && c->proposals >= c->clock.limit;
}

int ff_chain_list(struct ff_chain *c, struct ff_error *err)
{
	struct ff_evaluation e;
	bool slower = false;
	int code;

	if (!c->frame->may_reorder || has_no_more(c))
		return FF_OK;
	code = ff_list_order(c->graph, &c->current, c->evaluator, c->leap.priority, err);
	if (code == FF_OK)
		code = ff_evaluator_reorder(
				c->evaluator, c->leap.priority, limit_us(c, 0), &slower, &e, err);
	return code == FF_OK ? settle(c, &as_order, 0, slower, e, err) : code;
}

static int step(struct ff_chain *c, struct ff_error *err)
{
	double patience = draw_patience(c);
	struct ff_evaluation e;
	bool slower;
	int code;

	if (ff_phases_matter(&c->phases, &c->current, c->at) &&
			ff_random_below(&c->random, leap_every(c)) == 0)
		return leap(c, patience, err);
	c->frame->proposer.orders = c->run.reorders && c->frame->may_reorder;
	c->frame->proposer.scarce = c->at.tight;
	ff_proposer_next(&c->frame->proposer, &c->current, &c->proposed);
	if (c->frame->proposer.kind == FF_PROPOSAL_ORDER)
		return reorder(c, patience, err);
	if (c->proposed.n == 0 || cannot_be_written(c)) {
		c->proposals++;
		ff_chain_look(c);
		return FF_OK;
	}
	code = propose(c, patience, &slower, &e, err);
	if (code < 0)
		return code;
	return decide(c, &as_splits, patience, slower, e, err);
}

int ff_chain_try(struct ff_chain *c, double patience, bool *kept, struct ff_error *err)
{
	uint64_t accepted = c->accepted;
	struct ff_evaluation e;
	bool slower;
	int code;

	*kept = false;
	if (cannot_be_written(c)) {
		c->proposals++;
		return FF_OK;
	}
	code = propose(c, patience, &slower, &e, err);
	if (code == FF_OK)
		code = settle(c, &as_splits, patience, slower, e, err);
	*kept = c->accepted > accepted;
	return code;
}

bool ff_chain_out_of_budget(const struct ff_chain *c)
{
	return ff_chain_in_hurry(c) || has_no_more(c);
}

/* Used share of the whole budget. */
double ff_chain_budget_done(const struct ff_chain *c)
{
	double done = 0;

	if (c->clock.limit > 0)
		done = (double)c->proposals / (double)c->clock.limit;
	if (c->opt->seconds > 0)
		done = fmax(done, c->clock.seconds / c->opt->seconds);
	return done;
}

/* How far the current start or round is: as many proposals, or as large a share of the budget, as
 * it may take. */
static double phase_done(const struct ff_chain *c)
{
	double done = 0;

	if (c->run.phase_length > 0)
		done = (double)(c->proposals - c->run.phase_from) / (double)c->run.phase_length;
	if (c->run.share > 0)
		done = fmax(done, (ff_chain_budget_done(c) - c->run.share_from) / c->run.share);
	return done;
}

/* How far the start that is walked was behind the best, and by how much it is less so: in bytes
 * where it lacked some, else in the logarithm of the step. */
static double lag(const struct ff_chain *c, double *gained)
{
	const struct ff_evaluation *begun = &c->run.begun, *least = &c->run.least;

	*gained = (double)(begun->over_bytes - least->over_bytes);
	if (!begun->fits)
		return (double)begun->over_bytes;
	*gained = log(begun->step_us / least->step_us);
	return log(begun->step_us / c->run.known.step_us);
}

bool ff_chain_leads_nowhere(const struct ff_chain *c, double done)
{
	double gained, behind;

	if (!c->run.is_start || !c->run.known.fits || done < SURE_AFTER)
		return false;
	behind = lag(c, &gained);
	if (c->run.begun.fits && behind < CLOSE)
		return false;
	return gained < done * behind;
}

/* Walks one start or round from beta `hot` to `cold`. */
int ff_chain_anneal(struct ff_chain *c, double hot, double cold, struct ff_error *err)
{
	double done = 0;

	c->run.beta = hot;
	c->run.phase_from = c->proposals;
	c->run.least = c->at;
	while (!ff_chain_out_of_budget(c) && done < 1 && !ff_chain_leads_nowhere(c, done)) {
		int code = step(c, err);

		if (code < 0)
			return code;
		if (ff_how_much_worse(c->run.least, c->at) < 0)
			c->run.least = c->at;
		if (c->proposals < c->clock.next_tune &&
				(c->opt->seconds <= 0 ||
						c->clock.seconds - c->clock.tuned < TUNE_SECONDS))
			continue;
		c->clock.next_tune = c->proposals + TUNE_EVERY;
		c->clock.tuned = c->clock.seconds;
		done = phase_done(c);
		c->run.beta = hot * pow(cold / hot, fmin(done, 1));
	}
	return FF_OK;
}

/* Back to the best strategy, in one proposal: that keeps what the evaluator
 * remembers. */
int ff_chain_return(struct ff_chain *c, struct ff_error *err)
{
	struct ff_evaluation e;
	uint32_t n = 0;
	int code = FF_OK;

	if (c->best.unsaved || !c->best.saved)
		return FF_OK;
	if (c->best.rephased) {
		code = ff_chain_go_to(c, &c->best.strategy, err);
		c->best.rephased = false;
	}
	for (uint32_t i = 0; i < c->best.n_changed; i++) {
		uint32_t node = c->best.changed[i];

		c->best.is_changed[node] = false;
		if (ff_config_equal(&c->graph->nodes[node], &c->best.strategy.config[node],
				    &c->current.config[node]))
			continue;
		c->best.back[n++] = (struct ff_change){node, c->best.strategy.config[node]};
		c->current.config[node] = c->best.strategy.config[node];
	}
	c->best.n_changed = 0;
	if (!n || code < 0)
		return code;
	code = ff_evaluator_propose(c->evaluator, c->best.back, n, &e, err);
	if (code < 0)
		return code;
	ff_evaluator_keep(c->evaluator);
	c->at = e;
	ff_chain_look(c);
	return FF_OK;
}

uint64_t ff_chain_run_length(const struct ff_chain *c)
{
	return (uint64_t)RUN_PER_NODE * c->frame->proposer.n_all;
}

void ff_chain_count_seed(struct ff_chain *c)
{
	double us = c->best.at_saved.step_us;

	if (!c->best.saved || !c->best.at_saved.fits)
		return;
	c->notes.seeds.least_us = c->notes.seeds.n ? fmin(c->notes.seeds.least_us, us) : us;
	c->notes.seeds.most_us = fmax(c->notes.seeds.most_us, us);
	c->notes.seeds.n++;
}

int ff_chain_retire(struct ff_chain *c, struct ff_error *err)
{
	const struct ff_evaluation nothing = {.step_us = INFINITY, .over_bytes = INT64_MAX};
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	if (code < 0)
		return code;
	ff_chain_count_seed(c);
	if (c->best.saved)
		ff_elite_add(&c->elite, &c->best.strategy, c->best.at_saved);
	c->best.saved = false;
	c->best.at = c->best.at_saved = nothing;
	return code;
}

int ff_chain_crossover(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err)
{
	const struct ff_proposer *p = &c->frame->proposer;
	int code;

	if (s->micro_batches > 1 || c->current.micro_batches > 1)
		return FF_OK;
	ff_strategy_copy(&c->leap, &c->current);
	for (uint32_t i = 0; i < c->graph->n_nodes; i++)
		if (ff_proposer_is_in_focus(p, i))
			c->leap.config[i] = s->config[i];
	ff_orders_focus(&c->orders, p->node[0], p->node[p->n_nodes - 1]);
	code = ff_orders_crossover(&c->orders, &c->current, s, c->leap.priority, err);
	return code == FF_OK ? ff_chain_go_to(c, &c->leap, err) : code;
}

double ff_chain_beta(const struct ff_chain *c)
{
	return c->opt->beta > 0 ? c->opt->beta : BETA_PER_NODE * c->frame->proposer.n_all;
}
