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
	struct ff_move sum = {.kind = FF_MOVE_ALL_REDUCE, .n_devices = 2, .device = devices};
	struct ff_bucket bucket = {.n_devices = 2, .device = devices, .bytes = 832};
	struct ff_task task[] = {
			{.phase = FF_PHASE_FORWARD, .part = 1, .device = 1, .bucket = FF_NONE},
			{.phase = FF_PHASE_FORWARD, .move = &mv, .bucket = FF_NONE},
			{.phase = FF_PHASE_BACKWARD, .device = 0, .bucket = FF_NONE},
			{.phase = FF_PHASE_BACKWARD, .move = &sum, .node = FF_NONE},
			{.phase = FF_PHASE_BACKWARD,
					.compute = FF_COMPUTE_UPDATE,
					.node = FF_NONE,
					.device = 1},
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
	struct ff_move mv = {.kind = FF_MOVE_HALO}, sum = {.kind = FF_MOVE_ALL_REDUCE};
	struct ff_move gather = {.kind = FF_MOVE_ALL_GATHER};
	struct ff_task task[] = {{.phase = FF_PHASE_FORWARD, .bucket = FF_NONE},
			{.phase = FF_PHASE_BACKWARD, .bucket = FF_NONE},
			{.phase = FF_PHASE_FORWARD, .move = &mv, .bucket = FF_NONE},
			{.phase = FF_PHASE_BACKWARD, .move = &mv, .bucket = FF_NONE},
			{.phase = FF_PHASE_BACKWARD, .move = &sum, .bucket = 2},
			{.compute = FF_COMPUTE_UPDATE, .bucket = 3},
			{.phase = FF_PHASE_FORWARD, .move = &gather, .bucket = 1}};
	static const char *const expect[] = {"fc forward", "fc backward", "fc halo",
			"fc backward halo", "sync bucket 2", "update bucket 3", "gather bucket 1"};
	struct ff_schedule s = {.graph = &g, .machine = &h.m, .tasks = task, .n_tasks = 7};

	hand_machine_init(&h, 1, 1, true);
	ff_arena_init(&a);
	hand_graph(&a, 8, 16, 12, &g);
	fc = ff_graph_find(&g, "fc");
	for (uint32_t i = 0; i < 4; i++)
		task[i].node = fc;
	for (uint32_t i = 0; i < 7; i++) {
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
		ck_assert_int_eq(ff_pricer_create(&g, &h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &p,
						 &err),
				FF_OK);
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

/* A schedule of two devices: an update of each and a sync. */
struct pair {
	struct hand_machine h;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_bucket bucket;
	struct ff_move sum;
	struct ff_task task[3];
	struct ff_schedule s;
};

static const uint16_t both[] = {0, 1};

static void pair_init(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	hand_machine_init(&p->h, 1, 2, true);
	ff_arena_init(&p->a);
	hand_graph(&p->a, 8, 16, 12, &p->g);
	p->bucket = (struct ff_bucket){.n_devices = 2, .device = both, .bytes = 832};
	p->sum = (struct ff_move){.kind = FF_MOVE_ALL_REDUCE, .n_devices = 2, .device = both};
	p->task[0] = (struct ff_task){.move = &p->sum, .node = FF_NONE};
	p->task[1] = (struct ff_task){.compute = FF_COMPUTE_UPDATE, .node = FF_NONE};
	p->task[2] = (struct ff_task){.compute = FF_COMPUTE_UPDATE, .node = FF_NONE, .device = 1};
	p->s = (struct ff_schedule){.graph = &p->g,
			.machine = &p->h.m,
			.tasks = p->task,
			.n_tasks = 3,
			.buckets = &p->bucket,
			.n_buckets = 1};
}

static const struct ff_span pair_spans[] = {
		{0, 0, 0.125, 4}, {0, 1, 1, 4.5}, {1, 0, 4, 5}, {2, 1, 4.5, 7.75}};

/* What a file says is read back, and put beside something else on processes of its own. */
START_TEST(two_timelines)
{
	const struct ff_timeline timeline[] = {
			{"executed", pair_spans, 4}, {"predicted", pair_spans, 2}};
	const struct ff_trace_clock clock[] = {{0, 0, 0}, {-12.5, 2e-6, 3.25}};
	const struct ff_trace t = {"both", timeline, 2, clock, 2};
	const struct ff_json *root, *events, *clocks;
	uint32_t seen[4] = {0}, places = 0;
	struct ff_error err;
	struct pair p;
	struct ff_out o;

	pair_init(&p);
	ff_out_init(&o);
	ff_trace_write_beside(&p.s, &t, &o);
	ck_assert_int_eq(ff_json_parse("both", o.text, o.len, &p.a, &root, &err), FF_OK);
	events = ff_json_get(root, "traceEvents");
	for (uint32_t i = 0; i < events->n; i++) {
		const char *name = ff_json_get(&events->child[i], "name")->text;
		int64_t pid;

		ck_assert_int_eq(ff_json_int(&events->child[i], "pid", 0, 3, &pid, &err), FF_OK);
		seen[pid] += !strcmp(ff_json_get(&events->child[i], "ph")->text, "X");
		if (strcmp(name, "process_sort_index") != 0)
			continue;
		/* device 0 twice, then device 1 */
		ck_assert_double_eq(
				ff_json_get(ff_json_get(&events->child[i], "args"), "sort_index")
						->number,
				(double)(pid % 2 * 2 + pid / 2));
		places++;
	}
	ck_assert_uint_eq(places, 4);
	for (uint32_t k = 0; k < 4; k++)
		ck_assert_uint_eq(seen[k], k < 2 ? 2 : 1);
	clocks = ff_json_get(ff_json_get(root, "otherData"), "clocks");
	ck_assert_uint_eq(clocks->n, 2);
	ck_assert_double_eq(ff_json_get(&clocks->child[1], "offset_us")->number, -12.5);
	ck_assert_double_eq(ff_json_get(&clocks->child[1], "drift_ppm")->number, 2);
	ck_assert_double_eq(ff_json_get(&clocks->child[1], "bound_us")->number, 3.25);
	ff_out_finish(&o);
	ff_arena_finish(&p.a);
}
END_TEST

START_TEST(a_file_is_read_back)
{
	const struct ff_span *span;
	struct ff_error err;
	struct pair p;
	struct ff_out o;
	char path[64];
	uint32_t n;

	pair_init(&p);
	ff_out_init(&o);
	ff_trace_write(&p.s, "predicted", pair_spans, 4, &o);
	hand_file(o.text, o.len, path);
	ck_assert_msg(ff_trace_load(path, &p.s, &p.a, &span, &n, &err) == FF_OK, "%s", err.text);
	ck_assert_uint_eq(n, 4);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(span[i].task, pair_spans[i].task);
		ck_assert_uint_eq(span[i].device, pair_spans[i].device);
		ck_assert_double_eq(span[i].start_us, pair_spans[i].start_us);
		ck_assert_double_eq(span[i].finish_us, pair_spans[i].finish_us);
	}
	/* the same file is not of a schedule whose tasks are others, or elsewhere */
	p.task[2].compute = FF_COMPUTE_NORM;
	ck_assert_int_eq(ff_trace_load(path, &p.s, &p.a, &span, &n, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, "is of another schedule: \"update bucket 0\" on device 1 is "
				       "task 2, which is \"norm bucket 0\" here"),
			"%s", err.text);
	p.task[2].compute = FF_COMPUTE_UPDATE;
	p.task[2].device = 0;
	ck_assert_int_eq(ff_trace_load(path, &p.s, &p.a, &span, &n, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, "and not on that device"), "%s", err.text);
	p.s.n_tasks = 2;
	ck_assert_int_eq(ff_trace_load(path, &p.s, &p.a, &span, &n, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, "args.task"), "%s", err.text);
	unlink(path);
	ff_out_finish(&o);
	ff_arena_finish(&p.a);
}
END_TEST

START_TEST(files_that_are_none)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
			{"[]", "expected an object"},
			{"{}", "traceEvents"},
			{"{\"traceEvents\": []}", "expected the tasks of a step"},
			{"{\"traceEvents\": [1]}", "expected an object"},
			{"{\"traceEvents\": [{\"ph\": \"X\", \"pid\": 2}]}", "traceEvents[0].pid"},
			{"{\"traceEvents\": [{\"ph\": \"X\", \"pid\": 1, \"ts\": 1, \"dur\": -1}]}",
					"traceEvents[0].dur"},
			{"{\"traceEvents\": [{\"ph\": \"X\", \"pid\": 1, \"ts\": 1, \"dur\": 1}]}",
					"args"},
	};
	const struct ff_span *span;
	struct ff_error err;
	struct pair p;
	char path[64];
	uint32_t n;

	pair_init(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		hand_file(cases[i].text, strlen(cases[i].text), path);
		ck_assert_int_eq(ff_trace_load(path, &p.s, &p.a, &span, &n, &err), FF_E_INPUT);
		ck_assert_msg(strstr(err.text, cases[i].sentence), "got \"%s\", expected \"%s\"",
				err.text, cases[i].sentence);
		unlink(path);
	}
	ff_arena_finish(&p.a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("trace");
	TCase *t = tcase_create("trace");

	tcase_add_test(t, tiny_schedule_is_golden);
	tcase_add_test(t, labels);
	tcase_add_test(t, lowered_schedules);
	tcase_add_test(t, two_timelines);
	tcase_add_test(t, a_file_is_read_back);
	tcase_add_test(t, files_that_are_none);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
