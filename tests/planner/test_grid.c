/* The grid of strategies by hand.  SPDX-License-Identifier: Apache-2.0 */
#include "../../planner/hand/grid.h"

#include <stdio.h>
#include <string.h>

#include "../check_main.h"
#include "ff/zoo.h"
#include "fixture.h"

#define MOST_TRIED 100

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

/* What looks for strategies of a graph on devices that have `memory` bytes. */
struct looking {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
};

static struct looking open_looking(
		const struct ff_graph *g, const struct ff_machine *m, int64_t memory)
{
	struct looking ret = {.g = g, .m = m};
	struct ff_error err = {0};

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &ret.pricer, &err));
	CHECK_OK(ff_space_create(g, m, &ret.space, &err));
	ff_space_allow(ret.space, FF_SPACE_ALL);
	CHECK_OK(ff_evaluator_create(g, m, ret.pricer, memory, 0, &ret.evaluator, &err));
	return ret;
}

static void close_looking(struct looking *l)
{
	ff_evaluator_destroy(l->evaluator);
	ff_space_destroy(l->space);
	ff_pricer_destroy(l->pricer);
}

/* How the strategy of that name does. */
static struct ff_evaluation named(struct looking *l, const char *name)
{
	struct ff_evaluation ret;
	struct ff_error err = {0};
	struct ff_strategy s;

	CHECK_OK(ff_init_strategy(name, l->space, l->g, l->m, 0, &arena, &s, &err));
	CHECK_OK(ff_evaluator_set(l->evaluator, &s, &ret, &err));
	return ret;
}

struct looked {
	bool found;
	double step_us;
	char name[FF_GRID_NAME];
};

/* The best of the grid. */
static struct looked look(struct looking *l, struct ff_grid grid)
{
	struct looked ret = {0};
	struct ff_error err = {0};
	struct ff_strategy s;

	grid.evaluator = l->evaluator;
	grid.space = l->space;
	grid.graph = l->g;
	grid.machine = l->m;
	CHECK_OK(ff_grid_find(&grid, &arena, &s, ret.name, &ret.found, &err));
	if (ret.found) {
		struct ff_evaluation best;

		CHECK_OK(ff_evaluator_set(l->evaluator, &s, &best, &err));
		ret.step_us = best.step_us;
	}
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
	struct looking l;
	struct looked x;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 16, sets, 5, &arena, &g, &err));
	l = open_looking(&g, &m, 0);
	x = look(&l, (struct ff_grid){.whole = true});
	ck_assert(x.found);
	ck_assert_msg(strstr(x.name, ",zb-"), "%s", x.name);
	for (uint32_t i = 0; i < 2; i++) {
		double step_us = named(&l, names[i]).step_us;

		ck_assert_msg(x.step_us <= step_us, "%s takes %g us, %s %g", x.name, x.step_us,
				names[i], step_us);
	}
	close_looking(&l);
}
END_TEST

/* Where there is time for few, neighbours of the fastest are tried before all places where to begin
 * are: those fill bubbles, and these do not. */
START_TEST(test_fills_bubbles_early)
{
	static const char *const sets[] = {
			"layers=8", "width=512", "heads=8", "sequence=128", "vocabulary=101"};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){8, 1, true, (int64_t)1 << 34, 1e4, 1e3}, &arena);
	struct ff_error err = {0};
	struct looking l;
	struct looked x;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 64, sets, 5, &arena, &g, &err));
	l = open_looking(&g, &m, 0);
	x = look(&l, (struct ff_grid){.most = 16});
	ck_assert(x.found);
	ck_assert_msg(strstr(x.name, ",zb-") || strstr(x.name, ",interleave"), "%s", x.name);
	close_looking(&l);
}
END_TEST

/* Three hosts suggest three stages, and that is seen early. */
START_TEST(test_has_a_stage_a_node)
{
	static const char *const sets[] = {
			"layers=6", "width=512", "heads=8", "sequence=128", "vocabulary=101"};
	static const struct ff_grid grids[] = {{.whole = true}, {.most = 8}};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){3, 1, true, (int64_t)1 << 34, 1e4, 1e3}, &arena);
	struct ff_error err = {0};
	struct looking l;
	struct ff_graph g;
	double step_us;

	CHECK_OK(ff_zoo_build("gpt2", 24, sets, 5, &arena, &g, &err));
	l = open_looking(&g, &m, 0);
	step_us = named(&l, "megatron:1,1,3,8").step_us;
	for (uint32_t i = 0; i < 2; i++) {
		struct looked x = look(&l, grids[i]);

		ck_assert(x.found);
		ck_assert_msg(x.step_us <= step_us, "%s takes %g us, three stages %g", x.name,
				x.step_us, step_us);
	}
	close_looking(&l);
}
END_TEST

/* How many places have V stages a device of P shares in turn. */
static uint32_t count_turns(const struct ff_places *x, uint32_t stages, uint32_t v)
{
	char turns[24];
	uint32_t n = 0;

	snprintf(turns, sizeof(turns), ",interleave=%u", v);
	for (uint32_t i = 0; i < ff_places_count(x); i++) {
		struct ff_place p = ff_place_at(x, i);
		char name[FF_GRID_NAME];
		size_t length;

		ck_assert_uint_eq(ff_place_number(x, &p), i);
		ff_place_name(x, &p, name);
		length = strlen(name);
		if (ff_place_is_there(x, &p) && ff_place_stages(x, &p) == stages &&
				length > strlen(turns) &&
				!strcmp(name + length - strlen(turns), turns)) {
			ck_assert_uint_eq(ff_place_chunks(x, &p), v);
			n++;
		}
	}
	return n;
}

/* Stages in turn have equally many blocks, where they can: of 20 blocks two shares have 10 each,
 * four 5, so that two numbers that do not divide these are there as well; of 7 two have no half. */
START_TEST(test_turns_divide_blocks)
{
	static const struct {
		uint32_t blocks, stages, turns[3];
	} cases[] = {{20, 2, {2, 5, 10}}, {20, 4, {2, 3, 5}}, {7, 2, {2, 3, 4}}, {4, 4, {2, 3, 4}},
			{18, 2, {2, 3, 9}}};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){1, 4, true, (int64_t)1 << 34, 1e4, 1e3}, &arena);
	struct ff_graph g = three_layers();
	struct looking l = open_looking(&g, &m, 0);

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ff_places x = {.graph = &g,
				.machine = &m,
				.space = l.space,
				.n_blocks = cases[i].blocks};

		ff_places_init(&x);
		for (uint32_t v = 2; v <= 20; v++) {
			bool is = v == cases[i].turns[0] || v == cases[i].turns[1] ||
				  v == cases[i].turns[2];
			bool has = count_turns(&x, cases[i].stages, v) > 0;

			ck_assert_msg(has == is, "%u blocks, %u stages, %u in turn: %s",
					cases[i].blocks, cases[i].stages, v,
					has ? "there" : "missing");
		}
	}
	close_looking(&l);
}
END_TEST

/* Whether the grid of `l` has a place of that name. */
static bool has_place(const struct looking *l, const char *name)
{
	struct ff_places x = {.graph = l->g, .machine = l->m, .space = l->space, .n_blocks = 3};
	bool has = false;

	ff_places_init(&x);
	for (uint32_t i = 0; i < ff_places_count(&x) && !has; i++) {
		struct ff_place p = ff_place_at(&x, i);
		char at[FF_GRID_NAME];

		ff_place_name(&x, &p, at);
		has = !strcmp(at, name) && ff_place_is_there(&x, &p);
	}
	return has;
}

/* Where a batch of 24 has no equal shares, on five nodes, and where it has, on four. */
START_TEST(test_has_uneven_batches)
{
	static const char *const sets[] = {"layers=3", "width=256", "heads=4", "sequence=32"};
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 24, sets, 4, &arena, &g, &err));
	for (uint32_t nodes = 4; nodes <= 5; nodes++) {
		bool uneven = nodes == 5;
		struct ff_machine m = fixture_machine(&(struct fixture_machine){nodes, 1, true,
								      (int64_t)1 << 34, 1e4, 1e3},
				&arena);
		struct looking l = open_looking(&g, &m, 0);
		struct looked x = look(&l, (struct ff_grid){.samples = true});

		ck_assert(has_place(&l, "megatron:1,5,1,1,zero-1,uneven-batch") == uneven);
		ck_assert(has_place(&l, "megatron:1,5,1,4,zero-1,uneven-batch") == uneven);
		ck_assert(!has_place(&l, "megatron:1,5,1,8,zero-1,uneven-batch")); /* of 3 */
		ck_assert(!has_place(&l, "megatron:1,5,1,1,zero-1"));
		ck_assert(!has_place(&l, "megatron:1,4,1,1,zero-1,uneven-batch"));
		ck_assert(has_place(&l, "megatron:1,4,1,2,zero-1") == !uneven);
		ck_assert(!has_place(&l, "megatron:1,4,1,4,zero-1")); /* not of 6 each */
		ck_assert(x.found);
		ck_assert((strstr(x.name, ",uneven-batch") != NULL) == uneven);
		ck_assert(x.step_us == named(&l, x.name).step_us);
		close_looking(&l);
	}
}
END_TEST

/* Updates and weights are cut over all devices or over those of a node, where there are several
 * nodes. */
START_TEST(test_cuts_over_a_node)
{
	static const char *const cut[] = {
			"megatron:1,4,1,2,zero-1,hybrid", "megatron:1,4,1,2,zero-3,hybrid"};
	struct ff_graph g = three_layers();

	for (uint32_t nodes = 1; nodes <= 2; nodes++) {
		struct ff_machine m =
				fixture_machine(&(struct fixture_machine){nodes, 4 / nodes, true,
								(int64_t)1 << 34, 1e4, 1e3},
						&arena);
		struct looking l = open_looking(&g, &m, 0);

		for (uint32_t i = 0; i < 2; i++)
			ck_assert_msg(has_place(&l, cut[i]) == (nodes > 1), "%u nodes: %s", nodes,
					cut[i]);
		ck_assert(has_place(&l, "megatron:1,4,1,2,zero-1"));
		close_looking(&l);
	}
}
END_TEST

/* The least memory of which `name` is said to need nothing more. */
static int64_t least_bytes(const struct ff_graph *g, const struct ff_machine *m, const char *name)
{
	struct looking l = open_looking(g, m, 1);
	int64_t over = named(&l, name).over_bytes;

	close_looking(&l);
	return over / m->n_devices + 1;
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
	struct looking l;
	struct looked x;
	struct ff_graph g;
	int64_t memory;

	CHECK_OK(ff_zoo_build("gpt2", 1, sets, 5, &arena, &g, &err));
	memory = least_bytes(&g, &m, some);
	memory += memory / 50; /* a layout has gaps */
	l = open_looking(&g, &m, memory);
	x = look(&l, (struct ff_grid){.fill = true, .whole = true});
	ck_assert(x.found);
	ck_assert_msg(strstr(x.name, ",recompute="), "%s", x.name);
	for (uint32_t i = 0; i < 3; i++) {
		struct ff_evaluation at;
		char name[100];

		snprintf(name, sizeof(name), "megatron:1,1,1,1%s", alike[i]);
		at = named(&l, name);
		ck_assert_msg(!at.fits || at.step_us > x.step_us, "%s: %g us, %s: %g", x.name,
				x.step_us, name, at.step_us);
	}
	ck_assert_msg(named(&l, some).step_us >= x.step_us, "%s", x.name);
	close_looking(&l);
}
END_TEST

/* Micro-batches are tried before recomputation, which takes longer where kernels are not small. */
START_TEST(test_recomputes_last)
{
	static const char cut[] = "megatron:1,4,1,4,zero-3";
	static const char *const sets[] = {
			"layers=8", "width=64", "heads=4", "sequence=64", "vocabulary=101"};
	struct ff_grid grid = {.samples = true, .fill = true, .most = 1};
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_error err = {0};
	struct looking l;
	struct looked x;
	struct ff_graph g;
	int64_t memory;

	CHECK_OK(ff_zoo_build("gpt2", 16, sets, 5, &arena, &g, &err));
	memory = least_bytes(&g, &m, cut);
	l = open_looking(&g, &m, memory + memory / 50);
	ck_assert(!named(&l, "megatron:1,4,1,1,zero-3").fits);
	x = look(&l, grid);
	ck_assert(x.found);
	ck_assert_msg(!strstr(x.name, ",recompute"), "%s", x.name);
	close_looking(&l);
}
END_TEST

/* What is no faster than a step that is known is neither found nor laid out. */
START_TEST(test_wants_faster)
{
	struct ff_graph g = three_layers();
	struct ff_machine m = fixture_devices(4, &arena);
	struct looking l = open_looking(&g, &m, 0);
	struct looked best = look(&l, (struct ff_grid){.most = MOST_TRIED});

	ck_assert(best.found);
	ck_assert(!look(&l, (struct ff_grid){.most = MOST_TRIED, .known_us = best.step_us}).found);
	ck_assert(look(&l, (struct ff_grid){.most = MOST_TRIED, .known_us = 2 * best.step_us})
					.found);
	close_looking(&l);
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
	int64_t live = least_bytes(&g, &m, least);
	struct looking l = open_looking(&g, &m, live + live / 10);

	ck_assert(!named(&l, "data-parallel").fits);
	ck_assert(look(&l, grid).found);
	close_looking(&l);
	l = open_looking(&g, &m, (live + live / 10) / 8);
	ck_assert(!look(&l, grid).found);
	close_looking(&l);
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

/* Layouts that wait until the walk is over change nothing: where all that fits is shown, all of it
 * is laid out at once.  Half as much memory again and again, until nothing fits. */
START_TEST(test_lays_out_late)
{
	struct ff_graph g = three_layers();
	struct ff_machine m = fixture_devices(4, &arena);
	int64_t memory = 4 * least_bytes(&g, &m, "single");
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
		struct looking l[2] = {open_looking(&g, &m, memory), open_looking(&g, &m, memory)};
		struct looked x = look(&l[0], late), y = look(&l[1], now);

		close_looking(&l[0]);
		close_looking(&l[1]);
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

#define MOST_WAITING 512

/* How often it was asked whether the time is up, also before anything was laid out; and what was
 * or waits for it. */
struct asked {
	uint32_t n, before, layouts, most;
	uint64_t waiting[MOST_WAITING];
	uint32_t n_waiting;
};

static bool asks(void *ctx, double share)
{
	struct asked *a = ctx;

	(void)share;
	return ++a->n > a->most;
}

/* Strategies that differ have different ones, mostly. */
static uint64_t sum_of(const struct ff_strategy *s)
{
	uint64_t sum = s->micro_batches + 64 * s->scatter + 128 * s->rule + 1024 * s->chunks;

	for (uint32_t i = 0; i < s->n_nodes; i++) {
		const struct ff_config *c = &s->config[i];

		sum = sum * 31 + s->recompute[i] + 2 * s->stage[i] + 32 * c->flat + c->start;
		for (uint32_t d = 0; d < FF_MAX_DIMS && c->n_parts; d++)
			sum = sum * 31 + c->degree[d];
	}
	return sum;
}

/* It is asked of what is to wait, and again of what is laid out. */
static bool lays_out(void *ctx, const struct ff_strategy *s)
{
	struct asked *a = ctx;
	uint64_t sum = sum_of(s);

	for (uint32_t i = 0; i < a->n_waiting; i++)
		if (a->waiting[i] == sum) {
			if (!a->layouts++)
				a->before = a->n;
			return true;
		}
	ck_assert_uint_lt(a->n_waiting, MOST_WAITING);
	a->waiting[a->n_waiting++] = sum;
	return true;
}

/* Whether all of the grid was tried and the fastest has no layout; *before is how often the time
 * was asked for until then. */
static bool fastest_has_none(struct looking *l, struct ff_grid grid, uint32_t *before)
{
	struct asked asked = {.most = UINT32_MAX};

	grid.ctx = &asked;
	look(l, grid);
	*before = asked.before;
	return asked.layouts > 1;
}

/* Where the time is up when all was tried, and the fastest has no layout, one with more memory left
 * is laid out. */
START_TEST(test_lays_out_another)
{
	static const char *const sets[] = {
			"layers=8", "width=64", "heads=4", "sequence=64", "vocabulary=101"};
	struct ff_machine m = fixture_devices(2, &arena);
	struct ff_grid grid = {.fill = true,
			.whole = true,
			.known_us = 1e12,
			.stop = asks,
			.may_lay_out = lays_out};
	struct ff_error err = {0};
	struct ff_graph g;
	uint32_t n = 0;
	int64_t memory;

	CHECK_OK(ff_zoo_build("gpt2", 4, sets, 5, &arena, &g, &err));
	memory = 2 * least_bytes(&g, &m, "megatron:1,2,1,1");
	for (uint32_t i = 0; i < ff_test_rounds(24) || (i < 24 && !n); i++, memory -= memory / 12) {
		struct looking l = open_looking(&g, &m, memory);
		struct asked asked = {.n = 0};

		if (fastest_has_none(&l, grid, &asked.most)) {
			grid.ctx = &asked;
			ck_assert(look(&l, grid).found);
			n += asked.layouts == 2;
		}
		close_looking(&l);
	}
	ck_assert_msg(n, "the fastest always had a layout");
}
END_TEST

/* There was time when they were to wait, and is none for the first three of them any more. */
static bool lays_out_fourth(void *ctx, const struct ff_strategy *s)
{
	struct asked *a = ctx;
	uint32_t before = a->layouts;

	return lays_out(ctx, s) && (a->layouts == before || a->layouts > 3);
}

/* Time to lay out what waits is about to end, once this much was looked at. */
struct pressing {
	uint32_t looked, at; /* times that was asked; from when on it is so */
};

static bool presses(void *ctx, const struct ff_strategy *s)
{
	struct pressing *p = ctx;

	(void)s;
	return p->looked++ >= p->at;
}

/* What waits is laid out before it is too late for that, and nothing more is tried. */
START_TEST(test_lays_out_in_time)
{
	struct ff_graph g = three_layers();
	struct ff_machine m = fixture_devices(4, &arena);
	int64_t live = least_bytes(&g, &m, "megatron:1,4,1,1,zero-1");
	struct pressing at_last = {.at = UINT32_MAX}, soon = {.at = 0};
	struct ff_grid all = {
			.whole = true, .known_us = 1e9, .must_lay_out = presses, .ctx = &at_last};
	struct ff_grid few = {
			.whole = true, .known_us = 1e9, .must_lay_out = presses, .ctx = &soon};
	struct looking l = open_looking(&g, &m, live + live / 10);
	struct looked x = look(&l, all), y = look(&l, few);

	ck_assert(x.found && y.found);
	ck_assert(x.step_us <= y.step_us);
	ck_assert_uint_gt(at_last.looked, 20);
	ck_assert_uint_lt(soon.looked, 5); /* each end of the walk asks once */
	close_looking(&l);
}
END_TEST

/* Where the time is up when all was tried, what there is no time to lay out is passed over. */
START_TEST(test_passes_over_what_takes_long)
{
	static const char *const sets[] = {
			"layers=8", "width=64", "heads=4", "sequence=64", "vocabulary=101"};
	struct ff_machine m = fixture_devices(2, &arena);
	struct asked asked = {.most = UINT32_MAX};
	struct ff_grid grid = {.fill = true,
			.whole = true,
			.known_us = 1e12,
			.stop = asks,
			.may_lay_out = lays_out_fourth,
			.ctx = &asked};
	struct ff_error err = {0};
	struct looking l;
	struct ff_graph g;
	int64_t memory;

	CHECK_OK(ff_zoo_build("gpt2", 4, sets, 5, &arena, &g, &err));
	memory = least_bytes(&g, &m, "megatron:1,2,1,1,zero-1,recompute");
	l = open_looking(&g, &m, memory + memory / 10);
	look(&l, grid);
	asked = (struct asked){.most = asked.before};
	ck_assert(look(&l, grid).found);
	close_looking(&l);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("grid");
	TCase *c = tcase_create("grid");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_has_zero_bubbles);
	tcase_add_test(c, test_fills_bubbles_early);
	tcase_add_test(c, test_has_a_stage_a_node);
	tcase_add_test(c, test_turns_divide_blocks);
	tcase_add_test(c, test_has_uneven_batches);
	tcase_add_test(c, test_cuts_over_a_node);
	tcase_add_test(c, test_has_some_blocks);
	tcase_add_test(c, test_recomputes_last);
	tcase_add_test(c, test_wants_faster);
	tcase_add_test(c, test_in_a_hurry);
	tcase_add_test(c, test_lays_out_late);
	tcase_add_test(c, test_lays_out_in_time);
	tcase_add_test(c, test_lays_out_another);
	tcase_add_test(c, test_passes_over_what_takes_long);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
