/* Messages between stages have a stream of their own: they pass buckets that were posted before
 * them, and wait for what they need on other streams and for nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <string.h>

#include "exec/core/state.h"
#include "ff/block.h"
#include "ff/builder.h"
#include "ff/clock.h"
#include "process/idle.h"
#include "scene.h"

#define SCENES 160
#define PATIENCE_US 120e6

/* ---- which stream ---- */

/* On another stream, `before` is over when `task` begins: it waits for that, or for a later one. */
static bool waits_for(const struct ff_executor *x, uint32_t task, uint32_t before)
{
	const struct ff_bound_task *j = &x->bound[task];

	for (uint32_t i = 0; i < j->n_waits; i++)
		if (x->bound[j->wait[i]].stream == x->bound[before].stream &&
				j->wait[i] >= before && x->bound[j->wait[i]].done)
			return true;
	return false;
}

static void check_waits(const struct ff_executor *x, uint32_t task, uint32_t *between)
{
	const struct ff_task *t = &x->s->tasks[task];

	for (uint32_t k = 0; k < t->n_deps; k++) {
		uint32_t dep = x->s->deps[t->first_dep + k];

		if (!x->bound[dep].here || x->bound[dep].stream == x->bound[task].stream)
			continue;
		ck_assert_msg(waits_for(x, task, dep), "task %u does not wait for task %u", task,
				dep);
		*between += x->bound[dep].stream == x->messages ||
			    x->bound[task].stream == x->messages;
	}
}

/* Messages and sums among groups, and nothing else, are on the stream of messages, if there is one;
 * what each task needs on other streams it waits for. */
START_TEST(streams)
{
	uint64_t seed = ff_test_seed(80);
	uint32_t messages = 0, between = 0;

	for (uint32_t i = 0; ff_test_goes_on(i, SCENES, messages && between); i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;
		struct rig rig;

		scene_open(&s, FF_F32, 6, &r);
		rig_open(&rig, scene_setup(&s, chosen_backend()));
		ck_assert((rig.x->messages != rig.x->transfers) == s.machine.message_lane);
		for (uint32_t k = 0; k < rig.schedule.n_tasks; k++) {
			const struct ff_task *t = &rig.schedule.tasks[k];
			bool message = t->move &&
				       ff_move_lane(&s.graph, t->edge, t->move) == FF_LANE_MESSAGE;

			if (s.machine.message_lane)
				ck_assert((rig.x->bound[k].stream == rig.x->messages) == message);
			messages += s.machine.message_lane && message;
			check_waits(rig.x, k, &between);
		}
		rig_close(&rig);
		scene_close(&s);
	}
	ck_assert_uint_gt(messages, 0);
	ck_assert_uint_gt(between, 0);
}
END_TEST

/* ---- the same bits ---- */

static void run_with(struct scene *s, bool own, struct result *ret)
{
	struct ff_error err;
	struct ff_comm *c;

	RIG_OK(ff_comm_local(s->machine.n_devices, &c, &err));
	c->takes_messages = own;
	scene_run(s, &s->machine, &s->strategy, rig_backend(false), c, 64, ret);
	ck_assert(c->two_streams == (own && s->machine.message_lane));
	c->destroy(c);
}

/* A schedule computes the same, to the bit, with messages on their stream and on the other one. */
START_TEST(same_bits)
{
	uint64_t seed = ff_test_seed(81);
	uint32_t lanes = 0, most = ff_test_rounds(SCENES) / 16;

	for (uint32_t i = 0; ff_test_goes_on(i, SCENES, lanes > most); i++) {
		struct ff_random r = {seed, i, 0};
		struct result own, one;
		struct scene s;

		scene_open(&s, i % 4 ? FF_F32 : chosen_rounded(), 6, &r);
		if (i % 4 == 1)
			scene_group(&s, 2 + i / 4 % 2, i / 8 % 2);
		if (s.machine.message_lane) {
			size_t bytes = (size_t)ff_graph_parameters(&s.graph) * sizeof(float);

			run_with(&s, true, &own);
			run_with(&s, false, &one);
			ck_assert_mem_eq(own.weights, one.weights, bytes);
			for (int k = 0; k < SCENE_STEPS; k++)
				ck_assert_mem_eq(own.gradients[k], one.gradients[k], bytes);
			ck_assert_mem_eq(own.loss, one.loss, sizeof(own.loss));
			ck_assert(own.test_loss == one.test_loss);
			lanes++;
		}
		scene_close(&s);
	}
	ck_assert_uint_gt(lanes, most);
}
END_TEST

/* ---- who passes whom ---- */

#define MOST 256

/* A step on its way. */
static struct {
	uint32_t n_collectives; /* posted */
	uint32_t need[MOST];    /* by collective: messages that it lets pass */
	_Atomic uint32_t through;
	_Atomic bool timed_out;
	int (*collective)(struct ff_comm *c, const struct ff_channel *on,
			const struct ff_collective *x, struct ff_error *err);
	int (*exchange)(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
			const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);
} step;

static int let_pass(void *arg, struct ff_error *err)
{
	double until_us = ff_clock_us() + PATIENCE_US;

	(void)err;
	while (step.through < *(uint32_t *)arg && !step.timed_out) {
		step.timed_out = ff_clock_us() > until_us;
		ff_idle();
	}
	return FF_OK;
}

static int count_through(void *arg, struct ff_error *err)
{
	(void)arg, (void)err;
	step.through++;
	return FF_OK;
}

static int gated_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	int code = on->backend->stream.call(
			on->stream, let_pass, &step.need[step.n_collectives++], err);

	return code < 0 ? code : step.collective(c, on, x, err);
}

static int counted_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	int code = step.exchange(c, on, type, parcel, n, err);

	return code < 0 ? code : on->backend->stream.call(on->stream, count_through, NULL, err);
}

static bool is_sent(const struct ff_task *t)
{
	return t->move && t->move->n_devices > 1 && ff_move_is_messages(t->move->kind);
}

/* Whether task `i` cannot begin before one that is marked is over: it depends on that, or comes
 * later on its stream, or behind what the thread computes that issues it. */
static bool is_behind(const struct ff_executor *x, uint32_t i, const bool *marked)
{
	const struct ff_task *t = &x->s->tasks[i];
	bool behind = false;

	for (uint32_t k = 0; k < t->n_deps; k++)
		behind |= marked[x->s->deps[t->first_dep + k]];
	for (uint32_t k = 0; k < i && !behind; k++) {
		const struct ff_stream *s = x->bound[k].stream;

		behind = marked[k] &&
			 (s == x->bound[i].stream || (s != x->transfers && s != x->messages));
	}
	return behind;
}

/* Messages before the first that is behind collective `from`. */
static uint32_t count_before(const struct ff_executor *x, uint32_t from, bool *marked)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < x->s->n_tasks; i++) {
		marked[i] = i == from || (i > from && is_behind(x, i, marked));
		if (is_sent(&x->s->tasks[i]) && marked[i])
			break;
		n += is_sent(&x->s->tasks[i]);
	}
	return n;
}

/* Returns how many messages pass a collective that was posted before them. */
static uint32_t set_gates(const struct ff_executor *x, struct ff_arena *a)
{
	bool *marked = ff_arena_array(a, x->s->n_tasks, sizeof(*marked));
	uint32_t n = 0, before = 0, passing = 0;

	ck_assert_ptr_nonnull(marked);
	for (uint32_t i = 0; i < x->s->n_tasks; i++) {
		const struct ff_task *t = &x->s->tasks[i];

		before += is_sent(t);
		if (!t->move || t->move->n_devices < 2 || is_sent(t))
			continue;
		ck_assert_uint_lt(n, MOST);
		memset(marked, 0, x->s->n_tasks * sizeof(*marked));
		step.need[n] = count_before(x, i, marked);
		passing += step.need[n++] - before;
	}
	return passing;
}

/* Layers in two stages, each on two devices that share the samples and the gradients, which are
 * scattered in every micro-batch. */
static void open_stages(struct scene *s, enum ff_beside beside)
{
	union ff_attrs x = {.input = {.rank = 2, .shape = {8, 6}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {8}, .dtype = FF_I32, .classes = 5}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_random r = {ff_test_seed(82), 0, 0};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	memset(s, 0, sizeof(*s));
	s->opt.seed = 3;
	s->opt.beside = beside;
	ff_arena_init(&s->arena);
	RIG_OK(ff_builder_create("stages", &s->arena, &b, &err));
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	for (int i = 0; i < 6; i++) {
		fc.linear.out_features = 5;
		in[0] = ff_builder_add(
				b, FF_OP_LINEAR, ff_arena_printf(&s->arena, "fc%d", i), &fc, in, 1);
	}
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, &s->graph, &err));
	scene_optimizer(s, FF_OPTIMIZER_SGD);
	RIG_OK(random_machine(&r, 4, &s->arena, &s->machine, &err));
	RIG_OK(ff_strategy_single(&s->graph, 0, &s->arena, &s->strategy, &err));
	s->strategy.micro_batches = 4;
	s->strategy.rule = FF_ORDER_1F1B;
	s->strategy.scatter = true;
	for (uint32_t i = 0; i < s->graph.n_nodes; i++) {
		struct ff_config *c = &s->strategy.config[i];
		const char *name = s->graph.nodes[i].name;

		s->strategy.stage[i] = strncmp(name, "fc", 2) ? *name != 'x' : name[2] > '2';
		c->flat = ff_node_is_parameter(&s->graph, i);
		if (c->flat || !c->n_parts)
			continue;
		c->n_parts = c->degree[0] = 2;
		c->start = 2 * s->strategy.stage[i];
		c->stride[0] = 1;
	}
	RIG_OK(ff_dataset_open("synthetic:16", &s->graph, 7, &s->data, &err));
}

/* With a lane of their own messages pass every collective that they do not depend on: each waits
 * until they have.  Without one there is none that passes. */
static void pass(enum ff_beside beside, bool lane)
{
	uint32_t passing, most = 0;
	struct ff_error err;
	struct ff_comm *c;
	struct scene s;
	struct rig rig;
	struct rig_setup setup;

	open_stages(&s, beside);
	s.machine.overlap = true;
	s.machine.message_lane = lane;
	ff_machine_number_cards(&s.machine);
	RIG_OK(ff_comm_local(s.machine.n_devices, &c, &err));
	step.collective = c->collective;
	step.exchange = c->exchange;
	c->collective = gated_collective;
	c->exchange = counted_exchange;
	setup = scene_setup(&s, chosen_backend());
	setup.comm = c;
	setup.bucket_bytes = 64;
	rig_open(&rig, setup);
	passing = set_gates(rig.x, &s.arena);
	ck_assert_msg(lane == (passing > 0), "with%s a lane %u messages pass", lane ? "" : "out",
			passing);
	for (uint64_t i = 0; i < SCENE_STEPS; i++) {
		step.n_collectives = step.through = 0;
		RIG_OK(ff_executor_step(rig.x, i, &err));
		ck_assert_msg(!step.timed_out, "a message waited behind a bucket");
		most = step.through > most ? step.through : most;
	}
	ck_assert_uint_gt(most, 2);
	rig_close(&rig);
	c->destroy(c);
	scene_close(&s);
}

START_TEST(passes)
{
	for (int by = 0; by < FF_BESIDE_COUNT; by++)
		for (int lane = 0; lane < 2; lane++)
			pass((enum ff_beside)by, lane);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("lanes");
	TCase *t = tcase_create("messages");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, streams);
	tcase_add_test(t, same_bits);
	/* a stream of the others runs its host functions when somebody waits for it */
	if (chosen_is_cpu())
		tcase_add_test(t, passes);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
