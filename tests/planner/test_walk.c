/* The walk's transactions, and searches in several threads.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../planner/exact/eliminate.h"
#include "../../planner/exact/elimination.h"
#include "../../planner/propose/extras.h"
#include "../../planner/propose/propose.h"
#include "ff/cli.h"
#include "ff/simulate.h"
#include "ff/zoo.h"
#include "fixture.h"

#define GIB ((int64_t)1 << 30)

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* ---- searches ---- */

struct lab {
	struct ff_graph g;
	struct ff_machine m;
	struct ff_pricer *pricer[2];
	struct ff_space *space;
	struct ff_evaluator *evaluator[2];
	struct ff_search_options opt;
	/* of the visits */
	struct ff_arena scratch;
	uint32_t visits, blocks, cuts, orders;
	struct ff_strategy last;
	bool stop_now;
};

static void lab_open(struct lab *l, const char *net, uint64_t batch, const char *set,
		const struct fixture_machine *m, int64_t memory)
{
	struct ff_error err = {0};

	*l = (struct lab){.m = fixture_machine(m, &arena)};
	CHECK_OK(ff_zoo_build(net, batch, &set, set ? 1 : 0, &arena, &l->g, &err));
	CHECK_OK(ff_space_create(&l->g, &l->m, &l->space, &err));
	ff_space_allow(l->space,
			FF_SPACE_UPDATES | FF_SPACE_REPLICAS | FF_SPACE_MICRO | FF_SPACE_RECOMPUTE);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(ff_pricer_create(&l->g, &l->m, FF_ESTIMATE_PEAK, NULL, NULL, "g",
				&l->pricer[i], &err));
		CHECK_OK(ff_evaluator_create(
				&l->g, &l->m, l->pricer[i], memory, 0, &l->evaluator[i], &err));
	}
	l->opt.pricer = l->pricer[0];
	ff_arena_init(&l->scratch);
	CHECK_OK(ff_strategy_create(&l->g, &arena, &l->last, &err));
}

static void lab_close(struct lab *l)
{
	for (int i = 0; i < 2; i++) {
		ff_evaluator_destroy(l->evaluator[i]);
		ff_pricer_destroy(l->pricer[i]);
	}
	ff_space_destroy(l->space);
	ff_arena_finish(&l->scratch);
}

static int search(struct lab *l, struct ff_search_result *ret)
{
	struct ff_error err = {0};
	int code = ff_search_mcmc(
			l->space, l->evaluator[0], &l->g, &l->m, &l->opt, &arena, ret, &err);

	ck_assert_msg(code == FF_OK || code == FF_E_NOFIT, "%s", err.text);
	return code;
}

static void compare(void *ctx, const struct ff_strategy *s, struct ff_evaluation e)
{
	struct lab *l = ctx;
	struct ff_lower_options opt = {.workspace = ff_price_workspace, .ctx = l->pricer[1]};
	struct ff_arena_mark mark = ff_arena_mark(&l->scratch);
	struct ff_error err = {0};
	struct ff_schedule lowered;
	struct ff_simulation sim;
	uint32_t changed = 0;

	CHECK_OK(ff_strategy_check(&l->g, s, l->m.n_devices, &err));
	CHECK_OK(ff_lower(&l->g, &l->m, s, &opt, &l->scratch, &lowered, &err));
	CHECK_OK(ff_simulate(&lowered, l->pricer[1], &l->scratch, &sim, &err));
	ck_assert_msg(sim.step_us == e.step_us,
			"visit %u: search %.17g us, fresh simulation %.17g us", l->visits,
			e.step_us, sim.step_us);
	ff_arena_rewind(&l->scratch, mark);
	for (uint32_t i = 0; i < l->g.n_nodes; i++) {
		changed += l->visits > 0 &&
			   !ff_config_equal(&l->g.nodes[i], &s->config[i], &l->last.config[i]);
		l->cuts += ff_node_is_parameter(&l->g, i) && s->config[i].n_parts > 1;
		l->last.config[i] = s->config[i];
	}
	l->orders += memcmp(s->priority, l->last.priority, l->g.n_nodes * sizeof(*s->priority)) !=
		     0;
	memcpy(l->last.priority, s->priority, l->g.n_nodes * sizeof(*s->priority));
	l->blocks += changed > 2;
	l->visits++;
}

static const struct fixture_machine two_by_four = {2, 4, true, 16 * GIB, 4e4, 1e4};

/* Whether all kinds of transactions were visited, orders where there are some. */
static bool has_met_all(const struct lab *l, bool orders)
{
	return l->blocks > 50 && l->cuts > 0 && (!orders || l->orders > 10);
}

START_TEST(test_transactions_cost_what_is_simulated)
{
	static const char *const nets[][2] = {
			{"alexnet", "image=28"}, {"branchnet", "image=28"}, {"gpt2", "layers=2"}};
	struct ff_search_result found;
	struct lab l;

	for (int i = 0; i < 3; i++) {
		lab_open(&l, nets[i][0], 64, nets[i][1], &two_by_four, i == 2 ? 3 * GIB : 0);
		l.opt.seed = ff_test_seed(3);
		l.opt.proposals = 600;
		l.opt.visit = compare;
		l.opt.visit_ctx = &l;
		/* the others are chains; seeds differ in what they find worth a visit */
		for (int k = 0; k < 20 && !has_met_all(&l, i == 1); k++, l.opt.seed++) {
			ck_assert_int_eq(search(&l, &found), FF_OK);
			ck_assert_uint_ge(l.visits, 600);
		}
		ck_assert_msg(has_met_all(&l, i == 1), "%u blocks, %u cuts, %u orders", l.blocks,
				l.cuts, l.orders);
		lab_close(&l);
	}
}
END_TEST

static void check_same(const struct lab *l, const struct ff_search_result *a,
		const struct ff_search_result *b)
{
	ck_assert(a->evaluation.step_us == b->evaluation.step_us);
	ck_assert_uint_eq(a->proposals, b->proposals);
	ck_assert_uint_eq(a->accepted, b->accepted);
	for (uint32_t i = 0; i < l->g.n_nodes; i++)
		ck_assert(ff_config_equal(&l->g.nodes[i], &a->best.config[i], &b->best.config[i]));
}

/* With a budget in proposals the seed and the number of chains decide.  Evaluators are new ones:
 * what they have seen decides what they reject early. */
START_TEST(test_same_seed_same_strategy)
{
	struct ff_search_result found[3];
	struct lab l;

	for (uint32_t jobs = 1; jobs <= 2; jobs++) {
		for (int i = 0; i < 3; i++) {
			lab_open(&l, "alexnet", 64, "image=28", &two_by_four, 0);
			l.opt.proposals = 4001;
			l.opt.more = &l.evaluator[1];
			l.opt.n_more = jobs - 1;
			l.opt.seed = ff_test_seed(4) + (uint64_t)(i == 2);
			search(&l, &found[i]);
			ck_assert_uint_eq(found[i].proposals, 4001);
			if (i == 1)
				check_same(&l, &found[0], &found[1]);
			lab_close(&l);
		}
		ck_assert(found[2].accepted != found[0].accepted);
	}
}
END_TEST

static bool stop_asked(void *ctx)
{
	const struct lab *l = ctx;

	return l->stop_now;
}

static bool progress(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	(void)proposals, (void)seconds, (void)best_us;
	return stop_asked(ctx);
}

/* Without either it goes on for ever; how soon it ends is the machine's. */
START_TEST(test_budget_and_stop)
{
	struct ff_search_result found;
	struct ff_elimination of;
	struct ff_error err = {0};
	struct ff_strategy s;
	bool any = true;
	struct lab l;
	double from;

	lab_open(&l, "inception_v3", 64, "norm=none", &two_by_four, 0);
	for (uint32_t jobs = 1; jobs <= 2; jobs++) {
		l.opt.more = &l.evaluator[1];
		l.opt.n_more = jobs - 1;
		l.opt.seconds = 0.5;
		from = ff_clock_us();
		search(&l, &found);
		ck_assert(ff_clock_us() - from < 30e6);
		l.opt.seconds = 0;
		l.opt.progress = progress;
		l.opt.ctx = &l;
		l.stop_now = true;
		from = ff_clock_us();
		search(&l, &found);
		ck_assert(ff_clock_us() - from < 30e6);
		l.opt.progress = NULL;
	}
	of = (struct ff_elimination){l.space, &l.g, &l.m, l.pricer[0], stop_asked, &l};
	CHECK_OK(ff_search_eliminate(&of, l.evaluator[0], &arena, &s, &any, &err));
	ck_assert(!any);
	lab_close(&l);
}
END_TEST

/* Where another strategy that fits is known, none is laid out for which there is no time. */
START_TEST(test_no_layout_ends_late)
{
	const char *const starts[] = {"data-parallel", NULL};
	struct ff_search_result found;
	struct ff_error err = {0};
	struct ff_evaluation at;
	struct ff_strategy s;
	struct lab l;

	lab_open(&l, "alexnet", 64, NULL, &two_by_four, GIB);
	CHECK_OK(ff_init_strategy(starts[0], l.space, &l.g, &l.m, 0, &arena, &s, &err));
	CHECK_OK(ff_evaluator_set(l.evaluator[0], &s, &at, &err));
	ck_assert(at.fits && at.tight);
	l.opt.starts = starts;
	l.opt.proposals = 1;
	l.opt.seconds = 100;
	l.opt.lower_s = 1000;
	for (int none = 0; none < 2; none++) {
		int code;

		l.opt.may_find_none = none;
		code = ff_search_mcmc(
				l.space, l.evaluator[0], &l.g, &l.m, &l.opt, &arena, &found, &err);
		ck_assert_int_eq(code, none ? FF_E_NOFIT : FF_OK);
		ck_assert(none ? isinf(found.first_s) : found.first_s >= 0);
	}
	l.opt.known = &s; /* laid out by who knew it, so it needs no time */
	CHECK_OK(ff_search_mcmc(l.space, l.evaluator[0], &l.g, &l.m, &l.opt, &arena, &found, &err));
	ck_assert(found.evaluation.step_us <= at.step_us);
	lab_close(&l);
}
END_TEST

/* Elimination is never slower than data parallelism here, and where memory for that
 * is short it finds what fits. */
START_TEST(test_elimination_start)
{
	struct ff_evaluation dp, e;
	struct ff_elimination of;
	struct ff_error err = {0};
	struct ff_strategy s;
	int64_t scratch = 0;
	bool any = false;
	struct lab l;

	for (int scarce = 0; scarce < 2; scarce++) {
		lab_open(&l, "alexnet", 64, NULL, &two_by_four, scarce ? GIB / 2 + scratch : 0);
		scratch = fixture_scratch(&l.g, &l.m, &arena);
		CHECK_OK(ff_init_strategy(
				"data-parallel", l.space, &l.g, &l.m, 0, &arena, &s, &err));
		CHECK_OK(ff_evaluator_set(l.evaluator[0], &s, &dp, &err));
		ck_assert(dp.fits == !scarce);
		of = (struct ff_elimination){l.space, &l.g, &l.m, l.pricer[0], NULL, NULL};
		CHECK_OK(ff_search_eliminate(&of, l.evaluator[0], &arena, &s, &any, &err));
		ck_assert(any);
		CHECK_OK(ff_evaluator_set(l.evaluator[0], &s, &e, &err));
		ck_assert(e.fits);
		ck_assert(e.step_us < dp.step_us);
		lab_close(&l);
	}
}
END_TEST

/* Where elimination is the only start and there is none, as without prices and for
 * chains other than the first, there is another. */
START_TEST(test_no_elimination)
{
	static const char *const starts[] = {"elimination", NULL};
	struct ff_search_options opt = {.seed = 1, .proposals = 50, .starts = starts};
	struct ff_search_result found;
	struct ff_error err = {0};
	struct lab l;

	lab_open(&l, "lenet", 64, NULL, &two_by_four, 0);
	opt.more = l.evaluator + 1;
	for (opt.n_more = 0; opt.n_more < 2; opt.n_more++)
		CHECK_OK(ff_search_mcmc(
				l.space, l.evaluator[0], &l.g, &l.m, &opt, &arena, &found, &err));
	ck_assert_uint_eq(found.proposals, 50);
	lab_close(&l);
}
END_TEST

/* A vocabulary so large that its logits must not move: the walk cuts the loss by class
 * where the layer before it is cut by word, from a start that knows nothing of that; and
 * so does elimination. */
START_TEST(test_classes_are_found)
{
	static const char *const starts[][2] = {{"data-parallel"}, {"elimination"}};
	struct lab l;

	for (uint32_t i = 0; i < 6; i++) {
		struct ff_search_result found;
		const struct ff_config *loss, *logits;

		lab_open(&l, "lm", 64, "vocabulary=20000", &two_by_four, 0);
		l.opt.seed = ff_test_seed(5) + i;
		l.opt.starts = starts[i % 2];
		l.opt.proposals = 2000;
		ck_assert_int_eq(search(&l, &found), FF_OK);
		loss = &found.best.config[l.g.loss[0]];
		logits = &found.best.config[ff_graph_find(&l.g, "logits")];
		/* dims are sample, class; sample, out_feature, in_feature */
		ck_assert_msg(loss->degree[1] > 1 && logits->degree[1] > 1,
				"seed %u: %u parts by class, %u by word", i, loss->degree[1],
				logits->degree[1]);
		ck_assert_uint_eq(found.best.config[ff_node_prelude(&l.g, l.g.loss[0])].n_parts, 0);
		lab_close(&l);
	}
}
END_TEST

/* ---- kinds of proposals ---- */

static bool follows(const struct ff_graph *g, const struct ff_strategy *s, uint32_t reader)
{
	const struct ff_node *n = &g->nodes[reader];

	return s->config[ff_edge_source(g, n->in + n->n_data)].n_parts == 0;
}

/* Parameters of every second reader are cut, those of the others follow. */
static void cut_every_second(const struct ff_proposer *p, uint32_t n_devices, struct ff_strategy *s)
{
	const struct ff_progression all = {0, 1, n_devices};
	const struct ff_graph *g = p->graph;

	for (uint32_t i = 0; i < p->n_readers; i += 2) {
		const struct ff_node *n = &g->nodes[p->reader[i]];

		for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++) {
			uint32_t param = ff_edge_source(g, k);

			ff_param_cut(g, param, &all, &s->config[param]);
		}
	}
}

/* What the transaction makes of the bytes that follow; *largest: of one who changes. */
static int64_t traded(const struct ff_proposer *p, const struct ff_transaction *t,
		const struct ff_strategy *s, int64_t *largest)
{
	int64_t sum = 0;

	*largest = 0;
	for (uint32_t i = 0; i < p->n_readers; i++) {
		const struct ff_node *n = &p->graph->nodes[p->reader[i]];

		if (!t->at[ff_edge_source(p->graph, n->in + n->n_data)])
			continue;
		sum += follows(p->graph, s, p->reader[i]) ? -p->reader_bytes[i]
							  : p->reader_bytes[i];
		if (p->reader_bytes[i] > *largest)
			*largest = p->reader_bytes[i];
	}
	return sum;
}

/* A trade leaves about as many bytes to be synchronised together as there were. */
START_TEST(test_trades_balance)
{
	const uint32_t draws = 1000;
	struct ff_error err = {0};
	struct ff_transaction t;
	uint32_t balanced = 0;
	struct ff_strategy s;
	struct ff_proposer p;
	struct lab l;

	lab_open(&l, "inception_v3", 64, "norm=none", &two_by_four, 0);
	CHECK_OK(ff_init_strategy("data-parallel", l.space, &l.g, &l.m, 0, &arena, &s, &err));
	CHECK_OK(ff_proposer_init(l.space, &l.g, ff_test_seed(6), 0, &arena, &p, &err));
	CHECK_OK(ff_transaction_init(&l.g, &arena, &t, &err));
	cut_every_second(&p, l.m.n_devices, &s);
	p.t = &t;
	p.base = &s;
	for (uint32_t i = 0; i < draws; i++) {
		int64_t largest, sum;

		ff_transaction_clear(&t);
		ff_propose_trade(&p);
		ck_assert_uint_gt(t.n, 0);
		for (uint32_t k = 0; k < t.n; k++) {
			const struct ff_config *c = &t.change[k].config;

			ck_assert(ff_node_is_parameter(&l.g, t.change[k].node));
			if (c->n_parts > 0)
				CHECK_OK(ff_config_check(&l.g.nodes[t.change[k].node], c,
						l.m.n_devices, &err));
		}
		sum = traded(&p, &t, &s, &largest);
		balanced += llabs(sum) <= largest / 8;
	}
	ck_assert_uint_gt(balanced, draws * 3 / 4);
	lab_close(&l);
}
END_TEST

/* What helps is drawn more, and nothing is given up; but orders, however often they help, are
 * never most of it.  A transaction changes nothing where an order is meant. */
START_TEST(test_kinds_that_help)
{
	static const uint32_t helps[3] = {FF_PROPOSAL_KINDS, 1, FF_PROPOSAL_ORDER};
	uint32_t drawn[3][FF_PROPOSAL_KINDS] = {0}, orders = 0;
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_strategy s;
	struct ff_proposer p;
	struct lab l;

	lab_open(&l, "branchnet", 64, NULL, &two_by_four, 0);
	CHECK_OK(ff_init_strategy("random", l.space, &l.g, &l.m, 0, &arena, &s, &err));
	CHECK_OK(ff_proposer_init(l.space, &l.g, ff_test_seed(7), 0, &arena, &p, &err));
	CHECK_OK(ff_transaction_init(&l.g, &arena, &t, &err));
	for (uint32_t i = 0; i < 1000; i++) {
		ff_proposer_next(&p, &s, &t);
		ck_assert_uint_ne(p.kind, FF_PROPOSAL_ORDER);
	}
	p.orders = true;
	for (uint32_t k = 0; k < 3; k++)
		for (uint32_t i = 0; i < 8000; i++) {
			ff_proposer_next(&p, &s, &t);
			ck_assert((t.n == 0) == (p.kind == FF_PROPOSAL_ORDER));
			drawn[k][p.kind]++;
			ff_proposer_learn(&p, p.kind == helps[k]);
		}
	ck_assert_uint_gt(drawn[1][1], 3 * drawn[0][1]);
	for (uint32_t i = 0; i < FF_PROPOSAL_KINDS; i++)
		ck_assert_uint_gt(drawn[1][i], 0);
	orders = drawn[2][FF_PROPOSAL_ORDER];
	ck_assert(orders > drawn[1][FF_PROPOSAL_ORDER] && orders < 8000 / 3);
	lab_close(&l);
}
END_TEST

/* The operators of `node`'s class in a row: what is in one place of all blocks. */
static uint32_t equals(const struct ff_proposer *p, uint32_t node, uint32_t *row)
{
	uint32_t n = 0;

	for (uint32_t i = p->class[node]; i != FF_NONE; i = p->next_like[i])
		row[n++] = i;
	return n;
}

/* How many of `row` the transaction gives what it gives `node`, which is in the first of two stages
 * of `half` devices each. */
static uint32_t changed_alike(const struct ff_proposer *p, const struct ff_transaction *t,
		const uint32_t *row, uint32_t n, uint32_t node)
{
	struct ff_config own = t->change[t->at[node] - 1].config;
	uint32_t half = p->space->n_devices / 2, same = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ff_config c = own;

		c.start = (uint16_t)(own.start + (p->base->stage[row[i]] - p->base->stage[node]) *
								 (int32_t)half);
		same += t->at[row[i]] && ff_config_equal(&p->graph->nodes[node],
							 &t->change[t->at[row[i]] - 1].config, &c);
	}
	return same;
}

/* Blocks that are repeated change alike, all of them as often as one where that helps, each on the
 * devices of its stage. */
START_TEST(test_layers_change_alike)
{
	uint32_t drawn[2][FF_REACHES] = {0}, *row, alike = 0, whole = 0;
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_strategy s;
	struct ff_proposer p;
	struct lab l;

	lab_open(&l, "gpt2", 64, "layers=4", &two_by_four, 0);
	row = ff_arena_array(&arena, l.g.n_nodes, sizeof(*row));
	CHECK_OK(ff_init_strategy("pipeline-2", l.space, &l.g, &l.m, 0, &arena, &s, &err));
	CHECK_OK(ff_proposer_init(l.space, &l.g, ff_test_seed(8), 0, &arena, &p, &err));
	CHECK_OK(ff_transaction_init(&l.g, &arena, &t, &err));
	ck_assert_uint_eq(p.n_layers, 4);
	for (uint32_t i = 0; i < 8000; i++) {
		uint32_t node, n;

		ff_proposer_next(&p, &s, &t);
		node = t.change[0].node;
		drawn[i / 4000][p.reach]++;
		ff_proposer_learn(&p, i >= 4000 && p.reach == FF_REACH_ALL);
		for (uint32_t k = 0; k < t.n; k++)
			if (t.change[k].config.n_parts)
				CHECK_OK(ff_config_check(&l.g.nodes[t.change[k].node],
						&t.change[k].config, l.m.n_devices, &err));
		if (p.kind || p.reach != FF_REACH_ALL || p.next_layer[node] == FF_NONE ||
				s.stage[node])
			continue;
		n = equals(&p, node, row);
		ck_assert_uint_ge(n, 4);
		alike += changed_alike(&p, &t, row, n, node) >= 2;
		whole++;
	}
	ck_assert(whole > 10 && alike > whole / 2);
	ck_assert_uint_gt(drawn[1][FF_REACH_ALL], 2 * drawn[0][FF_REACH_ALL]);
	ck_assert_uint_gt(drawn[1][FF_REACH_ONE], 0);
	lab_close(&l);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("walk");
	TCase *c = tcase_create("walk");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_transactions_cost_what_is_simulated);
	tcase_add_test(c, test_same_seed_same_strategy);
	tcase_add_test(c, test_budget_and_stop);
	tcase_add_test(c, test_no_layout_ends_late);
	tcase_add_test(c, test_elimination_start);
	tcase_add_test(c, test_no_elimination);
	tcase_add_test(c, test_classes_are_found);
	tcase_add_test(c, test_trades_balance);
	tcase_add_test(c, test_layers_change_alike);
	tcase_add_test(c, test_kinds_that_help);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
