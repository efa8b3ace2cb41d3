/* Every strategy that a search evaluates costs what a fresh lowering and
 * simulation of it says, to the bit.  SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

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

struct comparison {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *pricer;
	struct ff_arena scratch;
	int64_t limit; /* 0: each device's capacity */
	uint32_t visits, fitting;
};

static void compare(void *ctx, const struct ff_strategy *s, struct ff_evaluation e)
{
	struct comparison *c = ctx;
	struct ff_lower_options opt = {.workspace = ff_price_workspace, .ctx = c->pricer};
	struct ff_arena_mark mark = ff_arena_mark(&c->scratch);
	struct ff_schedule lowered;
	struct ff_simulation sim;
	struct ff_error err = {0};
	int64_t over = 0;

	CHECK_OK(ff_strategy_check(c->g, s, c->m->n_devices, &err));
	CHECK_OK(ff_lower(c->g, c->m, s, &opt, &c->scratch, &lowered, &err));
	CHECK_OK(ff_simulate(&lowered, c->pricer, &c->scratch, &sim, &err));
	for (uint32_t i = 0; i < c->m->n_devices; i++) {
		int64_t limit = c->limit ? c->limit : ff_device_kind(c->m, i)->memory_bytes;

		if (lowered.live_bytes[i] > limit)
			over += lowered.live_bytes[i] - limit;
	}
	ck_assert_msg(sim.step_us == e.step_us,
			"%s on %u devices, visit %u: search %.17g us, fresh simulation %.17g us",
			c->g->name, c->m->n_devices, c->visits, e.step_us, sim.step_us);
	ck_assert_msg((over == 0) == e.fits, "%s on %u devices, visit %u: search says %s",
			c->g->name, c->m->n_devices, c->visits, e.fits ? "fits" : "does not fit");
	ck_assert_int_eq(e.over_bytes, over);
	ck_assert(e.fits == (e.over_bytes == 0));
	c->visits++;
	c->fitting += e.fits;
	ff_arena_rewind(&c->scratch, mark);
}

/* Returns how many of the strategies visited fit. */
static uint32_t walk(const struct ff_graph *g, const struct ff_machine *m, int64_t limit,
		uint64_t proposals, uint64_t seed)
{
	struct comparison c = {.g = g, .m = m, .limit = limit};
	struct ff_search_options opt = {
			.seed = seed, .proposals = proposals, .visit = compare, .visit_ctx = &c};
	struct ff_evaluator *evaluator;
	struct ff_search_result found;
	struct ff_error err = {0};
	struct ff_space *space;
	int code;

	ff_arena_init(&c.scratch);
	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &c.pricer, &err));
	CHECK_OK(ff_space_create(g, m, &space, &err));
	CHECK_OK(ff_evaluator_create(g, m, c.pricer, limit, 0, &evaluator, &err));
	code = ff_search_mcmc(space, evaluator, g, m, &opt, &arena, &found, &err);
	ck_assert_msg(code == FF_OK || code == FF_E_NOFIT, "%s", err.text);
	ck_assert_uint_ge(c.visits, proposals);
	ff_evaluator_destroy(evaluator);
	ff_space_destroy(space);
	ff_pricer_destroy(c.pricer);
	ff_arena_finish(&c.scratch);
	return c.fitting;
}

static const struct fixture_machine machines[] = {
		{1, 2, true, 16 * GIB, 1e4, 1e4},
		{1, 3, false, 16 * GIB, 1e4, 1e4},
		{2, 2, true, 16 * GIB, 4e4, 1e4},
		{2, 4, false, 16 * GIB, 4e4, 1e4},
		{4, 4, true, 16 * GIB, 4e4, 1e4},
};
#define N_MACHINES (sizeof(machines) / sizeof(*machines))

static void walk_machines(const char *net, uint64_t batch, const char *set, uint32_t proposals)
{
	uint64_t seed = ff_test_seed(1);
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build(net, batch, &set, set ? 1 : 0, &arena, &g, &err));
	for (uint32_t i = 0; i < N_MACHINES; i++) {
		struct ff_machine m = fixture_machine(&machines[i], &arena);

		ck_assert_uint_gt(walk(&g, &m, 0, ff_test_rounds(proposals), seed + i), 0);
	}
}

START_TEST(test_lenet)
{
	walk_machines("lenet", 64, NULL, 1000);
}
END_TEST

START_TEST(test_alexnet)
{
	walk_machines("alexnet", 256, NULL, 600);
}
END_TEST

START_TEST(test_small_alexnet)
{
	walk_machines("alexnet", 30, "image=28", 600);
}
END_TEST

START_TEST(test_branchnet)
{
	walk_machines("branchnet", 64, NULL, 400);
}
END_TEST

/* A limit in the middle of what strategies need: both answers must occur. */
START_TEST(test_memory)
{
	struct ff_machine m = fixture_machine(&machines[2], &arena);
	struct ff_error err = {0};
	struct ff_graph g;
	uint32_t fitting;

	CHECK_OK(ff_zoo_build("alexnet", 256, NULL, 0, &arena, &g, &err));
	fitting = walk(&g, &m, GIB, 300, ff_test_seed(5));
	ck_assert_uint_gt(fitting, 0);
	ck_assert_uint_lt(fitting, 300);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("visits");
	TCase *c = tcase_create("visits");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_lenet);
	tcase_add_test(c, test_alexnet);
	tcase_add_test(c, test_small_alexnet);
	tcase_add_test(c, test_branchnet);
	tcase_add_test(c, test_memory);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
