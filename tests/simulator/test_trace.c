/* Traces: a golden file, and the rules of the format for lowered schedules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/trace.h"

#include "ff/simulate.h"
#include "hand.h"
#include "simulator/drawn.h"

/* A node whose name needs escapes, an all-gather, a sync and an update. */
START_TEST(tiny_schedule_is_golden)
{
	static const uint16_t devices[] = {0, 1};
	struct hand_machine h;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_out o;
	uint32_t fc;
	struct ff_move mv = {.kind = FF_MOVE_ALL_GATHER,
			.n_devices = 2,
			.device = devices,
			.network_bytes = 384,
			.copied_bytes = 12};
	struct ff_bucket bucket = {.n_devices = 2, .device = devices, .bytes = 832};
	struct ff_task task[] = {
			{.kind = FF_TASK_FORWARD, .pass = FF_FORWARD, .part = 1, .device = 1},
			{.kind = FF_TASK_MOVE, .pass = FF_FORWARD, .move = &mv},
			{.kind = FF_TASK_BACKWARD, .pass = FF_BACKWARD, .device = 0},
			{.kind = FF_TASK_SYNC, .pass = FF_BACKWARD, .node = FF_NONE},
			{.kind = FF_TASK_UPDATE, .pass = FF_BACKWARD, .node = FF_NONE, .device = 1},
	};
	struct ff_schedule s = {.graph = &g,
			.machine = &h.m,
			.tasks = task,
			.n_tasks = 5,
			.buckets = &bucket,
			.n_buckets = 1};
	const struct ff_span span[] = {{0, 1, 0, 12.5}, {1, 0, 12.5, 14}, {1, 1, 12.5, 14},
			{2, 0, 14, 44}, {3, 0, 44, 50.25}, {3, 1, 44, 50.25}, {4, 1, 50.25, 51}};
	static char golden[16384];
	FILE *file;
	size_t n;

	hand_machine_init(&h, 1, 2, true);
	ff_arena_init(&a);
	hand_graph(&a, 8, 16, 12, &g);
	fc = ff_graph_find(&g, "fc");
	g.nodes[fc].name = "fc \"1\"";
	task[0].node = task[2].node = fc;
	task[1].node = ff_graph_find(&g, "loss");
	ff_out_init(&o);
	ff_trace_write(&s, "predicted", span, 7, &o);
	ck_assert(!o.failed);

	file = fopen(FF_TEST_DATA "/tiny.trace.json", "rb");
	ck_assert_ptr_nonnull(file);
	n = fread(golden, 1, sizeof(golden), file);
	fclose(file);
	ck_assert_msg(n == o.len && !memcmp(o.text, golden, n),
			"the trace differs from tiny.trace.json; it begins %.80s", o.text);
	ff_out_finish(&o);
	ff_arena_finish(&a);
}
END_TEST

START_TEST(labels)
{
	struct hand_machine h;
	struct ff_arena a;
	struct ff_graph g;
	char label[64], cut[8];
	uint32_t fc;
	struct ff_move mv = {.kind = FF_MOVE_HALO};
	struct ff_task task[] = {{.kind = FF_TASK_FORWARD, .pass = FF_FORWARD},
			{.kind = FF_TASK_BACKWARD, .pass = FF_BACKWARD},
			{.kind = FF_TASK_MOVE, .pass = FF_FORWARD, .move = &mv},
			{.kind = FF_TASK_MOVE, .pass = FF_BACKWARD, .move = &mv},
			{.kind = FF_TASK_SYNC, .bucket = 2}, {.kind = FF_TASK_UPDATE, .bucket = 3}};
	static const char *const expect[] = {"fc forward", "fc backward", "fc halo",
			"fc backward halo", "sync bucket 2", "update bucket 3"};
	struct ff_schedule s = {.graph = &g, .machine = &h.m, .tasks = task, .n_tasks = 6};

	hand_machine_init(&h, 1, 1, true);
	ff_arena_init(&a);
	hand_graph(&a, 8, 16, 12, &g);
	fc = ff_graph_find(&g, "fc");
	for (uint32_t i = 0; i < 4; i++)
		task[i].node = fc;
	for (uint32_t i = 0; i < 6; i++) {
		ff_task_label(&s, i, label, sizeof(label));
		ck_assert_str_eq(label, expect[i]);
	}
	ff_task_label(&s, 4, cut, sizeof(cut));
	ck_assert_str_eq(cut, "sync bu");
	ff_arena_finish(&a);
}
END_TEST

/* One X event a span, on a lane that runs one thing at a time. */
static void check_events(const struct ff_json *events, const struct ff_span *span, uint32_t n,
		uint32_t n_devices)
{
	double until[16][2] = {{0}};
	uint32_t names = 0, spans = 0;

	for (uint32_t i = 0; i < events->n; i++) {
		const struct ff_json *e = &events->child[i];
		const char *phase, *name;
		int64_t device, lane;
		double ts, dur;

		ck_assert_int_eq(ff_json_string(e, "ph", &phase, NULL), FF_OK);
		ck_assert_int_eq(ff_json_string(e, "name", &name, NULL), FF_OK);
		ck_assert_int_eq(ff_json_int(e, "pid", 0, n_devices - 1, &device, NULL), FF_OK);
		ck_assert_int_eq(ff_json_int(e, "tid", 0, 1, &lane, NULL), FF_OK);
		if (!strcmp(phase, "M")) {
			names++;
			continue;
		}
		ck_assert_str_eq(phase, "X");
		ck_assert_int_eq(ff_json_real(e, "ts", 0, 1e15, &ts, NULL), FF_OK);
		ck_assert_int_eq(ff_json_real(e, "dur", 0, 1e15, &dur, NULL), FF_OK);
		ck_assert_double_eq(ts, span[spans].start_us);
		ck_assert_int_eq(device, span[spans].device);
		ck_assert_double_ge(ts, until[device][lane] * (1 - 1e-12));
		until[device][lane] = ts + dur;
		spans++;
	}
	ck_assert_uint_eq(names, 3 * n_devices);
	ck_assert_uint_eq(spans, n);
}

START_TEST(lowered_schedules)
{
	struct ff_random state = {.seed = ff_test_seed(30)};

	for (int round = 0; round < 10; round++) {
		struct hand_machine h;
		struct ff_arena a;
		struct ff_graph g;
		struct ff_strategy strategy;
		struct ff_graph micro;
		struct ff_schedule s;
		struct ff_simulation sim;
		struct ff_pricer *p;
		struct ff_span *span;
		struct ff_out o;
		struct ff_error err;
		const struct ff_json *root, *events;
		uint32_t n;

		ff_arena_init(&a);
		draw_graph(&state, &a, &g);
		hand_machine_init(
				&h, 2, 1 + ff_random_below(&state, 3), ff_random_below(&state, 2));
		draw_strategy(&state, &g, h.m.n_devices, &a, &strategy, &micro);
		ck_assert_int_eq(ff_pricer_create(&g, &h.m, NULL, NULL, NULL, &p, &err), FF_OK);
		ck_assert_int_eq(ff_lower(&g, &h.m, &strategy, NULL, &a, &s, &err), FF_OK);
		ck_assert_int_eq(ff_simulate(&s, p, &a, &sim, &err), FF_OK);
		ck_assert_int_eq(ff_simulation_spans(&s, &sim, &a, &span, &n, &err), FF_OK);
		ff_out_init(&o);
		ff_trace_write(&s, "random", span, n, &o);
		ck_assert_msg(ff_json_parse("trace", o.text, o.len, &a, &root, &err) == FF_OK, "%s",
				err.text);
		ck_assert_int_eq(ff_json_need(root, "traceEvents", FF_JSON_ARRAY, &events, &err),
				FF_OK);
		check_events(events, span, n, h.m.n_devices);
		ff_out_finish(&o);
		ff_pricer_destroy(p);
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("trace");
	TCase *t = tcase_create("trace");

	tcase_add_test(t, tiny_schedule_is_golden);
	tcase_add_test(t, labels);
	tcase_add_test(t, lowered_schedules);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
