/* Moves of a whole network from one regular strategy to another, against strategies by hand, which
 * other code makes.  SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include <string.h>

#include "../../planner/propose/extras.h"
#include "../../planner/propose/phases.h"
#include "../../planner/propose/propose.h"
#include "ff/micro.h"
#include "ff/zoo.h"
#include "fixture.h"

static const struct fixture_machine two_by_four = {2, 4, true, (int64_t)16 << 30, 4e4, 1e4};

static struct ff_arena arena;
static struct ff_graph graph;
static struct ff_machine machine;
static struct ff_space *space;

static void setup(void)
{
	const char *set = "layers=4";
	struct ff_error err = {0};

	ff_arena_init(&arena);
	machine = fixture_machine(&two_by_four, &arena);
	CHECK_OK(ff_zoo_build("gpt2", 64, &set, 1, &arena, &graph, &err));
	CHECK_OK(ff_space_create(&graph, &machine, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
}

static void teardown(void)
{
	ff_space_destroy(space);
	ff_arena_finish(&arena);
}

static struct ff_strategy by_hand(const char *name)
{
	struct ff_error err = {0};
	struct ff_strategy s;

	CHECK_OK(ff_init_strategy(name, space, &graph, &machine, 0, &arena, &s, &err));
	return s;
}

/* Operators whose configs differ. */
static uint32_t differ(const struct ff_strategy *a, const struct ff_strategy *b)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < graph.n_nodes; i++)
		n += ff_node_needs_config(&graph, i) &&
		     !ff_config_equal(&graph.nodes[i], &a->config[i], &b->config[i]);
	return n;
}

/* ---- within samples and by sample ---- */

/* Whether one of some proposals leads from `from` to `to`; all are legal. */
static bool leads(const char *from, const char *to)
{
	struct ff_strategy s = by_hand(from), wanted = by_hand(to), made;
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_proposer p;
	bool found = false;

	CHECK_OK(ff_strategy_create(&graph, &arena, &made, &err));
	CHECK_OK(ff_proposer_init(space, &graph, ff_test_seed(1), 0, &arena, &p, &err));
	CHECK_OK(ff_transaction_init(&graph, &arena, &t, &err));
	p.t = &t;
	p.base = &s;
	for (uint32_t i = 0; i < 64; i++) {
		ff_transaction_clear(&t);
		ff_propose_degrees(&p);
		ff_strategy_copy(&made, &s);
		for (uint32_t k = 0; k < t.n; k++)
			made.config[t.change[k].node] = t.change[k].config;
		CHECK_OK(ff_strategy_check(&graph, &made, machine.n_devices, &err));
		found = found || differ(&made, &wanted) == 0;
	}
	return found;
}

START_TEST(test_tensor_and_data)
{
	static const char *const names[] = {"megatron:1,8,1,1", "megatron:2,4,1,1",
			"megatron:4,2,1,1", "megatron:2,4,1,1,sequence",
			"megatron:4,2,1,1,sequence"};

	ck_assert(leads(names[0], names[1]) && leads(names[1], names[0]));
	ck_assert(leads(names[1], names[2]) && leads(names[2], names[1]));
	ck_assert(leads(names[3], names[0]));
	ck_assert(leads(names[3], names[4]) && leads(names[4], names[3]));
	ck_assert(!leads(names[0], names[2]));
}
END_TEST

/* Draws from `from`, and from what is drawn, are legal; how many change half of the operators. */
static uint32_t walk(const struct ff_strategy *from, uint32_t draws)
{
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_strategy s;
	uint32_t whole = 0;
	struct ff_proposer p;

	CHECK_OK(ff_strategy_create(&graph, &arena, &s, &err));
	CHECK_OK(ff_transaction_init(&graph, &arena, &t, &err));
	CHECK_OK(ff_proposer_init(space, &graph, ff_test_seed(3), 0, &arena, &p, &err));
	for (uint32_t i = 0; i < draws; i++) {
		if (i % 20 == 0)
			ff_strategy_copy(&s, from);
		ff_proposer_next(&p, &s, &t);
		whole += 2 * t.n > p.n_all;
		for (uint32_t k = 0; k < t.n; k++) {
			const struct ff_change *c = &t.change[k];

			if (c->config.n_parts)
				CHECK_OK(ff_config_check(&graph.nodes[c->node], &c->config,
						machine.n_devices, &err));
			s.config[c->node] = c->config;
		}
	}
	return whole;
}

/* Half of what shares a product does so twice: replicas stand between shares of samples. */
static struct ff_strategy with_replicas_between(void)
{
	struct ff_strategy s = by_hand("megatron:4,2,1,1");

	for (uint32_t i = 0; i < graph.n_nodes; i++) {
		struct ff_config *c = &s.config[i];

		for (uint32_t d = 0; d < graph.nodes[i].n_dims && c->n_parts == 8; d++)
			if (c->degree[d] == 4 && c->replicas == 1) {
				c->degree[d] = 2;
				c->replicas = 2;
				c->replica_stride = 2;
			}
	}
	return s;
}

START_TEST(test_all_is_legal)
{
	struct ff_strategy from[] = {by_hand("megatron:2,4,1,1"), by_hand("data-parallel"),
			with_replicas_between()};
	uint32_t whole = 0;

	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		whole += walk(&from[i], 10000);
	ck_assert_uint_gt(whole, 100);
}
END_TEST

/* ---- all operators at once ---- */

/* Whether a change of all operators, or of all parameters, leads from `from` to `to`; all changes
 * are legal. */
static bool leads_at_once(const struct ff_strategy *from, const struct ff_strategy *to)
{
	struct ff_error err = {0};
	struct ff_transaction t;
	struct ff_strategy made;
	struct ff_proposer p;
	bool found = false;

	CHECK_OK(ff_strategy_create(&graph, &arena, &made, &err));
	CHECK_OK(ff_transaction_init(&graph, &arena, &t, &err));
	CHECK_OK(ff_proposer_init(space, &graph, ff_test_seed(4), 0, &arena, &p, &err));
	for (uint32_t i = 0; ff_proposer_shares(&p, i, from, &t); i++) {
		uint32_t n = 0;

		ff_strategy_copy(&made, from);
		for (uint32_t k = 0; k < t.n; k++)
			made.config[t.change[k].node] = t.change[k].config;
		CHECK_OK(ff_strategy_check(&graph, &made, machine.n_devices, &err));
		for (uint32_t k = 0; k < graph.n_nodes; k++)
			n += !ff_config_equal(&graph.nodes[k], &made.config[k], &to->config[k]);
		found = found || n == 0;
	}
	return found;
}

/* Who was apart on few devices is so on more, and the other way round; parameters leave their
 * buckets all together. */
START_TEST(test_changes_of_all)
{
	struct ff_strategy all = by_hand("data-parallel"), one = by_hand("single");
	struct ff_strategy halves = by_hand("pipeline-2"), two = by_hand("single");
	struct ff_strategy flat = by_hand("zero-1");

	for (uint32_t i = 0; i < graph.n_nodes; i++)
		two.config[i].start = halves.config[i].start;
	ck_assert(leads_at_once(&one, &all) && leads_at_once(&all, &one));
	ck_assert(leads_at_once(&two, &halves) && leads_at_once(&halves, &two));
	ck_assert(leads_at_once(&all, &flat) && leads_at_once(&flat, &all));
	for (uint32_t i = 0; i < graph.n_nodes; i++)
		two.config[i].start /= 4;
	ck_assert(leads_at_once(&two, &halves));
}
END_TEST

/* ---- stages ---- */

static void check_in_micro_batch(const struct ff_strategy *s)
{
	struct ff_error err = {0};
	struct ff_graph micro;

	CHECK_OK(ff_graph_micro(&graph, s->micro_batches, &arena, &micro, &err));
	CHECK_OK(ff_strategy_check(&micro, s, machine.n_devices, &err));
}

static void check_equal(const struct ff_strategy *a, const struct ff_strategy *b)
{
	ck_assert_uint_eq(differ(a, b), 0);
	for (uint32_t i = 0; i < graph.n_nodes; i++)
		ck_assert(!ff_node_needs_config(&graph, i) || a->stage[i] == b->stage[i]);
}

/* Stages on halves of the devices become one as data parallelism, or with shared products, has
 * it, and are cut again with the configs that they had. */
START_TEST(test_stages)
{
	static const char *const names[][2] = {{"megatron:1,8,1,4", "megatron:1,4,2,4"},
			{"megatron:1,4,2,4,even", "megatron:1,2,4,4,even"},
			{"megatron:2,4,1,4", "megatron:2,2,2,4"}};
	struct ff_error err = {0};
	struct ff_strategy s;
	struct ff_depths d;

	CHECK_OK(ff_strategy_create(&graph, &arena, &s, &err));
	CHECK_OK(ff_depths_init(&d, &graph, &machine, &arena, &err));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct ff_strategy few = by_hand(names[i][0]), many = by_hand(names[i][1]);
		uint32_t moved = 0;

		ff_strategy_copy(&s, &many);
		ck_assert(ff_depths_half(&d, &s));
		check_equal(&s, &few);
		ck_assert(ff_depths_twice(&d, &s));
		check_in_micro_batch(&s);
		for (uint32_t k = 0; k < graph.n_nodes; k++)
			moved += s.stage[k] != many.stage[k];
		ck_assert_msg(moved * 4 < graph.n_nodes, "%s: %u operators are in other stages",
				names[i][1], moved);
		ck_assert(ff_depths_half(&d, &s));
		check_equal(&s, &few);
	}
}
END_TEST

/* There is no half of one stage, nor of those that devices hold in turn, and none of one block. */
START_TEST(test_no_stages)
{
	struct ff_strategy one = by_hand("megatron:1,8,1,4"), turns, single;
	struct ff_error err = {0};
	struct ff_depths d;

	turns = by_hand("megatron:1,4,2,4,interleave=2");
	single = by_hand("single");
	CHECK_OK(ff_depths_init(&d, &graph, &machine, &arena, &err));
	ck_assert(!ff_depths_half(&d, &one));
	ck_assert(!ff_depths_half(&d, &turns) && !ff_depths_twice(&d, &turns));
	ck_assert(!ff_depths_twice(&d, &single));
}
END_TEST

/* ---- phases ---- */

/* What draws from `from` came to. */
struct seen {
	uint32_t depth, blocks,
			zero[4]; /* the first of these hybrid, as all begin with the other */
};

static bool updates_are(const struct ff_strategy *s, bool flat, bool dropped)
{
	for (uint32_t i = 0; i < graph.n_nodes; i++)
		if (ff_node_is_parameter(&graph, i) &&
				(s->config[i].flat != flat || s->recompute[i] != dropped))
			return false;
	return true;
}

static bool recomputes_as(const struct ff_strategy *s, const struct ff_strategy *other)
{
	return memcmp(s->recompute, other->recompute, graph.n_nodes * sizeof(*s->recompute)) == 0;
}

static void count(const struct ff_strategy *s, const struct ff_strategy *full, struct seen *seen)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < graph.n_nodes; i++)
		last = s->stage[i] > last ? s->stage[i] : last;
	seen->depth += last == 1 && s->micro_batches > 1;
	seen->blocks += recomputes_as(s, full);
	seen->zero[0] += updates_are(s, false, false);
	seen->zero[1] += updates_are(s, true, false) && !s->scatter && s->shards == 4;
	seen->zero[2] += updates_are(s, true, false) && s->scatter;
	seen->zero[3] += updates_are(s, true, true);
}

/* Where memory is scarce all of it is drawn, and is legal: stages, what ZeRO cuts, and blocks that
 * are recomputed as strategies by hand have them. */
START_TEST(test_phases)
{
	const struct ff_evaluation scarce = {.step_us = 1, .fits = true, .tight = true};
	struct ff_strategy from = by_hand("zero-1"), drawn;
	struct ff_strategy full = by_hand("megatron:1,8,1,1,recompute");
	struct seen seen = {0};
	struct ff_error err = {0};
	struct ff_phases p;

	CHECK_OK(ff_strategy_create(&graph, &arena, &drawn, &err));
	CHECK_OK(ff_phases_init(&p, space, &graph, &machine, ff_test_seed(2), 0, &arena, &err));
	for (uint32_t i = 0; i < 4000; i++) {
		bool changed;

		CHECK_OK(ff_phases_draw(&p, &from, scarce, &drawn, &changed, &err));
		if (!changed)
			continue;
		check_in_micro_batch(&drawn);
		count(&drawn, &full, &seen);
	}
	ff_phases_finish(&p);
	ck_assert(seen.depth && seen.blocks);
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_msg(seen.zero[i], "stage %u of ZeRO was not drawn", i);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("degrees");
	TCase *c = tcase_create("degrees");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_tensor_and_data);
	tcase_add_test(c, test_all_is_legal);
	tcase_add_test(c, test_changes_of_all);
	tcase_add_test(c, test_stages);
	tcase_add_test(c, test_no_stages);
	tcase_add_test(c, test_phases);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
