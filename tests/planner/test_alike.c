/* Regular plans.  SPDX-License-Identifier: Apache-2.0 */
#include "../../planner/hand/alike.h"

#include <math.h>
#include <time.h>

#include "../../planner/propose/extras.h"
#include "../../planner/space/repeats.h"
#include "../check_main.h"
#include "ff/zoo.h"
#include "fixture.h"

#define GIB ((int64_t)1 << 30)

static struct ff_arena arena;

/* All that a plan of a small transformer is made regular with. */
struct lab {
	struct ff_graph g;
	struct ff_machine m;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	struct ff_strategy s;
	struct ff_evaluation at;
};

static void lab_open(struct lab *l, const char *name, int64_t memory)
{
	static const char *const sets[] = {
			"layers=6", "width=64", "heads=4", "sequence=16", "vocabulary=101"};
	struct ff_error err = {0};

	ff_arena_init(&arena);
	l->m = fixture_machine(&(struct fixture_machine){2, 4, true, 16 * GIB, 4e4, 1e4}, &arena);
	CHECK_OK(ff_zoo_build("gpt2", 32, sets, 5, &arena, &l->g, &err));
	CHECK_OK(ff_space_create(&l->g, &l->m, &l->space, &err));
	ff_space_allow(l->space, FF_SPACE_ALL);
	CHECK_OK(ff_pricer_create(
			&l->g, &l->m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &l->pricer, &err));
	CHECK_OK(ff_evaluator_create(&l->g, &l->m, l->pricer, memory, 0, &l->evaluator, &err));
	CHECK_OK(ff_init_strategy(name, l->space, &l->g, &l->m, 0, &arena, &l->s, &err));
}

static void lab_close(struct lab *l)
{
	ff_evaluator_destroy(l->evaluator);
	ff_space_destroy(l->space);
	ff_pricer_destroy(l->pricer);
	ff_arena_finish(&arena);
}

static double make(struct lab *l, double percent)
{
	const struct ff_alike r = {.evaluator = l->evaluator,
			.space = l->space,
			.graph = &l->g,
			.machine = &l->m,
			.percent = percent};
	struct ff_evaluation again;
	struct ff_error err = {0};
	double before;

	CHECK_OK(ff_evaluator_set(l->evaluator, &l->s, &l->at, &err));
	before = l->at.step_us;
	CHECK_OK(ff_alike_make(&r, &arena, &l->s, &l->at, &err));
	CHECK_OK(ff_evaluator_set(l->evaluator, &l->s, &again, &err));
	ck_assert(again.step_us == l->at.step_us);
	ck_assert(l->at.step_us <= before * (1 + percent / 100));
	return before;
}

static uint32_t count(const struct lab *l)
{
	struct ff_error err = {0};
	uint32_t n;

	CHECK_OK(ff_alike_count(&l->g, &l->s, &arena, &n, &err));
	return n;
}

static uint32_t node(const struct lab *l, const char *name)
{
	uint32_t i = ff_graph_find(&l->g, name);

	ck_assert_uint_ne(i, FF_NONE);
	return i;
}

/* Stages, each block's second operator recomputed, and what is ragged in three ways. */
START_TEST(test_blocks_of_stages)
{
	struct ff_strategy was;
	struct ff_error err = {0};
	struct ff_config *norm;
	struct lab l;

	lab_open(&l, "megatron:2,2,2,2", 0);
	ck_assert_uint_eq(count(&l), 0);
	CHECK_OK(ff_strategy_create(&l.g, &arena, &was, &err));
	ff_strategy_copy(&was, &l.s);
	l.s.recompute[node(&l, "block1.mlp.up")] = true;
	l.s.recompute[node(&l, "block4.mlp.gelu")] = true;
	ff_param_flat(&l.s.config[node(&l, "block2.mlp.down.weight")]);
	norm = &l.s.config[node(&l, "block5.norm1")];
	ck_assert_uint_eq(norm->replicas, 2);
	norm->n_parts /= 2;
	norm->replicas = 1;
	norm->replica_stride = 0;
	ck_assert_uint_eq(count(&l), 4);
	make(&l, 20);
	ck_assert_uint_eq(count(&l), 0);
	for (uint32_t i = 0; i < l.g.n_nodes; i++) {
		ck_assert(ff_config_equal(&l.g.nodes[i], &l.s.config[i], &was.config[i]));
		ck_assert(l.s.recompute[i] == was.recompute[i]);
	}
	lab_close(&l);
}
END_TEST

static void put_on_one(struct lab *l, const char *name)
{
	struct ff_config *c = &l->s.config[node(l, name)];

	c->degree[0] = 1;
	c->stride[0] = 0;
	c->n_parts = 1;
}

/* Whether most are split well or only one is: the better way is taken, even where nothing may be
 * lost. */
START_TEST(test_the_better_way)
{
	double least_us, before;
	struct lab l;

	lab_open(&l, "data-parallel", 0);
	least_us = make(&l, 0);
	ck_assert(l.at.step_us == least_us);
	put_on_one(&l, "block3.mlp.up");
	ck_assert_uint_eq(count(&l), 1);
	before = make(&l, 0);
	ck_assert(before > least_us && l.at.step_us == least_us && count(&l) == 0);
	for (uint32_t k = 0; k < 5; k++) {
		char name[32];

		snprintf(name, sizeof(name), "block%u.mlp.up", k);
		put_on_one(&l, name);
	}
	before = make(&l, 0);
	ck_assert(before > least_us && l.at.step_us == least_us && count(&l) == 0);
	lab_close(&l);
}
END_TEST

static int64_t need(const struct lab *l)
{
	struct ff_lower_options opt = {.workspace = ff_price_workspace, .ctx = l->pricer};
	struct ff_error err = {0};
	struct ff_schedule lowered;
	int64_t most = 0;

	CHECK_OK(ff_lower(&l->g, &l->m, &l->s, &opt, &arena, &lowered, &err));
	for (uint32_t i = 0; i < l->m.n_devices; i++)
		most = lowered.memory_bytes[i] > most ? lowered.memory_bytes[i] : most;
	return most;
}

/* What is recomputed for nothing is kept, and what is in stages for nothing is in one.  Where
 * memory does for no more it stays recomputed. */
START_TEST(test_what_serves_nothing)
{
	int64_t limit = 0;

	for (int scarce = 0; scarce < 2; scarce++) {
		struct lab l;

		lab_open(&l, "megatron:1,8,1,1,recompute", limit);
		limit = need(&l) + need(&l) / 100;
		for (uint32_t i = node(&l, "logits"); i < l.g.n_nodes; i++)
			l.s.stage[i] = ff_node_needs_config(&l.g, i);
		make(&l, 1);
		ck_assert(l.at.fits);
		for (uint32_t i = 0; i < l.g.n_nodes; i++)
			ck_assert_uint_eq(l.s.stage[i], 0);
		ck_assert(l.s.recompute[node(&l, "block0.mlp.up")] == scarce);
		lab_close(&l);
	}
}
END_TEST

/* Without recomputation it does not fit, with all of it it takes longer: that is a question of how
 * much longer. */
START_TEST(test_what_it_may_cost)
{
	int64_t limit;
	double before;
	struct lab l;

	lab_open(&l, "data-parallel", 0);
	limit = need(&l);
	for (uint32_t i = 0; i < l.g.n_nodes; i++)
		if (!strncmp(l.g.nodes[i].name, "block0.", 7) && ff_node_needs_config(&l.g, i))
			l.s.recompute[i] = true;
	ck_assert_int_lt(need(&l), limit);
	limit = need(&l);
	lab_close(&l);
	for (int enough = 0; enough < 2; enough++) {
		lab_open(&l, "data-parallel", limit);
		for (uint32_t i = 0; i < l.g.n_nodes; i++)
			if (!strncmp(l.g.nodes[i].name, "block0.", 7) &&
					ff_node_needs_config(&l.g, i))
				l.s.recompute[i] = true;
		before = make(&l, enough ? 50 : 0.01);
		ck_assert(l.at.fits);
		ck_assert(enough ? l.at.step_us > before && count(&l) == 0
				 : l.at.step_us <= before * 1.0001 && count(&l) > 0);
		lab_close(&l);
	}
}
END_TEST

static double processor_s(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/* To count what is unlike in 1,000 layers takes a few times as long as to find them, not 30 times.
 */
START_TEST(test_many_layers)
{
	static const char *const sets[] = {"layers=1000", "hidden=8"};
	double find_s = INFINITY, count_s = INFINITY;
	struct ff_error err = {0};
	struct ff_repeats repeats;
	struct lab l;

	ff_arena_init(&arena);
	CHECK_OK(ff_zoo_build("mlp", 8, sets, 2, &arena, &l.g, &err));
	CHECK_OK(ff_strategy_single(&l.g, 0, &arena, &l.s, &err));
	for (int i = 0; i < 5; i++) {
		double begun = processor_s(), found;

		CHECK_OK(ff_repeats_find(&l.g, NULL, 1, &arena, &repeats, &err));
		found = processor_s();
		find_s = fmin(find_s, found - begun);
		ck_assert_uint_eq(count(&l), 0);
		count_s = fmin(count_s, processor_s() - found);
	}
	ck_assert_uint_gt(repeats.n_blocks, 900);
	ck_assert_double_lt(count_s, 8 * find_s);
	ff_arena_finish(&arena);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("alike");
	TCase *t = tcase_create("alike");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_blocks_of_stages);
	tcase_add_test(t, test_the_better_way);
	tcase_add_test(t, test_what_serves_nothing);
	tcase_add_test(t, test_what_it_may_cost);
	tcase_add_test(t, test_many_layers);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
