/* Layouts where only sizes are asked for: devices that do the same are lowered once, and every
 * device needs what it needs in the whole schedule.  SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include "../random_graph.h"
#include "ff/price.h"
#include "ff/simulate.h"
#include "ff/starts.h"
#include "ff/zoo.h"
#include "fixture.h"

#define CASES 250

/* Scratch that depends on what is computed, by some rule. */
static int64_t scratch(void *ctx, const struct ff_work *w)
{
	(void)ctx;
	return (int64_t)ff_work_bytes(w) / 3 + 64;
}

static bool equal_tasks(const struct ff_task *a, const struct ff_task *b)
{
	return a->phase == b->phase && a->micro == b->micro && a->node == b->node &&
	       a->part == b->part && a->device == b->device && a->edge == b->edge &&
	       a->bucket == b->bucket && a->n_deps == b->n_deps && a->n_lanes == b->n_lanes;
}

/* Of a schedule without buffers tasks come in the same order, after the same ones, on the same
 * lanes, and take as long. */
static void compare_tasks(const struct ff_schedule *whole, const struct ff_schedule *tasks,
		struct ff_arena *a, const char *what)
{
	struct ff_simulation x, y;
	struct ff_pricer *p;
	struct ff_error err = {0};
	uint32_t same = 0;

	ck_assert_msg(whole->n_tasks == tasks->n_tasks, "%s: %u tasks, and %u", what,
			whole->n_tasks, tasks->n_tasks);
	ck_assert(!tasks->n_buffers && whole->network_bytes == tasks->network_bytes);
	CHECK_OK(ff_pricer_create(whole->graph, whole->machine, FF_ESTIMATE_PEAK, NULL, NULL,
			whole->graph->name, &p, &err));
	ff_pricer_set_clip(p, whole->clip != FF_NONE);
	ff_pricer_set_travel(p, &whole->travel);
	CHECK_OK(ff_simulate(whole, p, a, &x, &err));
	CHECK_OK(ff_simulate(tasks, p, a, &y, &err));
	while (same < whole->n_tasks && equal_tasks(&whole->tasks[same], &tasks->tasks[same]) &&
			x.start[same] == y.start[same] && x.finish[same] == y.finish[same])
		same++;
	ck_assert_msg(same == whole->n_tasks,
			"%s: task %u is another without buffers, or takes "
			"another time",
			what, same);
	ff_pricer_destroy(p);
}

/* Both schedules; every device's memory is the same, and what is sent.  Returns how many tasks the
 * whole one has for each of the other. */
static double compare(const struct ff_graph *g, const struct ff_machine *m,
		const struct ff_strategy *s, bool clip, uint32_t average_every, struct ff_arena *a,
		const char *what)
{
	struct ff_lower_options opt = {
			.workspace = scratch, .clip = clip, .travel.average_every = average_every};
	struct ff_schedule whole, sizes, tasks;
	struct ff_error err = {0};

	ck_assert_msg(ff_lower(g, m, s, &opt, a, &whole, &err) == FF_OK, "%s: %s", what, err.text);
	opt.what = FF_LOWER_SIZES;
	ck_assert_msg(ff_lower(g, m, s, &opt, a, &sizes, &err) == FF_OK, "%s: %s", what, err.text);
	for (uint32_t d = 0; d < m->n_devices; d++) {
		ck_assert_msg(whole.memory_bytes[d] == sizes.memory_bytes[d],
				"%s: device %u needs %lld bytes, and %lld where sizes are asked",
				what, d, (long long)whole.memory_bytes[d],
				(long long)sizes.memory_bytes[d]);
		ck_assert_msg(whole.live_bytes[d] == sizes.live_bytes[d], "%s: live, device %u",
				what, d);
		ck_assert_msg(whole.workspace_bytes[d] == sizes.workspace_bytes[d],
				"%s: scratch, device %u", what, d);
	}
	ck_assert_msg(whole.network_bytes == sizes.network_bytes &&
					whole.averaged_bytes == sizes.averaged_bytes,
			"%s: %lld and %lld bytes are sent, and %lld and %lld where sizes are asked",
			what, (long long)whole.network_bytes, (long long)whole.averaged_bytes,
			(long long)sizes.network_bytes, (long long)sizes.averaged_bytes);
	opt.what = FF_LOWER_TASKS;
	ck_assert_msg(ff_lower(g, m, s, &opt, a, &tasks, &err) == FF_OK, "%s: %s", what, err.text);
	compare_tasks(&whole, &tasks, a, what);
	return (double)whole.n_tasks / sizes.n_tasks;
}

/* Data parallelism, but for a few operators: most devices do the same then. */
static void draw_nearly_equal(struct ff_random *r, const struct ff_graph *g, uint32_t devices,
		struct ff_arena *a, struct ff_strategy *s)
{
	struct ff_error err = {0};

	CHECK_OK(ff_strategy_data_parallel(g, devices, a, s, &err));
	for (uint32_t n = ff_random_below(r, 3); n-- > 0;) {
		uint32_t node = ff_random_below(r, g->n_nodes);

		if (ff_node_needs_config(g, node))
			CHECK_OK(random_config(r, g, node, devices, a, &s->config[node], &err));
	}
}

START_TEST(as_the_whole_schedule)
{
	struct ff_random r = {.seed = ff_test_seed(31)};
	uint32_t folded = 0;

	for (int i = 0; i < CASES; i++) {
		struct ff_error err = {0};
		struct ff_arena a;
		struct ff_graph g, micro;
		struct ff_machine m;
		struct ff_strategy s;
		char what[32];

		ff_arena_init(&a);
		snprintf(what, sizeof(what), "case %d", i);
		CHECK_OK(random_graph(&r, i % 3 ? FF_F32 : FF_BF16, 8, &a, &g, &err));
		CHECK_OK(random_machine(&r, 1 + ff_random_below(&r, 8), &a, &m, &err));
		if (i % 4 == 0) {
			draw_nearly_equal(&r, &g, m.n_devices, &a, &s);
		} else {
			CHECK_OK(random_strategy(&r, &g, m.n_devices, &a, &s, &micro, &err));
			random_order(&r, &s);
			random_scattered(&r, &micro, &a, &s);
		}
		folded += compare(&g, &m, &s, i & 1, 0, &a, what) > 1;
		ff_arena_finish(&a);
	}
	ck_assert_uint_gt(folded, CASES / 16);
}
END_TEST

static const char *const by_hand[] = {"data-parallel", "zero-1", "zero-3", "pipeline-4",
		"megatron:8,4,1,1", "megatron:2,4,4,4,zero-1",
		"megatron:4,2,4,8,sequence,recompute", "megatron:2,4,4,2,sequence,zero-3",
		"megatron:1,8,4,4,zero-1,interleave=2",
		"megatron:2,4,4,4,zero-1,zb-h1,recompute=light", "megatron:2,4,4,4,zero-1,zb-v"};

/* Of 32 devices few differ. */
START_TEST(strategies_by_hand)
{
	static const char *const sets[] = {
			"layers=8", "width=64", "heads=8", "sequence=32", "vocabulary=1024"};
	struct ff_error err = {0};
	struct ff_arena a;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_space *space;
	struct ff_strategy s;

	ff_arena_init(&a);
	CHECK_OK(ff_zoo_build("gpt2", 32, sets, 5, &a, &g, &err));
	CHECK_OK(ff_machine_load("dgx-a100-40:4", &a, &m, &err));
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
	CHECK_OK(ff_init_strategy(by_hand[_i], space, &g, &m, 0, &a, &s, &err));
	ck_assert_double_gt(compare(&g, &m, &s, _i % 2, 0, &a, by_hand[_i]), 3);
	if (_i == 0)
		ck_assert_double_gt(compare(&g, &m, &s, false, 4, &a, "averaged"), 3);
	ff_space_destroy(space);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("equal devices");
	TCase *c = tcase_create("equal devices");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, as_the_whole_schedule);
	tcase_add_loop_test(c, strategies_by_hand, 0, sizeof(by_hand) / sizeof(*by_hand));
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
