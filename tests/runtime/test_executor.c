/* Every strategy computes the same function: random graphs under random legal
 * strategies against one device.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <math.h>
#include <string.h>

#include "ff/builder.h"
#include "ff/clock.h"
#include "ff/hash.h"
#include "ff/workspace.h"
#include "scene.h"
#include "seen.h"

#define CASES 450
#define NULL_CASES 400

START_TEST(same_function)
{
	uint64_t seed = ff_test_seed(28);
	uint32_t rounds = ff_test_rounds(CASES);
	struct seen seen = {0};

	for (uint32_t i = 0; i < rounds || (i < SEEN_DRAWS && seen_lacks(&seen)); i++) {
		struct ff_random r = {seed, i, 0};
		struct result split, whole;
		struct scene s;
		bool bounce;

		scene_open(&s, FF_F32, 8, &r);
		if (!seen_look(&seen, &s) && i >= rounds) {
			scene_close(&s);
			continue;
		}
		bounce = ff_random_below(&r, 4) == 0;
		printf("# case %u: %u nodes, %u devices%s%s\n", i, s.graph.n_nodes,
				s.machine.n_devices, s.machine.overlap ? ", overlap" : "",
				bounce ? ", bounce" : "");
		scene_run(&s, &s.machine, &s.strategy, rig_backend(bounce), NULL,
				ff_random_below(&r, 2)
						? 0
						: 64 * (1 + (int64_t)ff_random_below(&r, 40)),
				&split);
		scene_run(&s, &s.one, &s.single, rig_backend(false), NULL, 0, &whole);
		scene_compare(&s, &split, &whole);
		scene_close(&s);
	}
	ck_assert_msg(!seen_lacks(&seen), "no case had: %s", seen_lacks(&seen));
}
END_TEST

/* Linear layers split by input and then by output feature on the same devices
 * (the wrong way round, for Megatron): all-reduce between them, both passes.  The last
 * one by output feature, and the loss by class: all-reduces of its statistics. */
START_TEST(all_reduce)
{
	union ff_attrs x = {.input = {.rank = 2, .shape = {6, 13}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {6}, .dtype = FF_I32, .classes = 5}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_random r = {ff_test_seed(26), 0, 0};

	for (uint32_t n = 2; n <= 8; n++) {
		struct scene s = {.opt = {.seed = n}};
		struct seen seen = {0};
		struct result split, whole;
		struct ff_builder *b;
		struct ff_error err;
		uint32_t in[2];

		ff_arena_init(&s.arena);
		RIG_OK(ff_builder_create("all-reduce", &s.arena, &b, &err));
		in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		for (int i = 0; i < 4; i++) {
			fc.linear.out_features = i < 3 ? 8 + i : 5;
			in[0] = ff_builder_add(b, FF_OP_LINEAR,
					ff_arena_printf(&s.arena, "fc%d", i), &fc, in, 1);
		}
		in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
		ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
		RIG_OK(ff_builder_finish(b, &s.graph, &err));
		scene_optimizer(&s, (enum ff_optimizer_id)(n % FF_OPTIMIZER_COUNT));
		RIG_OK(random_machine(&r, n, &s.arena, &s.machine, &err));
		RIG_OK(random_machine(&r, 1, &s.arena, &s.one, &err));
		RIG_OK(ff_strategy_single(&s.graph, 0, &s.arena, &s.single, &err));
		RIG_OK(ff_strategy_single(&s.graph, 0, &s.arena, &s.strategy, &err));
		for (int i = 0; i < 5; i++) {
			/* dims are sample, out_feature or class, in_feature */
			const char *name = ff_arena_printf(&s.arena, i < 4 ? "fc%d" : "loss", i);
			struct ff_config *c = &s.strategy.config[ff_graph_find(&s.graph, name)];
			uint32_t dim = i == 1 || i > 2 ? 1 : 2;

			c->n_parts = i > 2 && n > 5 ? 5 : n;
			c->degree[dim] = (uint16_t)c->n_parts;
			c->stride[dim] = 1;
		}
		RIG_OK(ff_dataset_open("synthetic:18", &s.graph, n, &s.data, &err));
		seen_look(&seen, &s);
		ck_assert_uint_ge(seen.move[FF_MOVE_ALL_REDUCE], 4);
		ck_assert_uint_eq(seen.classes, 1);
		scene_run(&s, &s.machine, &s.strategy, rig_backend(n % 2), NULL, 0, &split);
		scene_run(&s, &s.one, &s.single, rig_backend(false), NULL, 0, &whole);
		scene_compare(&s, &split, &whole);
		scene_close(&s);
	}
}
END_TEST

/* Cells of all uses that read an element of a parameter. */
static uint32_t count_readers(const struct ff_schedule *l, uint32_t node, const int32_t *at)
{
	const struct ff_graph *g = l->graph;
	const struct ff_value *v = &g->values[g->nodes[node].out];
	uint32_t readers = 0;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		const struct ff_edge *e = &g->edges[ff_value_use(g, v, u)];
		const struct ff_node *n = &g->nodes[e->node];
		const struct ff_config *c = &l->config[e->node];

		for (uint32_t part = 0; part < ff_config_cells(c); part++) {
			struct ff_region box, in;
			bool inside = true;

			ff_config_box(n, c, part, &box);
			ff_operand_region(n, &n->in_map[e->slot], &box, &in);
			for (uint32_t d = 0; d < v->rank; d++)
				inside &= at[d] >= in.lo[d] && at[d] < in.hi[d];
			readers += inside;
		}
	}
	return readers;
}

/* After a step without arithmetic every element of a parameter's gradient is the
 * number of cells that read it, 1 for each in the first micro-batch, 2 in the second and
 * so on; and shards cover it once. */
static void check_null_gradients(struct rig *r, const struct scene *s, uint32_t node)
{
	const struct ff_schedule *l = &r->schedule;
	const struct ff_value *v = &s->graph.values[s->graph.nodes[node].out];
	int64_t n = rig_volume(v), in_shards = 0;
	uint32_t m = s->strategy.micro_batches;
	float *whole = malloc((size_t)n * sizeof(*whole));
	struct ff_error err;

	ck_assert_ptr_nonnull(whole);
	RIG_OK(ff_executor_parameter(r->x, node, FF_ARRAY_GRADIENTS, whole, &err));
	for (uint32_t i = 0; i < l->n_shards; i++)
		if (l->shards[i].node == node && !l->buckets[l->shards[i].bucket].replica)
			in_shards += ff_region_volume(&l->shards[i].region);
	ck_assert_int_eq(in_shards, n);
	for (int64_t k = 0; k < n; k++) {
		int32_t at[FF_MAX_RANK];
		int64_t rest = k;

		for (uint32_t d = v->rank; d-- > 0; rest /= v->shape[d])
			at[d] = (int32_t)(rest % v->shape[d]);
		ck_assert_float_eq(whole[k], (float)(count_readers(l, node, at) * m * (m + 1) / 2));
	}
	free(whole);
}

/* `bounce`: it claims that the host cannot read its memory. */
static const struct ff_backend *null_backend_of(bool bounce)
{
	static struct ff_backend far;

	far = ff_backend_null;
	far.memory.of_host = false;
	return bounce ? &far : &ff_backend_null;
}

START_TEST(null_backend)
{
	uint64_t seed = ff_test_seed(21);

	for (uint32_t i = 0; i < ff_test_rounds(NULL_CASES); i++) {
		struct ff_random r = {seed, i, 0};
		struct ff_error err;
		struct scene s;
		struct rig rig;
		struct rig_setup setup;
		double loss[2], all = 0;

		scene_open(&s, i % 4 < 2 ? FF_F32 : FF_BF16, 16, &r);
		printf("# case %u: %u nodes, %u devices\n", i, s.graph.n_nodes,
				s.machine.n_devices);
		if (s.strategy.micro_batches == 1 && i % 2)
			random_types(&r, &s.graph);
		setup = scene_setup(&s, null_backend_of(i % 3 == 0));
		setup.bucket_bytes = 64 * (1 + (int64_t)ff_random_below(&r, 40));
		rig_open(&rig, setup);
		for (uint64_t step = 0; step < 2; step++) {
			int64_t sent = rig.comm->sent_bytes;

			RIG_OK(ff_executor_step(rig.x, step, &err));
			ck_assert_int_eq(rig.comm->sent_bytes - sent, rig.schedule.network_bytes);
		}
		for (uint32_t k = 0; k < s.graph.n_losses; k++) {
			RIG_OK(ff_executor_loss(rig.x, k, loss, 2, &err));
			ck_assert_double_eq(loss[1], 1);
			all += s.graph.nodes[s.graph.loss[k]].attrs.loss.weight;
		}
		RIG_OK(ff_executor_losses(rig.x, loss, 2, &err));
		ck_assert_double_eq(loss[0], all);
		ck_assert_double_eq(loss[1], all);
		for (uint32_t k = 0; k < s.graph.n_nodes; k++)
			if (ff_node_is_parameter(&s.graph, k))
				check_null_gradients(&rig, &s, k);
		rig_close(&rig);
		scene_close(&s);
	}
}
END_TEST

/* Communication that changes one element of its last message. */
static int (*honest)(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);

static int spoil(void *arg, struct ff_error *err)
{
	(void)err;
	*(float *)arg += 1;
	return FF_OK;
}

static int lossy_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	int code = honest(c, on, type, parcel, n, err);

	return code < 0 ? code
			: on->backend->stream.call(on->stream, spoil, parcel[n - 1].recv, err);
}

START_TEST(null_backend_finds_wrong_message)
{
	struct ff_random r = {ff_test_seed(22), 0, 0};
	uint32_t found = 0, sent = 0;

	for (uint32_t i = 0; i < 60; i++) {
		struct ff_error err = {0};
		struct scene s;
		struct rig rig;
		bool messages = false;
		int code;

		scene_open(&s, FF_F32, 4, &r);
		rig_open(&rig, scene_setup(&s, &ff_backend_null));
		honest = rig.comm->exchange;
		rig.comm->exchange = lossy_exchange;
		for (uint32_t t = 0; t < rig.schedule.n_tasks; t++) {
			const struct ff_move *mv = rig.schedule.tasks[t].move;

			messages |= mv && ff_move_is_messages(mv->kind) && mv->network_bytes;
		}
		code = ff_executor_step(rig.x, 0, &err);
		if (messages) {
			sent++;
			found += code == FF_E_RUN && strstr(err.text, "expected") &&
				 strstr(err.text, "operator ");
		} else {
			ck_assert_msg(code == FF_OK, "%s", err.text);
		}
		rig_close(&rig);
		scene_close(&s);
	}
	ck_assert_uint_gt(sent, 10);
	ck_assert_uint_eq(found, sent);
}
END_TEST

/* The same step twice on the same executor gives the same bits. */
START_TEST(repeatable)
{
	struct ff_random r = {ff_test_seed(23), 0, 0};

	for (uint32_t i = 0; i < 10; i++) {
		struct result a, b;
		struct scene s;

		scene_open(&s, FF_F32, 6, &r);
		scene_run(&s, &s.machine, &s.strategy, rig_backend(false), NULL, 0, &a);
		scene_run(&s, &s.machine, &s.strategy, rig_backend(false), NULL, 0, &b);
		ck_assert_mem_eq(a.weights, b.weights,
				(size_t)ff_graph_parameters(&s.graph) * sizeof(float));
		ck_assert_mem_eq(a.loss, b.loss, sizeof(a.loss));
		scene_close(&s);
	}
}
END_TEST

START_TEST(keeps_weights)
{
	struct ff_random r = {ff_test_seed(24), 0, 0};
	struct ff_error err;
	const float *before, *after, *gradients;
	double loss, largest = 0;
	struct scene s;
	struct rig rig;
	int64_t n;

	scene_open(&s, FF_F32, 4, &r);
	s.opt.keep_gradients = true;
	rig_open(&rig, scene_setup(&s, chosen_backend()));
	before = rig_weights(&rig, false, &s.arena, &n);
	RIG_OK(ff_executor_step(rig.x, 0, &err));
	after = rig_weights(&rig, false, &s.arena, &n);
	gradients = rig_weights(&rig, true, &s.arena, &n);
	ck_assert_mem_eq(before, after, (size_t)n * sizeof(float));
	for (int64_t i = 0; i < n; i++)
		largest = fmax(largest, fabs((double)gradients[i]));
	ck_assert_double_gt(largest, 0);
	/* losses are handed out once */
	ck_assert_int_eq(ff_executor_losses(rig.x, &loss, 0, &err), FF_E_RUN);
	RIG_OK(ff_executor_losses(rig.x, &loss, 1, &err));
	RIG_OK(ff_executor_losses(rig.x, &loss, 0, &err));
	rig_close(&rig);
	scene_close(&s);
}
END_TEST

/* Every executed task has a span for each device it occupies. */
START_TEST(spans)
{
	struct ff_random r = {ff_test_seed(25), 0, 0};

	for (uint32_t i = 0; i < 10; i++) {
		const struct ff_span *span;
		uint32_t n, expected = 0;
		double before, after, origin;
		struct ff_error err;
		struct scene s;
		struct rig rig;

		scene_open(&s, FF_F32, 6, &r);
		rig_open(&rig, scene_setup(&s, chosen_backend()));
		ff_executor_trace(rig.x, true);
		before = ff_clock_us();
		RIG_OK(ff_executor_step(rig.x, 0, &err));
		after = ff_clock_us();
		ff_executor_trace(rig.x, false);
		ff_executor_spans(rig.x, &span, &n, &origin);
		ck_assert_double_ge(origin, before);
		for (uint32_t t = 0; t < rig.schedule.n_tasks; t++) {
			const struct ff_task *task = &rig.schedule.tasks[t];

			expected += task->move ? task->move->n_devices : 1;
		}
		ck_assert_uint_eq(n, expected);
		for (uint32_t k = 0; k < n; k++) {
			ck_assert_double_ge(span[k].start_us, 0);
			ck_assert_double_ge(span[k].finish_us, span[k].start_us);
			ck_assert_double_le(origin + span[k].finish_us, after + 1e-3);
		}
		rig_close(&rig);
		scene_close(&s);
	}
}
END_TEST

/* Kernels that differ, each node's apart: equal parts have one. */
static uint32_t count_kernels(const struct ff_schedule *plan)
{
	const struct ff_graph *g = plan->graph;
	uint64_t *seen = malloc(plan->n_tasks * sizeof(*seen));
	struct ff_work *work = malloc(sizeof(*work));
	uint32_t n = 0;

	ck_assert(seen && work);
	for (uint32_t i = 0; i < plan->n_tasks; i++) {
		const struct ff_task *t = &plan->tasks[i];
		struct ff_region box;
		uint32_t at = 0;

		if (!ff_task_computes_part(t))
			continue;
		ff_config_box(&g->nodes[t->node],
				&plan->strategy->config[ff_node_leader(g, t->node)], t->part, &box);
		ff_work_fill(g, t->node, &box, ff_task_pass(t), work);
		ff_work_keep(work, t->grads);
		seen[n] = ff_hash_mix(ff_work_hash(work), t->node);
		while (seen[at] != seen[n])
			at++;
		n += at == n;
	}
	free(seen);
	free(work);
	return n;
}

/* Data parallelism on eight devices has eight equal parts of everything: lowering
 * prepares one kernel of each, whatever the number of devices. */
START_TEST(equal_kernels_are_prepared_once)
{
	struct ff_random r = {ff_test_seed(27), 0, 0};
	struct ff_error err;
	struct scene s;

	scene_open(&s, FF_F32, 1, &r);
	for (uint32_t n = 1; n <= 8; n *= 2) {
		const struct ff_backend *b = rig_backend(false);
		struct ff_workspace_query query = {.backend = b};
		struct ff_lower_options opt = {.workspace = ff_backend_workspace, .ctx = &query};
		struct ff_schedule plan;

		RIG_OK(random_machine(&r, n, &s.arena, &s.machine, &err));
		RIG_OK(ff_strategy_data_parallel(&s.graph, n, &s.arena, &s.strategy, &err));
		RIG_OK(b->device.open(0, &query.device, &err));
		rig_kernels = 0;
		RIG_OK(ff_lower(&s.graph, &s.machine, &s.strategy, &opt, &s.arena, &plan, &err));
		b->device.close(query.device);
		ff_workspace_finish(&query);
		ck_assert_uint_gt(rig_kernels, 0);
		ck_assert_uint_le(rig_kernels, count_kernels(&plan));
	}
	scene_close(&s);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("executor");
	TCase *t = tcase_create("property");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, same_function);
	tcase_add_test(t, all_reduce);
	tcase_add_test(t, null_backend);
	tcase_add_test(t, null_backend_finds_wrong_message);
	tcase_add_test(t, repeatable);
	tcase_add_test(t, keeps_weights);
	tcase_add_test(t, spans);
	tcase_add_test(t, equal_kernels_are_prepared_once);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
