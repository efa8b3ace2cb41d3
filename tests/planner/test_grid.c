/* The grid of strategies by hand.  SPDX-License-Identifier: Apache-2.0 */
#include "../../planner/hand/grid.h"

#include <stdio.h>

#include "../check_main.h"
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

static struct ff_graph three_layers(void)
{
	static const char *const sets[] = {"layers=3"};
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 24, sets, 1, &arena, &g, &err));
	return g;
}

struct looked {
	bool found;
	struct ff_evaluation at; /* of the name it was compared with */
	double step_us;          /* of the best */
	char name[FF_GRID_NAME];
};

/* The best of the grid where devices have `memory` bytes, and how `name` does. */
static struct looked look(const struct ff_graph *g, const struct ff_machine *m, int64_t memory,
		struct ff_grid grid, const char *name)
{
	struct ff_evaluator *evaluator;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_strategy s;
	struct ff_space *space;
	struct looked ret = {0};

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	CHECK_OK(ff_space_create(g, m, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
	CHECK_OK(ff_evaluator_create(g, m, pricer, memory, 0, &evaluator, &err));
	CHECK_OK(ff_init_strategy(name, space, g, m, 0, &arena, &s, &err));
	CHECK_OK(ff_evaluator_set(evaluator, &s, &ret.at, &err));
	grid.evaluator = evaluator;
	grid.space = space;
	grid.graph = g;
	grid.machine = m;
	CHECK_OK(ff_grid_find(&grid, &arena, &s, ret.name, &ret.found, &err));
	if (ret.found) {
		struct ff_evaluation best;

		CHECK_OK(ff_evaluator_set(evaluator, &s, &best, &err));
		ret.step_us = best.step_us;
	}
	ff_evaluator_destroy(evaluator);
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
	return ret;
}

/* Stages that wait for each other: gradients of parameters are made in the meantime. */
START_TEST(test_has_zero_bubbles)
{
	static const char *const sets[] = {
			"layers=8", "width=512", "heads=8", "sequence=128", "vocabulary=101"};
	static const char *const names[] = {"megatron:1,1,4,8,zb-h1", "megatron:1,1,4,8,zb-v"};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){4, 1, true, (int64_t)1 << 34, 1e4, 1e3}, &arena);
	struct ff_error err = {0};
	struct looked x;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 16, sets, 5, &arena, &g, &err));
	for (uint32_t i = 0; i < 2; i++) {
		x = look(&g, &m, 0, (struct ff_grid){.whole = true}, names[i]);
		ck_assert(x.found);
		ck_assert_msg(x.step_us <= x.at.step_us, "%s takes %g us, %s %g", x.name, x.step_us,
				names[i], x.at.step_us);
		ck_assert_msg(strstr(x.name, ",zb-"), "%s", x.name);
	}
}
END_TEST

/* The least memory of which `name` is said to need nothing more. */
static int64_t least_bytes(const struct ff_graph *g, const struct ff_machine *m, const char *name)
{
	struct ff_grid grid = {.samples = true, .most = 1};

	return look(g, m, 1, grid, name).at.over_bytes / m->n_devices + 1;
}

/* Memory that recomputing all blocks leaves is used: what is found recomputes some, and is faster
 * than whatever treats all alike. */
START_TEST(test_has_some_blocks)
{
	static const char some[] = "megatron:1,1,1,1,recompute=5";
	static const char *const sets[] = {
			"layers=8", "width=64", "heads=4", "sequence=64", "vocabulary=101"};
	static const char *const alike[] = {"", ",recompute=light", ",recompute"};
	struct ff_machine m = fixture_devices(1, &arena);
	struct ff_error err = {0};
	struct ff_graph g;
	int64_t memory;
	struct looked x;

	CHECK_OK(ff_zoo_build("gpt2", 1, sets, 5, &arena, &g, &err));
	memory = least_bytes(&g, &m, some);
	memory += memory / 50; /* a layout has gaps */
	for (uint32_t i = 0; i < 3; i++) {
		char name[100];

		snprintf(name, sizeof(name), "megatron:1,1,1,1%s", alike[i]);
		x = look(&g, &m, memory, (struct ff_grid){.fill = true, .whole = true}, name);
		ck_assert(x.found);
		ck_assert_msg(!x.at.fits || x.at.step_us > x.step_us, "%s: %g us, %s: %g", x.name,
				x.step_us, name, x.at.step_us);
	}
	ck_assert_msg(strstr(x.name, ",recompute="), "%s", x.name);
	ck_assert_msg(look(&g, &m, memory, (struct ff_grid){.fill = true, .whole = true}, some)
							.at.step_us >= x.step_us,
			"%s", x.name);
}
END_TEST

static bool at_once(void *ctx, double share)
{
	(void)ctx, (void)share;
	return true;
}

/* Where there is time for nothing, what needs least memory is tried. */
START_TEST(test_in_a_hurry)
{
	static const char least[] = "megatron:1,4,1,2,zero-3,recompute";
	struct ff_graph g = three_layers();
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_grid grid = {.samples = true, .stop = at_once};
	int64_t live = look(&g, &m, 1, grid, least).at.over_bytes / 4, limit = live + live / 10;
	struct looked x = look(&g, &m, limit, grid, "data-parallel");

	ck_assert(!x.at.fits);
	ck_assert(x.found);
	ck_assert(!look(&g, &m, limit / 8, grid, least).found);
}
END_TEST

struct told {
	uint32_t begun, fitting;
};

static void begins(void *ctx)
{
	((struct told *)ctx)->begun++;
}

static void visits(void *ctx, const struct ff_strategy *s, double step_us)
{
	(void)s, (void)step_us;
	((struct told *)ctx)->fitting++;
}

#define MOST_TRIED 100

/* Layouts that wait until the walk is over change nothing: where all that fits is shown, all of it
 * is laid out at once.  Half as much memory again and again, until nothing fits. */
START_TEST(test_lays_out_late)
{
	struct ff_graph g = three_layers();
	struct ff_machine m = fixture_devices(4, &arena);
	int64_t memory = look(&g, &m, 1, (struct ff_grid){.samples = true}, "single").at.over_bytes;
	uint32_t n = 0;
	bool found = true;

	for (; found; memory /= 2, n++) {
		struct told told[2] = {{0}, {0}};
		struct ff_grid late = {.whole = true,
				.most = MOST_TRIED,
				.begins = begins,
				.ctx = &told[0]};
		struct ff_grid now = {.whole = true,
				.most = MOST_TRIED,
				.begins = begins,
				.visit = visits,
				.ctx = &told[1]};
		struct looked x = look(&g, &m, memory, late, "single");
		struct looked y = look(&g, &m, memory, now, "single");

		found = x.found;
		ck_assert(x.found == y.found);
		ck_assert(told[0].begun == (found ? 1 : 0) && told[1].begun == told[0].begun);
		ck_assert(found == (told[1].fitting > 0));
		if (found)
			ck_assert_msg(x.step_us == y.step_us,
					"%lld bytes: late %s, %g us, now %s, %g", (long long)memory,
					x.name, x.step_us, y.name, y.step_us);
	}
	ck_assert_msg(n > 2, "memory was never scarce");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("grid");
	TCase *c = tcase_create("grid");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_has_zero_bubbles);
	tcase_add_test(c, test_has_some_blocks);
	tcase_add_test(c, test_in_a_hurry);
	tcase_add_test(c, test_lays_out_late);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
