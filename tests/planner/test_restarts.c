/* Restarts of a chain: the elite, crossovers, and what comes of a search that has them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include <math.h>
#include <string.h>

#include "../../planner/mcmc/relink.h"
#include "../../planner/propose/order.h"
#include "ff/cli.h"
#include "ff/node_class.h"
#include "ff/simulate.h"
#include "ff/zoo.h"
#include "fixture.h"

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* Whatever comes in whatever order, the least are there, ascending, each with its strategy. */
START_TEST(test_elite)
{
	struct ff_graph g = fixture_mlp(16, 8, 8, 8, &arena);
	struct ff_random r = {.seed = ff_test_seed(21)};
	struct ff_error err = {0};
	struct ff_strategy s;

	CHECK_OK(ff_strategy_create(&g, &arena, &s, &err));
	for (uint32_t k = 0; k < 200; k++) {
		uint32_t n = 1 + ff_random_below(&r, 3 * FF_ELITE), us[3 * FF_ELITE];
		struct ff_elite elite;

		CHECK_OK(ff_elite_init(&elite, &g, &arena, &err));
		for (uint32_t i = 0; i < n; i++) {
			us[i] = 1 + ff_random_below(&r, 30);
			s.priority[0] = (int32_t)us[i];
			ff_elite_add(&elite, &s, (struct ff_evaluation){us[i], .fits = true});
		}
		ck_assert_uint_eq(elite.n, n < FF_ELITE ? n : FF_ELITE);
		for (uint32_t i = 0; i < elite.n; i++) {
			uint32_t before = 0, equal = 0;

			for (uint32_t j = 0; j < n; j++) {
				before += us[j] < elite.at[i].step_us;
				equal += us[j] == elite.at[i].step_us;
			}
			ck_assert(before <= i && i < before + equal);
			ck_assert_int_eq(elite.best[i].priority[0], (int32_t)elite.at[i].step_us);
		}
	}
}
END_TEST

/* Places in an order of those with a config. */
static void list_row(const struct ff_graph *g, const uint32_t *order, uint32_t *row, uint32_t *n)
{
	*n = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, order[i]))
			row[(*n)++] = order[i];
}

static void draw_order(const struct ff_graph *g, struct ff_random *r, struct ff_strategy *s,
		uint32_t *row, uint32_t *n)
{
	uint32_t *order = ff_arena_array(&arena, g->n_nodes, sizeof(*order));
	struct ff_error err = {0};

	for (uint32_t i = 0; i < g->n_nodes; i++)
		s->priority[i] = (int32_t)ff_random_below(r, 1000);
	CHECK_OK(ff_strategy_order(g, s, &arena, order, &err));
	list_row(g, order, row, n);
}

/* Who is not in the focus keeps its place; the others follow each other as in the other strategy.
 */
START_TEST(test_crossover)
{
	struct ff_random r = {.seed = ff_test_seed(22)};
	uint32_t *row, *other_row, n, n_other, moved = 0;
	struct ff_strategy s, other;
	struct ff_error err = {0};
	struct ff_orders o;
	struct ff_graph g;
	int32_t *priority;

	CHECK_OK(ff_zoo_build("branchnet", 16, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_strategy_create(&g, &arena, &s, &err));
	CHECK_OK(ff_strategy_create(&g, &arena, &other, &err));
	CHECK_OK(ff_orders_init(&o, &g, 1, 0, &arena, &err));
	row = ff_arena_array(&arena, g.n_nodes, sizeof(*row));
	other_row = ff_arena_array(&arena, g.n_nodes, sizeof(*other_row));
	priority = ff_arena_array(&arena, g.n_nodes, sizeof(*priority));
	for (uint32_t k = 0; k < 200; k++) {
		uint32_t first = ff_random_below(&r, g.n_nodes);
		uint32_t last = first + ff_random_below(&r, g.n_nodes - first), at = 0;

		draw_order(&g, &r, &s, row, &n);
		draw_order(&g, &r, &other, other_row, &n_other);
		ck_assert_uint_eq(n, n_other);
		ff_orders_focus(&o, first, last);
		CHECK_OK(ff_orders_crossover(&o, &s, &other, priority, &err));
		for (uint32_t i = 0; i < n; i++) {
			uint32_t node = row[i];

			if (node >= first && node <= last) {
				while (other_row[at] < first || other_row[at] > last)
					at++;
				node = other_row[at++];
			}
			moved += node != row[i];
			ck_assert_int_eq(priority[node], -(int32_t)i - 1);
		}
	}
	ck_assert_uint_gt(moved, 100);
	ff_orders_finish(&o);
}
END_TEST

struct watch {
	double least_us;
	uint32_t calls;
};

/* What a search says that it has found never gets worse. */
static bool watch(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	struct watch *w = ctx;

	(void)proposals;
	(void)seconds;
	ck_assert_double_le(best_us, w->least_us);
	w->least_us = best_us;
	w->calls++;
	return false;
}

static struct ff_search_result search(const struct ff_graph *g, const struct ff_machine *m,
		int64_t limit, uint64_t proposals)
{
	struct watch w = {INFINITY, 0};
	struct ff_search_options opt = {.seed = ff_test_seed(23),
			.proposals = proposals,
			.progress = watch,
			.ctx = &w};
	struct ff_search_result found;
	struct ff_simulation sim;
	struct ff_schedule lowered;
	struct ff_evaluator *e;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_space *space;

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	CHECK_OK(ff_space_create(g, m, &space, &err));
	ff_space_allow(space,
			FF_SPACE_UPDATES | FF_SPACE_REPLICAS | FF_SPACE_MICRO | FF_SPACE_RECOMPUTE);
	CHECK_OK(ff_evaluator_create(g, m, pricer, limit, 0, &e, &err));
	CHECK_OK(ff_search_mcmc(space, e, g, m, &opt, &arena, &found, &err));
	CHECK_OK(ff_lower(g, m, &found.best,
			&(struct ff_lower_options){.workspace = ff_price_workspace, .ctx = pricer},
			&arena, &lowered, &err));
	CHECK_OK(ff_simulate(&lowered, pricer, &arena, &sim, &err));
	ck_assert(sim.step_us == found.evaluation.step_us);
	ck_assert_double_le(found.evaluation.step_us, w.least_us);
	ck_assert_uint_ge(found.proposals, proposals);
	ck_assert_uint_gt(w.calls, 2);
	for (uint32_t i = 0; i < m->n_devices && limit; i++)
		ck_assert_int_le(lowered.memory_bytes[i], limit);
	ff_evaluator_destroy(e);
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
	return found;
}

/* A budget for several runs: the best of them comes out, costs what it costs afresh, and comes
 * out again with the same seed, with memory to spare and without. */
START_TEST(test_restarts)
{
	struct ff_graph g = fixture_mlp(64, 256, 512, 64, &arena);
	struct ff_machine m = fixture_devices(4, &arena);
	const int64_t limits[] = {0, 1000000 + fixture_scratch(&g, &m, &arena)};

	for (int k = 0; k < 2; k++) {
		struct ff_search_result a = search(&g, &m, limits[k], 90000);
		struct ff_search_result b = search(&g, &m, limits[k], 90000);

		ck_assert(a.evaluation.step_us == b.evaluation.step_us);
		ck_assert_uint_eq(a.proposals, b.proposals);
		ck_assert_uint_eq(a.accepted, b.accepted);
		for (uint32_t i = 0; i < g.n_nodes; i++)
			ck_assert(ff_config_equal(&g.nodes[i], &a.best.config[i],
						  &b.best.config[i]) &&
					a.best.priority[i] == b.best.priority[i]);
		printf("# %.3f us\n", a.evaluation.step_us);
	}
}
END_TEST

/* A start that is slower than the best is left once its pace does not reach that, by factors; one
 * that lacks memory likewise, by bytes.  None is left at once, nor the best, nor what is close to
 * it, nor where nothing fits. */
START_TEST(test_starts_are_left)
{
	const struct ff_evaluation best = {.step_us = 100, .fits = true};
	const struct ff_evaluation slow = {.step_us = 1600, .fits = true}, half = {400, true};
	const struct ff_evaluation close = {109, true}, far = {112, true};
	const struct ff_evaluation large = {.step_us = 50, .over_bytes = 1000};
	const struct ff_evaluation smaller = {.step_us = 50, .over_bytes = 500};
	const struct {
		struct ff_evaluation known, begun, least;
		double sure, nowhere; /* shares of the walk: it goes on at one, not at the other */
	} row[] = {
			{best, slow, slow, 0.1, 0.2},
			{best, slow, half, 0.49, 0.51},
			{best, slow, best, 1, 2},
			{best, best, best, 1, 2},
			{best, close, close, 1, 2},
			{best, far, far, 0.1, 0.2},
			{best, large, large, 0.1, 0.2},
			{best, large, smaller, 0.49, 0.51},
			{best, large, slow, 0.99, 2},
			{large, slow, slow, 1, 2},
	};
	struct ff_chain c = {.run = {.is_start = true}};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		c.run.known = row[i].known;
		c.run.begun = row[i].begun;
		c.run.least = row[i].least;
		ck_assert_msg(!ff_chain_leads_nowhere(&c, row[i].sure), "row %zu is left", i);
		ck_assert_msg(row[i].nowhere > 1 || ff_chain_leads_nowhere(&c, row[i].nowhere),
				"row %zu goes on", i);
	}
	c.run.is_start = false;
	c.run.known = best;
	c.run.begun = c.run.least = slow;
	ck_assert(!ff_chain_leads_nowhere(&c, 0.5));
}
END_TEST

/* Strategies in the order in which a search shows them. */
struct shown {
	const struct ff_graph *g;
	struct ff_strategy s[256];
	uint32_t n, again; /* those that were shown before */
};

static bool is_equal(
		const struct ff_graph *g, const struct ff_strategy *a, const struct ff_strategy *b)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!ff_config_equal(&g->nodes[i], &a->config[i], &b->config[i]) ||
				a->stage[i] != b->stage[i])
			return false;
	return true;
}

static void note(void *ctx, const struct ff_strategy *s, struct ff_evaluation e)
{
	struct shown *v = ctx;
	struct ff_error err = {0};
	uint32_t i = 0;

	(void)e;
	while (i < v->n && !is_equal(v->g, &v->s[i], s))
		i++;
	v->again += i < v->n;
	if (i < v->n || v->n == sizeof(v->s) / sizeof(v->s[0]))
		return;
	CHECK_OK(ff_strategy_create(v->g, &arena, &v->s[v->n], &err));
	ff_strategy_copy(&v->s[v->n++], s);
}

/* A family is sought once: its best are shown again when their buckets are tuned, the best of them
 * when its walk begins, and no other is. */
START_TEST(test_families_are_sought_once)
{
	static const char *const starts[] = {"tables", NULL};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){2, 4, true, (int64_t)1 << 34, 4e4, 1e4}, &arena);
	struct shown v = {.n = 0};
	struct ff_search_options opt = {.proposals = 1,
			.seeds = 1,
			.starts = starts,
			.visit = note,
			.visit_ctx = &v};
	struct ff_search_result found;
	struct ff_evaluator *e;
	struct ff_pricer *pricer;
	struct ff_error err = {0};
	struct ff_space *space;
	struct ff_graph g;

	v.g = &g;
	CHECK_OK(ff_zoo_build("dlrm", 64, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_pricer_create(&g, &m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	CHECK_OK(ff_evaluator_create(&g, &m, pricer, 0, 0, &e, &err));
	CHECK_OK(ff_search_mcmc(space, e, &g, &m, &opt, &arena, &found, &err));
	ck_assert_uint_gt(v.n, 20);
	ck_assert_uint_lt(v.n, sizeof(v.s) / sizeof(v.s[0]));
	ck_assert_uint_eq(v.again, FF_MEMBERS + 1);
	ff_evaluator_destroy(e);
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
}
END_TEST

/* By sample, but operators before or behind the middle are on one device. */
static struct ff_strategy half_alone(const struct ff_graph *g, uint32_t n_devices, bool behind)
{
	struct ff_strategy s, single;
	struct ff_error err = {0};

	CHECK_OK(ff_strategy_data_parallel(g, n_devices, &arena, &s, &err));
	CHECK_OK(ff_strategy_single(g, 0, &arena, &single, &err));
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if ((i > g->n_nodes / 2) == behind)
			s.config[i] = single.config[i];
	return s;
}

/* Of two plans that are each bad somewhere else the good halves come together; one in other
 * micro-batches gives nothing. */
static void relink(struct ff_chain *c, struct ff_strategy *other)
{
	struct ff_error err = {0};
	struct ff_strategy whole;
	struct ff_evaluation before, at;

	before = c->at;
	other->micro_batches = 2;
	CHECK_OK(ff_chain_relink(c, other, &err));
	ck_assert_uint_eq(c->proposals, 0);
	other->micro_batches = 1;
	CHECK_OK(ff_chain_relink(c, other, &err));
	ck_assert_double_lt(c->at.step_us, before.step_us);
	ck_assert(c->best.unsaved && c->best.at.step_us == c->at.step_us);
	ck_assert_uint_le(c->proposals, 16 * c->frame->proposer.n_all);
	CHECK_OK(ff_evaluator_set(c->evaluator, &c->current, &at, &err));
	ck_assert(at.step_us == c->at.step_us);
	CHECK_OK(ff_strategy_data_parallel(c->graph, c->machine->n_devices, &arena, &whole, &err));
	CHECK_OK(ff_evaluator_set(c->evaluator, &whole, &at, &err));
	ck_assert_double_le(c->at.step_us, at.step_us * 1.02);
}

START_TEST(test_relinking)
{
	struct ff_search_options opt = {.proposals = 100000};
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_strategy s, other;
	struct ff_chain_pool pool;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_evaluator *e;
	struct ff_space *space;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("resnet50", 64, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_pricer_create(&g, &m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	CHECK_OK(ff_evaluator_create(&g, &m, pricer, 0, 0, &e, &err));
	CHECK_OK(ff_chain_pool_init(&pool, &g, 1, &arena, &err));
	struct ff_chain c = {.pool = &pool,
			.n_chains = 1,
			.space = space,
			.evaluator = e,
			.graph = &g,
			.machine = &m,
			.opt = &opt,
			.arena = &arena,
			.best.at = {.step_us = INFINITY, .over_bytes = INT64_MAX},
			.clock = {.from = ff_clock_us() / 1e6, .limit = opt.proposals}};
	CHECK_OK(ff_chain_init(&c, &arena, &err));
	s = half_alone(&g, m.n_devices, true); /* the faster one */
	other = half_alone(&g, m.n_devices, false);
	CHECK_OK(ff_chain_go_to(&c, &s, &err));
	relink(&c, &other);
	ff_phases_finish(&c.phases);
	ff_orders_finish(&c.orders);
	ff_chain_pool_finish(&pool);
	ff_evaluator_destroy(e);
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("restarts");
	TCase *c = tcase_create("restarts");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_elite);
	tcase_add_test(c, test_starts_are_left);
	tcase_add_test(c, test_crossover);
	tcase_add_test(c, test_restarts);
	tcase_add_test(c, test_relinking);
	tcase_add_test(c, test_families_are_sought_once);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
