/* Orders that the search draws, layers that it moves with all that feeds them, and what
 * elimination takes edges to cost.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "../check_main.h"

#include "../../planner/exact/candidates.h"
#include "../../planner/propose/blocks.h"
#include "../../planner/propose/listed.h"
#include "../../planner/propose/order.h"
#include "../../planner/propose/phases.h"
#include "../../planner/propose/propose.h"
#include "ff/node_class.h"
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

/* Two linear layers side by side, one of them elsewhere: with one micro-batch, too, an order
 * in which the one is issued before the other is drawn, and all of them are legal. */
START_TEST(test_orders_are_drawn)
{
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_graph g = fixture_branch(64, 16, 10, &arena);
	const struct ff_evaluation roomy = {.step_us = 1, .fits = true};
	uint32_t orders = 0, at = FF_NONE;
	struct ff_strategy s, drawn;
	struct ff_error err = {0};
	struct ff_space *space;
	struct ff_phases p;

	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_MICRO);
	CHECK_OK(ff_init_strategy("single", space, &g, &m, 0, &arena, &s, &err));
	CHECK_OK(ff_strategy_create(&g, &arena, &drawn, &err));
	CHECK_OK(ff_phases_init(&p, space, &g, &m, 1, 0, &arena, &err));
	for (uint32_t i = g.n_nodes; i-- > 0;)
		if (ff_node_needs_config(&g, i))
			at = i;
	s.config[at].start = 3;
	ck_assert(ff_phases_matter(&p, &s, roomy));
	for (uint32_t i = 0; i < 400; i++) {
		bool staged = false, changed;

		CHECK_OK(ff_phases_draw(&p, &s, roomy, &drawn, &changed, &err));
		if (!changed || drawn.micro_batches > 1)
			continue;
		CHECK_OK(ff_strategy_check(&g, &drawn, m.n_devices, &err));
		for (uint32_t k = 0; k < g.n_nodes; k++)
			staged = staged || drawn.stage[k] > 0;
		orders += staged;
	}
	ck_assert_uint_gt(orders, 0);
	ff_space_allow(space, 0);
	ck_assert(!ff_phases_matter(&p, &s, roomy));
	ff_phases_finish(&p);
	ff_space_destroy(space);
}
END_TEST

/* Puts the first layer's input layers on device 2, its chain and the second layer's input layers
 * on 0, the second chain on 1. */
static void place_layers(const struct ff_graph *g, struct ff_strategy *s)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const char *name = g->nodes[i].name, *step = strchr(name, '.');
		bool in = step && strstr(name, ".in");

		if (!ff_node_needs_config(g, i))
			continue;
		if (name[0] == 't')
			s->config[i].start = 2;
		else if (name[0] == 'l' && name[1] == '1')
			s->config[i].start = in ? 2 : 0;
		else
			s->config[i].start = in ? 0 : 1;
	}
}

/* How many of 400 draws have order `rule` of four stages of a network, 1F1B before, each on its
 * device. */
static uint32_t count_drawn(enum ff_order_rule rule, const uint16_t device[4], uint32_t chunks)
{
	const struct ff_evaluation roomy = {.step_us = 1, .fits = true};
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_graph g = fixture_mlp(64, 16, 16, 10, &arena);
	uint32_t n = 0, computed = 0;
	struct ff_strategy s, drawn;
	struct ff_error err = {0};
	struct ff_space *space;
	struct ff_phases p;

	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_MICRO);
	CHECK_OK(ff_init_strategy("single", space, &g, &m, 0, &arena, &s, &err));
	CHECK_OK(ff_strategy_create(&g, &arena, &drawn, &err));
	CHECK_OK(ff_phases_init(&p, space, &g, &m, 1, 0, &arena, &err));
	s.micro_batches = 4;
	s.rule = FF_ORDER_1F1B;
	for (uint32_t i = 0; i < g.n_nodes; i++)
		if (ff_node_needs_config(&g, i)) {
			s.stage[i] = (uint16_t)(computed < 3 ? computed : 3);
			s.config[i].start = (uint16_t)device[s.stage[i]];
			computed++;
		}
	ck_assert_uint_ge(computed, 4);
	for (uint32_t i = 0; i < 400; i++) {
		bool changed;

		CHECK_OK(ff_phases_draw(&p, &s, roomy, &drawn, &changed, &err));
		if (!changed || drawn.rule != rule)
			continue;
		ck_assert_uint_eq(ff_strategy_chunks(&drawn), chunks);
		n++;
	}
	ff_phases_finish(&p);
	ff_space_destroy(space);
	return n;
}

/* Stages that the same devices hold in turn are interleaved, those that lie in a V are taken so;
 * others are neither, but may have gradients of parameters made apart. */
START_TEST(test_stages_have_their_orders)
{
	static const uint16_t apart[] = {0, 1, 2, 3}, turns[] = {0, 1, 0, 1}, vee[] = {0, 1, 1, 0};
	static const uint16_t open[] = {0, 1, 2, 0}, one[] = {0, 0, 0, 0};

	ck_assert_uint_gt(count_drawn(FF_ORDER_INTERLEAVED, turns, 2), 0);
	ck_assert_uint_gt(count_drawn(FF_ORDER_INTERLEAVED, open, 2), 0);
	ck_assert_uint_gt(count_drawn(FF_ORDER_INTERLEAVED, one, 4), 0);
	ck_assert_uint_eq(count_drawn(FF_ORDER_INTERLEAVED, vee, 2), 0);
	ck_assert_uint_eq(count_drawn(FF_ORDER_INTERLEAVED, apart, 1), 0);
	ck_assert_uint_gt(count_drawn(FF_ORDER_ZB_V, vee, 2), 0);
	ck_assert_uint_eq(count_drawn(FF_ORDER_ZB_V, open, 2), 0);
	ck_assert_uint_eq(count_drawn(FF_ORDER_ZB_V, turns, 2), 0);
	ck_assert_uint_eq(count_drawn(FF_ORDER_ZB_V, one, 2), 0);
	ck_assert_uint_gt(count_drawn(FF_ORDER_ZB_H1, apart, 1), 0);
}
END_TEST

/* In the order of the graph a message from layer to layer waits behind one of the step before,
 * which is not made until later.  Issued as they are done they do not. */
START_TEST(test_orders_by_time)
{
	static const char *const layers = "layers=2";
	const struct ff_evaluation roomy = {.step_us = 1, .fits = true};
	struct ff_evaluation first, at = {.step_us = INFINITY};
	uint32_t reset = 0;
	struct ff_strategy s, drawn;
	struct ff_error err = {0};
	struct ff_evaluator *e;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_machine m;
	struct ff_graph g;
	struct ff_phases p;

	CHECK_OK(ff_zoo_build("rnn", 256, &layers, 1, &arena, &g, &err));
	CHECK_OK(ff_machine_load("p100x16", &arena, &m, &err));
	CHECK_OK(ff_pricer_create(&g, &m, FF_ESTIMATE_PEAK, NULL, NULL, "rnn", &pricer, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_MICRO);
	CHECK_OK(ff_evaluator_create(&g, &m, pricer, 0, 0, &e, &err));
	CHECK_OK(ff_init_strategy("single", space, &g, &m, 0, &arena, &s, &err));
	CHECK_OK(ff_strategy_create(&g, &arena, &drawn, &err));
	CHECK_OK(ff_phases_init(&p, space, &g, &m, 1, 0, &arena, &err));
	p.evaluator = e;
	place_layers(&g, &s);
	CHECK_OK(ff_evaluator_set(e, &s, &first, &err));
	for (uint32_t i = 0; i < 400; i++) {
		struct ff_evaluation v;
		bool plain = true, changed;

		CHECK_OK(ff_phases_draw(&p, &s, roomy, &drawn, &changed, &err));
		if (!changed || drawn.micro_batches > 1 ||
				memcmp(s.stage, drawn.stage, g.n_nodes * sizeof(*s.stage)) != 0)
			continue;
		CHECK_OK(ff_evaluator_set(e, &drawn, &v, &err));
		at.step_us = fmin(at.step_us, v.step_us);
		for (uint32_t k = 0; k < g.n_nodes; k++)
			plain = plain && drawn.priority[k] == 0;
		reset += plain;
		ff_strategy_copy(&s, &drawn);
	}
	ck_assert_double_lt(at.step_us, 0.9 * first.step_us);
	ck_assert_uint_gt(reset, 0);
	ff_phases_finish(&p);
	ff_evaluator_destroy(e);
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
}
END_TEST

/* How many operators are issued before another one that they were issued behind. */
static uint32_t count_turned(const struct ff_graph *g, const uint32_t *was, const uint32_t *is)
{
	uint32_t turned = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t at = 0;
		bool behind = false;

		while (was[at] != is[i])
			at++;
		for (uint32_t k = 0; k < at; k++)
			for (uint32_t j = i + 1; j < g->n_nodes; j++)
				behind = behind || is[j] == was[k];
		turned += behind;
	}
	return turned;
}

/* Orders are drawn in small steps, all of them others, and those that are not slower lead to a
 * faster step than orders by time do. */
START_TEST(test_orders_in_small_steps)
{
	static const char *const layers = "layers=2";
	uint32_t *order[2], drawn = 0, few = 0;
	struct ff_evaluation first, at, v;
	struct ff_evaluator *e;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_strategy s, other;
	struct ff_space *space;
	struct ff_orders o;
	struct ff_machine m;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("rnn", 256, &layers, 1, &arena, &g, &err));
	CHECK_OK(ff_machine_load("p100x16", &arena, &m, &err));
	CHECK_OK(ff_pricer_create(&g, &m, FF_ESTIMATE_PEAK, NULL, NULL, "rnn", &pricer, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	CHECK_OK(ff_evaluator_create(&g, &m, pricer, 0, 0, &e, &err));
	CHECK_OK(ff_init_strategy("single", space, &g, &m, 0, &arena, &s, &err));
	CHECK_OK(ff_strategy_create(&g, &arena, &other, &err));
	CHECK_OK(ff_orders_init(&o, &g, ff_test_seed(10), 0, &arena, &err));
	for (int k = 0; k < 2; k++)
		order[k] = ff_arena_array(&arena, g.n_nodes, sizeof(**order));
	place_layers(&g, &s);
	CHECK_OK(ff_evaluator_set(e, &s, &first, &err));
	at = first;
	ff_strategy_copy(&other, &s);
	for (uint32_t i = 0; i < 4000; i++) {
		bool changed, slower;

		CHECK_OK(ff_orders_draw(&o, &s, other.priority, &changed, &err));
		CHECK_OK(ff_strategy_order(&g, &s, &arena, order[0], &err));
		CHECK_OK(ff_strategy_order(&g, &other, &arena, order[1], &err));
		ck_assert(changed ==
				(memcmp(order[0], order[1], g.n_nodes * sizeof(**order)) != 0));
		if (!changed)
			continue;
		drawn++;
		few += i < 200 && count_turned(&g, order[0], order[1]) <= g.n_nodes / 4;
		CHECK_OK(ff_evaluator_reorder(e, other.priority, at.step_us, &slower, &v, &err));
		if (slower)
			continue;
		ck_assert_double_le(v.step_us, at.step_us);
		ff_evaluator_keep(e);
		ff_strategy_copy(&s, &other);
		at = v;
	}
	ck_assert_uint_gt(drawn, 1000);
	ck_assert_uint_gt(few, 20);
	CHECK_OK(ff_evaluator_set(e, &s, &v, &err));
	ck_assert(v.step_us == at.step_us);
	printf("# %.3f us, in small steps %.3f us\n", first.step_us, at.step_us);
	ck_assert_double_lt(at.step_us, 0.8 * first.step_us);
	ff_orders_finish(&o);
	ff_evaluator_destroy(e);
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
}
END_TEST

/* A linear layer is cut by feature over devices 0 to 3, or over 0, 2, 4 and 6, which lie in
 * two nodes; the next one wants all features of some samples on 0 to 3. */
START_TEST(test_estimates_know_nodes)
{
	const struct fixture_machine f = {2, 4, true, (int64_t)1 << 30, 1e5, 1e2};
	const struct ff_view beside = {0, {1, 1, 1}}, apart = {0, {2, 2, 2}};
	const uint16_t by_sample[] = {4, 1, 1}, by_feature[] = {1, 4, 1};
	struct ff_machine m = fixture_machine(&f, &arena);
	struct ff_graph g = fixture_two_linear(1024, 64, 1024, 64, &arena);
	struct ff_additive a = {
			.g = &g, .m = &m, .inside_bytes_per_us = 1e5, .link_bytes_per_us = 25};
	struct ff_candidate from[2] = {{.draft = 0}}, to = {.draft = 0};
	struct ff_candidate *const all[] = {&from[0], &from[1], &to};
	struct ff_link_table l = {.slot = 0};
	struct ff_error err = {0};
	double us[2];

	while (!ff_node_needs_config(&g, l.from))
		l.from++;
	for (l.to = l.from + 1; !ff_node_needs_config(&g, l.to);)
		l.to++;
	ff_view_config(g.nodes[l.from].n_dims, by_feature, &beside, &from[0].config);
	ff_view_config(g.nodes[l.from].n_dims, by_feature, &apart, &from[1].config);
	ff_view_config(g.nodes[l.to].n_dims, by_sample, &beside, &to.config);
	for (uint32_t i = 0; i < 3; i++) {
		struct ff_candidate *c = all[i];

		CHECK_OK(ff_node_block_build(
				&g, i < 2 ? l.from : l.to, &c->config, &arena, &c->block, &err));
		c->part_on = ff_arena_array(&arena, m.n_devices, sizeof(*c->part_on));
		ck_assert_ptr_nonnull(c->part_on);
		for (uint32_t p = 0; p < c->config.n_parts; p++)
			c->part_on[c->block.device[p]] = (uint16_t)(p + 1);
	}
	for (uint32_t i = 0; i < 2; i++)
		us[i] = ff_additive_estimate(&a, &l, &from[i], &to);
	ck_assert(us[0] > 0);
	ck_assert(us[1] > 20 * us[0]);
}
END_TEST

/* Says if the transaction gives all steps of the layer `in`, the slices before them and their
 * parameters, which follow, one device. */
static bool moves_layer(const struct ff_graph *g, const struct ff_transaction *t, uint32_t in)
{
	const struct ff_change *first = &t->change[t->at[in] - 1];
	bool whole = t->at[in] && first->config.n_parts == 1;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		const struct ff_change *c = &t->change[t->at[i] - 1];

		if (n->op == FF_OP_SLICE || n->op == FF_OP_RESHAPE || ff_nodes_alike(g, i, in))
			whole = whole && t->at[i] && c->config.n_parts == 1 &&
				c->config.start == first->config.start;
	}
	for (uint32_t k = g->nodes[in].in + 1; k < g->nodes[in].in + g->nodes[in].n_in; k++)
		whole = whole && t->at[ff_edge_source(g, k)];
	return whole;
}

/* What feeds nobody else comes along: of an unrolled network a layer of all steps, with the
 * slices of the input that it reads and its parameters. */
START_TEST(test_layers_move_with_what_feeds_them)
{
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_space *space;
	struct ff_strategy s;
	struct ff_proposer p;
	struct ff_graph g;
	uint32_t moved = 0, in;

	CHECK_OK(ff_zoo_build("rnn", 16, NULL, 0, &arena, &g, &err));
	in = ff_graph_find(&g, "l1.t3.in");
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	CHECK_OK(ff_init_strategy("single", space, &g, &m, 0, &arena, &s, &err));
	CHECK_OK(ff_proposer_init(space, &g, ff_test_seed(9), 0, &arena, &p, &err));
	CHECK_OK(ff_transaction_init(&g, &arena, &t, &err));
	p.t = &t;
	p.base = &s;
	for (uint32_t i = 0; i < 2000; i++) {
		ff_transaction_clear(&t);
		ff_propose_fed(&p);
		ck_assert_uint_gt(t.n, 0);
		for (uint32_t k = 0; k < t.n; k++)
			if (t.change[k].config.n_parts > 0)
				CHECK_OK(ff_config_check(&g.nodes[t.change[k].node],
						&t.change[k].config, m.n_devices, &err));
		ck_assert(!t.at[ff_graph_find(&g, "l1.t0.h")] || !t.at[in]);
		moved += t.at[in] && moves_layer(&g, &t, in);
	}
	ck_assert_uint_gt(moved, 10);
	ff_space_destroy(space);
}
END_TEST

/* Nodes are in the focus if they stand in that row, parameters if who reads them first does. */
static bool is_within(const struct ff_graph *g, const struct ff_proposer *p, uint32_t node)
{
	if (ff_node_is_parameter(g, node))
		node = g->edges[g->uses[g->values[g->nodes[node].out].first_use]].node;
	return node >= p->node[0] && node <= p->node[p->n_nodes - 1];
}

/* While a few operators are walked all others stay as they are, whatever kind is drawn. */
START_TEST(test_focus)
{
	struct ff_random r = {.seed = ff_test_seed(11)};
	struct ff_machine m = fixture_devices(8, &arena);
	uint32_t parameters = 0, many = 0;
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_space *space;
	struct ff_strategy s;
	struct ff_proposer p;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("branchnet", 16, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_UPDATES | FF_SPACE_REPLICAS);
	CHECK_OK(ff_init_strategy("random", space, &g, &m, 0, &arena, &s, &err));
	CHECK_OK(ff_proposer_init(space, &g, r.seed, 0, &arena, &p, &err));
	CHECK_OK(ff_transaction_init(&g, &arena, &t, &err));
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t n = 1 + ff_random_below(&r, p.n_all);

		ff_proposer_focus(&p, ff_random_below(&r, p.n_all - n + 1), n);
		ff_proposer_next(&p, &s, &t);
		ff_proposer_learn(&p, false);
		ck_assert_uint_gt(t.n, 0);
		many += t.n > 1;
		for (uint32_t k = 0; k < t.n; k++) {
			ck_assert(n == p.n_all || is_within(&g, &p, t.change[k].node));
			parameters += ff_node_is_parameter(&g, t.change[k].node);
		}
	}
	ck_assert_uint_gt(parameters, 100);
	ck_assert_uint_gt(many, 1000);
	ff_space_destroy(space);
}
END_TEST

/* Input layers go to one device and the chain of states to another, and all seeds see it: with
 * inputs brought just before they are read, or layers moved alone, it took 455 us. */
START_TEST(test_recurrent_network)
{
	uint64_t seeds = ff_test_rounds(3);
	struct ff_search_result found;
	struct ff_evaluator *e;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_machine m;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("rnn", 256, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_machine_load("p100x16", &arena, &m, &err));
	CHECK_OK(ff_pricer_create(&g, &m, FF_ESTIMATE_PEAK, NULL, NULL, "rnn", &pricer, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_UPDATES | FF_SPACE_REPLICAS | FF_SPACE_MICRO);
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct ff_search_options opt = {.seed = seed, .proposals = 60000, .pricer = pricer};

		CHECK_OK(ff_evaluator_create(&g, &m, pricer, 0, 0, &e, &err));
		CHECK_OK(ff_search_mcmc(space, e, &g, &m, &opt, &arena, &found, &err));
		ck_assert_double_lt(found.evaluation.step_us, 445);
		ff_evaluator_destroy(e);
	}
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
}
END_TEST

/* Places of two operators in the order of `s`. */
static void find_places(const struct ff_graph *g, const struct ff_strategy *s,
		const char *const name[2], uint32_t at[2])
{
	uint32_t *order = ff_arena_array(&arena, g->n_nodes, sizeof(*order));
	struct ff_error err = {0};

	ck_assert_ptr_nonnull(order);
	CHECK_OK(ff_strategy_order(g, s, &arena, order, &err));
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (int k = 0; k < 2; k++)
			if (!strcmp(g->nodes[order[i]].name, name[k]))
				at[k] = i;
}

/* In a list schedule branches of a module take turns, so that one is computed while norms of
 * another sum up what they find. */
START_TEST(test_branches_take_turns)
{
	static const char *const set[] = {"image=64", "classes=10"};
	static const char *const name[] = {"inception3a.branch1.bn", "inception3a.branch2.0.conv"};
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_evaluation plain, listed;
	struct ff_evaluator *e;
	struct ff_error err = {0};
	struct ff_pricer *p;
	struct ff_strategy s;
	struct ff_graph g;
	uint32_t at[2] = {0, 0};
	bool slower = true;

	m.nodes[0].inside.latency_us = 10;
	CHECK_OK(ff_zoo_build("googlenet", 32, set, 2, &arena, &g, &err));
	CHECK_OK(ff_pricer_create(&g, &m, FF_ESTIMATE_PEAK, NULL, NULL, "googlenet", &p, &err));
	CHECK_OK(ff_evaluator_create(&g, &m, p, 0, 0, &e, &err));
	CHECK_OK(ff_strategy_data_parallel(&g, 4, &arena, &s, &err));
	CHECK_OK(ff_evaluator_set(e, &s, &plain, &err));
	find_places(&g, &s, name, at);
	ck_assert_uint_lt(at[0], at[1]);
	CHECK_OK(ff_list_order(&g, &s, e, s.priority, &err));
	find_places(&g, &s, name, at);
	ck_assert_uint_gt(at[0], at[1]);
	CHECK_OK(ff_strategy_check(&g, &s, 4, &err));
	CHECK_OK(ff_evaluator_reorder(e, s.priority, plain.step_us, &slower, &listed, &err));
	ck_assert(!slower);
	ck_assert_double_lt(listed.step_us, 0.9 * plain.step_us);
	ff_evaluator_destroy(e);
	ff_pricer_destroy(p);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("orders");
	TCase *c = tcase_create("orders");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_orders_are_drawn);
	tcase_add_test(c, test_stages_have_their_orders);
	tcase_add_test(c, test_orders_by_time);
	tcase_add_test(c, test_orders_in_small_steps);
	tcase_add_test(c, test_estimates_know_nodes);
	tcase_add_test(c, test_layers_move_with_what_feeds_them);
	tcase_add_test(c, test_branches_take_turns);
	tcase_add_test(c, test_focus);
	tcase_add_test(c, test_recurrent_network);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
