/* Simulation of schedules made by hand, and of lowered ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/machine_lanes.h"
#include "ff/simulate.h"

#include "ff/task_class.h"

#include "hand.h"
#include "simulator/drawn.h"

/* A schedule under construction.  Update tasks of bucket 0 take 10 us, of
 * bucket 1 25 us; a sync among two devices takes 40 us. */
struct plan {
	struct hand_machine h;
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_strategy strategy;
	struct ff_costs *costs;
	struct ff_pricer *p;
	struct ff_schedule s;
	struct ff_task task[16];
	uint32_t lanes[64], deps[64], n_lanes, n_deps;
	bool accumulate[8];
	uint32_t added[8];
	struct ff_bucket bucket[2];
	struct ff_move sum[2];
	struct ff_simulation sim;
};

static const uint16_t devices[] = {0, 1, 2, 3};

static void setup(struct plan *w, bool overlap)
{
	double bytes[] = {0, 1e6}, us[] = {40, 40};
	struct ff_comm_cost sync = {{FF_MOVE_ALL_REDUCE, 2, 1, false}, 2, bytes, us};

	memset(w, 0, sizeof(*w));
	hand_machine_init(&w->h, 2, 2, overlap);
	ff_arena_init(&w->arena);
	hand_graph(&w->arena, 8, 16, 12, &w->g);
	ck_assert_int_eq(ff_strategy_single(&w->g, 0, &w->arena, &w->strategy, NULL), FF_OK);
	w->costs = hand_costs("fast");
	ck_assert_int_eq(ff_costs_put_comm(w->costs, &sync, NULL), FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w->g, &w->h.m, FF_ESTIMATE_PEAK, w->costs, "c.json",
					 "g.json", &w->p, NULL),
			FF_OK);
	memset(w->added, 0xff, sizeof(w->added));
	w->bucket[0] = (struct ff_bucket){
			.n_devices = 2, .runs = 1, .device = devices, .bytes = 140};
	w->bucket[1] = (struct ff_bucket){
			.n_devices = 2, .runs = 1, .device = devices + 1, .bytes = 440};
	w->s = (struct ff_schedule){.graph = &w->g,
			.machine = &w->h.m,
			.strategy = &w->strategy,
			.optimizer = ff_optimizer_preset(),
			.tasks = w->task,
			.lanes = w->lanes,
			.deps = w->deps,
			.config = w->strategy.config,
			.accumulate = w->accumulate,
			.added = w->added,
			.buckets = w->bucket,
			.n_buckets = 2};
}

static void teardown(struct plan *w)
{
	ff_pricer_destroy(w->p);
	ff_costs_destroy(w->costs);
	ff_arena_finish(&w->arena);
}

static uint32_t add(struct plan *w, struct ff_task t)
{
	t.first_lane = w->n_lanes;
	t.first_dep = w->n_deps;
	w->task[w->s.n_tasks] = t;
	return w->s.n_tasks++;
}

static void on(struct plan *w, enum ff_lane_class class, uint32_t i)
{
	w->lanes[w->n_lanes++] = ff_lane(&w->h.m, class, i);
	w->task[w->s.n_tasks - 1].n_lanes++;
}

static void after(struct plan *w, uint32_t task)
{
	w->deps[w->n_deps++] = task;
	w->task[w->s.n_tasks - 1].n_deps++;
}

static uint32_t update(struct plan *w, uint32_t bucket, uint32_t device)
{
	uint32_t i = add(w, (struct ff_task){.compute = FF_COMPUTE_UPDATE,
					    .bucket = bucket,
					    .device = device});

	on(w, FF_LANE_COMPUTE, device);
	return i;
}

/* The all-reduce of a bucket. */
static uint32_t sum(struct plan *w, uint32_t bucket)
{
	const struct ff_bucket *b = &w->bucket[bucket];

	w->sum[bucket] = (struct ff_move){
			.kind = FF_MOVE_ALL_REDUCE, .n_devices = b->n_devices, .device = b->device};
	return add(w, (struct ff_task){.move = &w->sum[bucket], .bucket = bucket});
}

static void simulate(struct plan *w)
{
	struct ff_error err;

	ck_assert_msg(ff_simulate(&w->s, w->p, &w->arena, &w->sim, &err) == FF_OK, "%s", err.text);
}

/* Updates take what the pricer's optimizer takes; another one's schedule is refused. */
START_TEST(updates_by_optimizer)
{
	/* of 140 bytes: as hand.h has their rates */
	static const double us[FF_OPTIMIZER_COUNT] = {[FF_OPTIMIZER_SGD] = 3.5 + 140.0 / 25,
			[FF_OPTIMIZER_MOMENTUM] = 3 + 140.0 / 20,
			[FF_OPTIMIZER_NESTEROV] = 3.25 + 140.0 / 18,
			[FF_OPTIMIZER_ADAM] = 4.5 + 140.0 / 9,
			[FF_OPTIMIZER_ADAMW] = 5 + 140.0 / 8};
	struct ff_error err;
	struct plan w;

	for (int i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		setup(&w, true);
		update(&w, 0, 0);
		w.s.optimizer = ff_optimizer((enum ff_optimizer_id)i);
		if (w.s.optimizer != ff_optimizer_preset())
			ck_assert_int_eq(ff_simulate(&w.s, w.p, &w.arena, &w.sim, &err), FF_E_RUN);
		ck_assert_int_eq(ff_pricer_set_optimizer(w.p, w.s.optimizer, &err), FF_OK);
		simulate(&w);
		ck_assert_double_eq_tol(w.sim.step_us, us[i], 8 * FF_PRICE_STEP_US);
		teardown(&w);
	}
}
END_TEST

START_TEST(nothing_takes_no_time)
{
	struct plan w;

	setup(&w, true);
	simulate(&w);
	ck_assert_double_eq(w.sim.step_us, 0);
	teardown(&w);
}
END_TEST

START_TEST(one_lane_is_a_chain)
{
	struct plan w;

	setup(&w, true);
	for (int i = 0; i < 3; i++)
		update(&w, 0, 0);
	simulate(&w);
	for (int i = 0; i < 3; i++)
		ck_assert_double_eq_tol(w.sim.start[i], 10 * i, 1e-9);
	ck_assert_double_eq_tol(w.sim.step_us, 30, 1e-9);
	ck_assert_double_eq_tol(w.sim.compute_us[0], 30, 1e-9);
	ck_assert_double_eq(w.sim.comm_us[0], 0);
	teardown(&w);
}
END_TEST

/* Two devices side by side; a sync waits for the slower and holds both. */
START_TEST(devices_run_side_by_side)
{
	struct plan w;
	uint32_t a, b, c, d, e;

	setup(&w, true);
	a = update(&w, 0, 0);
	b = update(&w, 1, 1);
	c = sum(&w, 0);
	on(&w, FF_LANE_COMM, 0);
	on(&w, FF_LANE_COMM, 1);
	after(&w, a);
	after(&w, b);
	d = update(&w, 0, 0);
	e = update(&w, 0, 1);
	after(&w, c);
	simulate(&w);
	ck_assert_double_eq_tol(w.sim.start[b], 0, 1e-9);
	ck_assert_double_eq_tol(w.sim.start[c], 25, 1e-9);
	ck_assert_double_eq_tol(w.sim.start[d], 10, 1e-9);
	ck_assert_double_eq_tol(w.sim.start[e], 65, 1e-9);
	ck_assert_double_eq_tol(w.sim.step_us, 75, 1e-9);
	ck_assert_double_eq_tol(w.sim.comm_us[1], 40, 1e-9);
	ck_assert_double_eq_tol(w.sim.compute_us[1], 35, 1e-9);
	ck_assert_double_eq(w.sim.compute_us[2], 0);
	teardown(&w);
}
END_TEST

/* The same tasks with and without communication beside compute. */
START_TEST(overlap_hides_communication)
{
	for (int overlap = 0; overlap < 2; overlap++) {
		struct plan w;
		uint32_t b;

		setup(&w, overlap);
		sum(&w, 0);
		on(&w, FF_LANE_COMM, 0);
		on(&w, FF_LANE_COMM, 1);
		b = update(&w, 1, 1);
		simulate(&w);
		ck_assert_double_eq_tol(w.sim.start[b], overlap ? 0 : 40, 1e-9);
		ck_assert_double_eq_tol(w.sim.step_us, overlap ? 40 : 65, 1e-9);
		teardown(&w);
	}
}
END_TEST

/* What overlaps takes a share of its 40 us from what both devices compute, and half as long again
 * itself, if that was measured. */
START_TEST(overlap_takes_its_share)
{
	for (int k = 0; k < 4; k++) {
		bool overlap = k % 2, longer = k / 2;
		struct plan w;
		uint32_t b;

		setup(&w, overlap);
		ff_pricer_set_overlap(
				w.p, (struct ff_overlap_cost){0.25, -1, longer ? 0.5 : 0, 0.7});
		sum(&w, 0);
		on(&w, FF_LANE_COMM, 0);
		on(&w, FF_LANE_COMM, 1);
		b = update(&w, 1, 1);
		simulate(&w);
		ck_assert_double_eq_tol(w.sim.start[b], overlap ? 10 : 40, 1e-6);
		ck_assert_double_eq_tol(w.sim.step_us, overlap ? (longer ? 60 : 40) : 65, 1e-6);
		teardown(&w);
	}
}
END_TEST

/* Transfers of different devices over one network card queue. */
START_TEST(shared_lanes_queue)
{
	struct plan w;
	struct ff_piece p[] = {{.from = 0, .to = 2, .region = {1, {0}, {250}}},
			{.from = 1, .to = 3, .region = {1, {0}, {250}}}};
	const uint16_t pair[2][2] = {{0, 2}, {1, 3}};
	struct ff_traffic traffic[2][2];
	struct ff_move mv[2];

	setup(&w, true);
	for (uint32_t i = 0; i < 2; i++) {
		mv[i] = (struct ff_move){.kind = FF_MOVE_POINT_TO_POINT,
				.n_devices = 2,
				.device = pair[i],
				.n_pieces = 1,
				.piece = &p[i],
				.busiest_bytes = 1000};
		hand_traffic(&w.h.m, &mv[i], traffic[i]);
		add(&w, (struct ff_task){.move = &mv[i], .bucket = FF_NONE});
		on(&w, FF_LANE_COMM, pair[i][0]);
		on(&w, FF_LANE_COMM, pair[i][1]);
		on(&w, FF_LANE_NETWORK, 0);
		on(&w, FF_LANE_NETWORK, 1);
	}
	simulate(&w);
	ck_assert_double_eq_tol(w.sim.finish[0], 10 + 10, 1e-9);
	ck_assert_double_eq_tol(w.sim.start[1], 20, 1e-9);
	ck_assert_double_eq_tol(w.sim.step_us, 40, 1e-9);
	ck_assert_double_eq_tol(w.sim.comm_us[3], 20, 1e-9);
	teardown(&w);
}
END_TEST

START_TEST(work_is_priced_by_its_key)
{
	struct plan w;
	struct ff_error err = {0};
	struct ff_region box;
	uint32_t fc;
	struct ff_work work;
	char key[FF_KEY_BYTES];
	struct ff_cost cost = {key, 7, 6, 8, 5, 0};

	setup(&w, true);
	fc = ff_graph_find(&w.g, "fc");
	add(&w, (struct ff_task){.phase = FF_PHASE_FORWARD, .node = fc, .device = 1});
	on(&w, FF_LANE_COMPUTE, 1);
	w.sim.step_us = -1;
	ck_assert_int_eq(ff_simulate(&w.s, w.p, &w.arena, &w.sim, &err), FF_E_INPUT);
	ck_assert_double_eq(w.sim.step_us, -1);
	ck_assert_ptr_nonnull(strstr(err.text, "c.json has no cost for \"linear.forward"));
	ff_config_box(&w.g.nodes[fc], &w.strategy.config[fc], 0, &box);
	ff_work_fill(&w.g, fc, &box, FF_FORWARD, &work);
	ff_work_key(&work, key);
	ck_assert_int_eq(ff_costs_put(w.costs, &cost, NULL), FF_OK);
	simulate(&w);
	ck_assert_double_eq(w.sim.step_us, 7);
	ck_assert_double_eq(w.sim.compute_us[1], 7);
	teardown(&w);
}
END_TEST

START_TEST(spans_cover_every_device)
{
	struct plan w;
	struct ff_span *span;
	uint32_t n;
	const uint32_t expect[3][2] = {{0, 3}, {1, 1}, {1, 2}};

	setup(&w, true);
	update(&w, 0, 3);
	sum(&w, 1);
	on(&w, FF_LANE_COMM, 1);
	on(&w, FF_LANE_COMM, 2);
	simulate(&w);
	ck_assert_int_eq(ff_simulation_spans(&w.s, &w.sim, &w.arena, &span, &n, NULL), FF_OK);
	ck_assert_uint_eq(n, 3);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(span[i].task, expect[i][0]);
		ck_assert_uint_eq(span[i].device, expect[i][1]);
		ck_assert_double_eq(span[i].start_us, w.sim.start[span[i].task]);
		ck_assert_double_eq(span[i].finish_us, w.sim.finish[span[i].task]);
	}
	teardown(&w);
}
END_TEST

static const struct ff_class_time *class_of(
		const struct ff_class_time *classes, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(classes[i].name, name))
			return &classes[i];
	ck_abort_msg("no class %s", name);
	return NULL;
}

/* A device that is ready waits for the other one, and for what holds the other's lane. */
START_TEST(waits_are_from_ready_to_start)
{
	const struct ff_class_time *classes, *sync;
	uint32_t slow, quick, n;
	struct plan w;

	for (int overlap = 0; overlap < 2; overlap++) {
		setup(&w, overlap);
		slow = update(&w, 1, 0); /* until 25 */
		quick = update(&w, 0, 1);
		/* devices 0 and 1 from 25 to 65: the second was ready at 10 */
		sum(&w, 0);
		on(&w, FF_LANE_COMM, 0);
		on(&w, FF_LANE_COMM, 1);
		after(&w, slow);
		after(&w, quick);
		/* devices 1 and 2 from 65 on: the third has done nothing yet */
		sum(&w, 1);
		on(&w, FF_LANE_COMM, 1);
		on(&w, FF_LANE_COMM, 2);
		simulate(&w);
		ck_assert_double_eq(w.sim.start[3], 65);
		ck_assert_int_eq(ff_simulation_classes(&w.s, &w.sim, &w.arena, &classes, &n, NULL),
				FF_OK);
		ck_assert_uint_eq(n, 2);
		sync = class_of(classes, n, "gradient all-reduce");
		ck_assert_double_eq(sync->us, 2 * 40 + 2 * (w.sim.step_us - 65));
		ck_assert_double_eq(sync->waited_us, 15 + 65);
		ck_assert_double_eq(class_of(classes, n, "update")->waited_us, 0);
		teardown(&w);
	}
}
END_TEST

/* What was executed: devices come to a task at different times. */
START_TEST(measured_waits_end_with_the_last_start)
{
	/* of task 1 both wait for each other, of task 2 the first is done before the second
	 * begins, of task 3 devices 0 and 1 before the third */
	static const struct ff_span spans[] = {{1, 1, 10, 32}, {0, 0, 0, 7}, {1, 0, 0, 30},
			{2, 0, 40, 45}, {2, 1, 50, 60}, {3, 2, 100, 141}, {3, 1, 90, 120},
			{3, 0, 80, 92}};
	struct ff_task_classes c;
	double us[2] = {0}, waited[2] = {0};
	uint32_t sync;
	struct plan w;

	setup(&w, true);
	update(&w, 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		sum(&w, 0);
	ck_assert_int_eq(ff_task_classes_of(&w.s, &w.arena, &c, NULL), FF_OK);
	ck_assert_uint_eq(c.n, 2);
	sync = c.of[1];
	ck_assert_uint_ne(sync, c.of[0]);
	ff_task_classes_add(&c, spans, 8, us);
	ck_assert_int_eq(ff_task_classes_wait(&c, spans, 8, &w.arena, waited, NULL), FF_OK);
	ck_assert_double_eq(us[sync], 22 + 30 + 5 + 10 + 41 + 30 + 12);
	ck_assert_double_eq(waited[sync], 10 + 0 + 10 + 10);
	ck_assert_double_eq(waited[c.of[0]], 0);
	teardown(&w);
}
END_TEST

/* What holds of any simulation: nothing starts before what it needs, lanes do
 * one thing at a time, and no task could have started earlier. */
static void check_tight(const struct ff_schedule *s, const struct ff_simulation *sim, double *idle)
{
	double last = 0;

	memset(idle, 0, ff_lane_count(s->machine) * sizeof(double));
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		double ready = 0;

		for (uint32_t k = 0; k < t->n_deps; k++) {
			ck_assert_uint_lt(s->deps[t->first_dep + k], i);
			ready = fmax(ready, sim->finish[s->deps[t->first_dep + k]]);
		}
		for (uint32_t k = 0; k < t->n_lanes; k++)
			ready = fmax(ready, idle[s->lanes[t->first_lane + k]]);
		ck_assert_double_eq(sim->start[i], ready);
		ck_assert_double_ge(sim->finish[i], sim->start[i]);
		for (uint32_t k = 0; k < t->n_lanes; k++)
			idle[s->lanes[t->first_lane + k]] = sim->finish[i];
		last = fmax(last, sim->finish[i]);
	}
	ck_assert_double_eq(sim->step_us, last);
	for (uint32_t d = 0; d < s->machine->n_devices; d++)
		ck_assert_double_le(sim->compute_us[d], last * (1 + 1e-9));
}

/* Messages are priced by what their pieces come to. */
static uint32_t check_traffic(const struct ff_schedule *s, struct ff_arena *a)
{
	uint32_t messages = 0;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_move *mv = s->tasks[i].move;
		struct ff_traffic *t;
		struct ff_move again;

		if (!ff_task_moves_edge(&s->tasks[i]) || !ff_move_is_messages(mv->kind))
			continue;
		again = *mv;
		t = ff_arena_array(a, mv->n_devices, sizeof(*t));
		hand_traffic(s->machine, &again, t);
		for (uint32_t k = 0; k < mv->n_devices; k++) {
			ck_assert_int_eq(mv->traffic[k].sent_inside, t[k].sent_inside);
			ck_assert_int_eq(mv->traffic[k].sent_outside, t[k].sent_outside);
			ck_assert_int_eq(mv->traffic[k].received_inside, t[k].received_inside);
			ck_assert_int_eq(mv->traffic[k].received_outside, t[k].received_outside);
			ck_assert_uint_eq(mv->traffic[k].n_sent, t[k].n_sent);
			ck_assert_uint_eq(mv->traffic[k].n_received, t[k].n_received);
			messages += t[k].n_sent;
		}
	}
	return messages;
}

START_TEST(lowered_schedules)
{
	struct ff_random state = {.seed = ff_test_seed(20)};
	uint32_t messages = 0;

	for (int round = 0; round < 60; round++) {
		struct hand_machine h;
		struct ff_arena a;
		struct ff_graph g;
		struct ff_strategy strategy;
		struct ff_schedule s;
		struct ff_simulation sim, with;
		struct ff_graph micro;
		struct ff_pricer *p;
		struct ff_error err;
		double *idle;
		double busy = 0;
		double sum = 0;

		ff_arena_init(&a);
		draw_graph(&state, &a, &g);
		hand_machine_init(&h, 1 + ff_random_below(&state, 3),
				1 + ff_random_below(&state, 4), false);
		draw_strategy(&state, &g, h.m.n_devices, &a, &strategy, &micro);
		ck_assert_int_eq(ff_pricer_create(&g, &h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &p,
						 &err),
				FF_OK);
		idle = ff_arena_array(&a, 2 * ff_lane_count(&h.m), sizeof(double));
		ck_assert_msg(ff_lower(&g, &h.m, &strategy, NULL, &a, &s, &err) == FF_OK, "%s",
				err.text);
		ck_assert_int_eq(ff_simulate(&s, p, &a, &sim, &err), FF_OK);
		check_tight(&s, &sim, idle);
		messages += check_traffic(&s, &a);
		for (uint32_t d = 0; d < h.m.n_devices; d++)
			busy = fmax(busy, sim.compute_us[d] + sim.comm_us[d]);
		ck_assert_double_le(busy, sim.step_us * (1 + 1e-9));
		/* the same with overlap takes no longer than one task after the other */
		h.m.overlap = true;
		hand_message_lane(&h, ff_random_below(&state, 2));
		ck_assert_int_eq(ff_lower(&g, &h.m, &strategy, NULL, &a, &s, &err), FF_OK);
		ck_assert_int_eq(ff_simulate(&s, p, &a, &with, &err), FF_OK);
		check_tight(&s, &with, idle);
		for (uint32_t i = 0; i < s.n_tasks; i++)
			sum += with.finish[i] - with.start[i];
		ck_assert_double_le(with.step_us, sum * (1 + 1e-9));
		ff_pricer_destroy(p);
		ff_arena_finish(&a);
	}
	ck_assert_uint_gt(messages, 100);
}
END_TEST

/* x -> fc0 -> fc1 -> add -> fc2 ..., where a sum reads what came before the layer as well. */
static void residual_graph(struct ff_arena *a, uint32_t blocks, struct ff_graph *g)
{
	union ff_attrs x = {.input = {.rank = 2, .shape = {8, 16}, .dtype = FF_F32}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {8}, .dtype = FF_I32, .classes = 16}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	fc.linear.out_features = 16;
	ck_assert_int_eq(ff_builder_create("residual", a, &b, &err), FF_OK);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "first", &fc, in, 1);
	for (uint32_t i = 0; i < blocks; i++) {
		in[1] = ff_builder_add(b, FF_OP_LINEAR, ff_arena_printf(a, "fc%u", i), &fc, in, 1);
		in[0] = ff_builder_add(b, FF_OP_ADD, ff_arena_printf(a, "add%u", i), NULL, in, 2);
	}
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, g, &err) == FF_OK, "%s", err.text);
}

/* In data parallelism nothing but updates waits for an all-reduce, however long that takes: what a
 * device adds up by itself, gradients of several readers, does not either. */
START_TEST(backward_waits_for_no_all_reduce)
{
	struct ff_lower_options one_each = {.bucket_bytes = 1};
	struct hand_machine h;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_strategy strategy;
	struct ff_schedule s;
	struct ff_simulation sim;
	struct ff_pricer *p;
	struct ff_error err;
	uint32_t summed = 0;

	ff_arena_init(&a);
	hand_machine_init(&h, 2, 1, true);
	h.node[0].network.latency_us = h.node[1].network.latency_us = 1e6;
	residual_graph(&a, 4, &g);
	ck_assert_int_eq(ff_strategy_data_parallel(&g, 2, &a, &strategy, &err), FF_OK);
	ck_assert_int_eq(ff_pricer_create(&g, &h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &p, &err),
			FF_OK);
	ck_assert_int_eq(ff_lower(&g, &h.m, &strategy, &one_each, &a, &s, &err), FF_OK);
	ck_assert_int_eq(ff_simulate(&s, p, &a, &sim, &err), FF_OK);
	for (uint32_t i = 0; i < s.n_tasks; i++) {
		const struct ff_task *t = &s.tasks[i];
		const uint16_t *device;
		uint16_t own;

		if (ff_task_devices(t, &device, &own) > 1 || t->bucket != FF_NONE)
			continue;
		ck_assert_double_lt(sim.finish[i], 1e6);
		summed += t->move && t->phase == FF_PHASE_BACKWARD;
	}
	ck_assert_uint_eq(summed, 2 * 4);
	ff_pricer_destroy(p);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("simulate");
	TCase *t = tcase_create("simulate");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, nothing_takes_no_time);
	tcase_add_test(t, updates_by_optimizer);
	tcase_add_test(t, one_lane_is_a_chain);
	tcase_add_test(t, devices_run_side_by_side);
	tcase_add_test(t, overlap_hides_communication);
	tcase_add_test(t, overlap_takes_its_share);
	tcase_add_test(t, backward_waits_for_no_all_reduce);
	tcase_add_test(t, shared_lanes_queue);
	tcase_add_test(t, work_is_priced_by_its_key);
	tcase_add_test(t, spans_cover_every_device);
	tcase_add_test(t, waits_are_from_ready_to_start);
	tcase_add_test(t, measured_waits_end_with_the_last_start);
	tcase_add_test(t, lowered_schedules);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
