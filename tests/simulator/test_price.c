/* Prices of operators and updates against hand numbers, and which costs a pricer takes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/builder.h"
#include "ff/micro.h"
#include "ff/reuse.h"

#include "priced.h"

START_TEST(measured_work)
{
	struct world w;
	struct ff_costs *c = hand_costs("fast");
	struct ff_error err = {0};
	struct ff_work half, other, back;
	char key[FF_KEY_BYTES], expect[FF_ERROR_TEXT];
	double us = -1;
	struct ff_cost cost = {key, 7, 6, 8, 5, 4096};

	setup(&w, 1, 4, c);
	half = part_of(&w.g, "fc", 2, 0, FF_FORWARD);
	ff_work_key(&half, key);
	ck_assert_int_eq(ff_price_workspace(w.p, &half), 0);
	ck_assert_int_eq(ff_price_work(w.p, &half, 0, &us, &err), FF_E_INPUT);
	ck_assert_double_eq(us, -1);
	snprintf(expect, sizeof(expect),
			"costs.json has no cost for \"%.200s\": run ffprof graph.json --machine "
			"hand "
			"-o costs.json",
			key);
	ck_assert_str_eq(err.text, expect);
	/* measured later: found, and the other part of the same size with it */
	ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
	ck_assert_int_eq(ff_price_workspace(w.p, &half), 4096);
	ck_assert_int_eq(ff_price_work(w.p, &half, 0, &us, &err), FF_OK);
	ck_assert_double_eq(us, 7);
	other = part_of(&w.g, "fc", 2, 1, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &other, 3, &us, &err), FF_OK);
	ck_assert_double_eq(us, 7);
	back = part_of(&w.g, "fc", 2, 1, FF_BACKWARD);
	ck_assert_int_eq(ff_price_work(w.p, &back, 0, &us, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "backward"));
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* The only part of an operator that nothing runs beside has the time that it takes while others
 * wait, unless other micro-batches are under way; the memo keeps both. */
START_TEST(what_runs_alone_has_a_time_of_its_own)
{
	struct ff_costs *c = hand_costs("fast");
	char key[FF_KEY_BYTES];
	struct ff_cost cost = {key, 9, 9, 9, 1, .alone_us = 4};
	struct ff_work work;
	struct ff_graph micro;
	struct world w;
	double us;

	setup(&w, 1, 2, c);
	for (int turn = 0; turn < 2; turn++) {
		uint32_t fc = ff_graph_find(&w.g, "fc");

		work = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
		ff_work_key(&work, key);
		ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
		ck_assert_int_eq(ff_price_part(w.p, &work, fc, 1, 0, &us, NULL, NULL), FF_OK);
		ck_assert_double_eq(us, 4);
		ck_assert_int_eq(ff_price_part(w.p, &work, fc, 2, 0, &us, NULL, NULL), FF_OK);
		ck_assert_double_eq(us, 9);
		ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
		ck_assert_double_eq(us, 9);
		ck_assert_int_eq(ff_price_least(w.p, &work, 0, &us, NULL), FF_OK);
		ck_assert_double_eq(us, 4);
	}
	ck_assert_int_eq(ff_graph_micro(&w.g, 2, &w.arena, &micro, NULL), FF_OK);
	work = part_of(&micro, "fc", 1, 0, FF_FORWARD);
	ff_work_key(&work, key);
	ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
	ck_assert_int_eq(
			ff_price_part(w.p, &work, ff_graph_find(&w.g, "fc"), 1, 0, &us, NULL, NULL),
			FF_OK);
	ck_assert_double_eq(us, 9);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* A micro-batch is priced with the caches that it leaves, or the most alike that were
 * measured; so are copies and additions. */
START_TEST(micro_batches_have_caches_of_their_own)
{
	static const uint32_t micro_batches[] = {1, 2, 16};
	struct ff_costs *c = hand_costs("fast");
	struct ff_graph g, micro[2];
	struct ff_cost cost = {.samples = 1};
	char key[FF_KEY_BYTES];
	struct ff_reuse passed;
	struct ff_work work;
	struct world w;
	int64_t bytes[3];
	double us;

	setup(&w, 1, 1, c);
	ff_pricer_destroy(w.p);
	hand_graph(&w.arena, 512, 1024, 12, &g);
	ck_assert_int_eq(ff_reuse_find(&g, 1, &w.arena, &passed, NULL), FF_OK);
	for (uint32_t i = 0; i < 3; i++) {
		bytes[i] = ff_reuse_node(
				&passed, micro_batches[i], ff_graph_find(&g, "fc"), FF_FORWARD);
		ck_assert(i == 0 || bytes[i] < bytes[i - 1]);
	}
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(
				ff_graph_micro(&g, micro_batches[i + 1], &w.arena, &micro[i], NULL),
				FF_OK);
	/* the same part: a sixteenth of the batch, an eighth of a half of it */
	work = part_of(&g, "fc", 16, 0, FF_FORWARD);
	ff_work_key(&work, key);
	cost.key = key;
	for (uint32_t i = 0; i < 3; i += 2) {
		int64_t of_rate = ff_reuse_bytes(&passed, micro_batches[i]);

		cost.reuse_bytes = bytes[i];
		cost.median_us = cost.p90_us = 7 + i;
		ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
		ck_assert_int_eq(ff_costs_set_rate(c, FF_RATE_ACCUMULATE,
						 (struct ff_rate){i + 1, 10, 0, of_rate}, NULL),
				FF_OK);
	}
	ck_assert_int_eq(ff_pricer_create(&g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
	ck_assert_double_eq(us, 7);
	ck_assert_double_eq_tol(ff_price_add(w.p, &g, 0, 100), 1 + 100 / 10.0, FF_PRICE_STEP_US);
	work = part_of(&micro[1], "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
	ck_assert_double_eq(us, 9);
	ck_assert_double_eq_tol(
			ff_price_add(w.p, &micro[1], 0, 100), 3 + 100 / 10.0, FF_PRICE_STEP_US);
	work = part_of(&micro[0], "fc", 8, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
	ck_assert_double_eq(us, 7);
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

/* Equal layers in a row: the first finds its data near forward, the last one backward. */
START_TEST(equal_nodes_find_their_data_nearer_or_further)
{
	enum { LAYERS = 6 };
	union ff_attrs x = {.input = {.rank = 2, .shape = {64, 256}, .dtype = FF_F32}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {64}, .dtype = FF_I32, .classes = 256}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f"};
	struct ff_costs *c = hand_costs("fast");
	struct ff_builder *build;
	struct ff_reuse passed;
	struct ff_graph g;
	struct world w;
	uint32_t in[2];

	setup(&w, 1, 1, c);
	ff_pricer_destroy(w.p);
	ck_assert_int_eq(ff_builder_create("chain", &w.arena, &build, NULL), FF_OK);
	fc.linear.out_features = 256;
	in[0] = ff_builder_add(build, FF_OP_INPUT, "x", &x, NULL, 0);
	for (uint32_t i = 0; i < LAYERS; i++)
		in[0] = ff_builder_add(build, FF_OP_LINEAR, names[i], &fc, in, 1);
	in[1] = ff_builder_add(build, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(build, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_int_eq(ff_builder_finish(build, &g, NULL), FF_OK);
	ck_assert_int_eq(ff_reuse_find(&g, 1, &w.arena, &passed, NULL), FF_OK);
	ck_assert_int_eq(ff_pricer_create(&g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p, NULL),
			FF_OK);
	for (uint32_t i = 0; i < 2 * LAYERS; i++) {
		enum ff_pass pass = i % 2 ? FF_BACKWARD : FF_FORWARD;
		uint32_t node = ff_graph_find(&g, names[i / 2]);
		struct ff_work work = part_of(&g, names[i / 2], 1, 0, pass);
		struct ff_cost cost = {.samples = 1};
		char key[FF_KEY_BYTES];

		ff_work_key(&work, key);
		cost.key = key;
		cost.reuse_bytes = ff_reuse_node(&passed, 1, node, pass);
		cost.median_us = cost.p90_us = (double)(cost.reuse_bytes >> 10);
		ck_assert_int_eq(ff_costs_put(c, &cost, NULL), FF_OK);
	}
	for (uint32_t i = 0; i < LAYERS; i++) {
		uint32_t node = ff_graph_find(&g, names[i]);
		struct ff_work work = part_of(&g, names[i], 1, 0, FF_FORWARD);
		/* those before it: 64 KiB out and as much of gradients; weights both ways, the
		 * update's weights, gradients and momentum */
		double before = (i + 1) * 128 * 1024 + i * 257.0 * 256 * 4 * 5, us;

		ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
		ck_assert_double_le(fabs(log2(us * 1024 / before)), 0.52);
		work = part_of(&g, names[LAYERS - 1 - i], 1, 0, FF_BACKWARD);
		ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
		/* those behind it, the labels and the loss */
		before = i * (128 * 1024 + 257.0 * 256 * 4 * 5) + 64 * 8 + 8 + 128 * 1024;
		ck_assert_double_le(us * 1024 / before, 1.5);
		ck_assert(i == 0 || ff_price_place(w.p, node) !=
						    ff_price_place(w.p, ff_graph_find(&g, "a")));
	}
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(long_names_leave_room_for_the_command)
{
	struct world w;
	struct ff_costs *c = hand_costs("fast");
	struct ff_error err = {0};
	char path[300];
	struct ff_work work;
	double us;

	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	hand_machine_init(&w.h, 1, 1, true);
	ff_arena_init(&w.arena);
	hand_graph(&w.arena, 8, 16, 12, &w.g);
	ck_assert_int_eq(
			ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, path, path, &w.p, NULL),
			FF_OK);
	work = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "linear.forward"));
	ck_assert_ptr_nonnull(strstr(err.text, "run ffprof"));
	teardown(&w);
	ff_costs_destroy(c);
}
END_TEST

START_TEST(costs_must_fit_the_machine)
{
	struct world w;
	struct ff_error err = {0};
	struct ff_pricer *p = NULL;
	struct ff_costs *c;

	setup(&w, 2, 2, NULL);
	c = hand_costs("cpu");
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "c.json prices devices of kind \"cpu\""));
	ck_assert_ptr_nonnull(strstr(err.text, "\"fast\""));
	ff_costs_destroy(c);
	/* two kinds: one cost file cannot serve both */
	c = hand_costs("fast");
	w.h.node[1].kind = 1;
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "node 1"));
	ck_assert_ptr_nonnull(strstr(err.text, "\"slow\""));
	ff_costs_destroy(c);
	w.h.node[1].kind = 0;
	ck_assert_int_eq(ff_costs_create("fast", &c, NULL), FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "no \"copy\" rate: run ffprof g.json"));
	ck_assert_ptr_null(p);
	ff_costs_destroy(c);
	ff_pricer_destroy(NULL);
	teardown(&w);
}
END_TEST

static void set_plain_rates(struct ff_costs *c, enum ff_rate_kind update)
{
	ff_costs_set_rate(c, FF_RATE_COPY, (struct ff_rate){1, 100}, NULL);
	ff_costs_set_rate(c, FF_RATE_ADD, (struct ff_rate){2, 50}, NULL);
	ff_costs_set_rate(c, FF_RATE_ACCUMULATE, (struct ff_rate){2, 50}, NULL);
	ff_costs_set_rate(c, FF_RATE_LOAD, (struct ff_rate){4, 10}, NULL);
	ff_costs_set_rate(c, update, (struct ff_rate){3, 20}, NULL);
}

/* Files from before there was a choice have the preset optimizer's rate alone. */
START_TEST(optimizers_need_their_rates)
{
	const struct ff_optimizer *adamw = ff_optimizer(FF_OPTIMIZER_ADAMW);
	struct ff_pricer *p = NULL;
	struct ff_error err = {0};
	struct ff_costs *c;
	struct world w;

	setup(&w, 1, 1, NULL);
	ck_assert_int_eq(ff_costs_create("fast", &c, NULL), FF_OK);
	set_plain_rates(c, FF_RATE_UPDATE);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_OK);
	ck_assert_int_eq(ff_pricer_set_optimizer(p, adamw, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text,
			"c.json has no \"update_adamw\" rate: run ffprof g.json --machine hand"));
	/* and nothing has changed */
	ck_assert_ptr_eq(ff_price_optimizer(p), ff_optimizer_preset());
	ck_assert_double_eq_tol(ff_price_update(p, 0, 100), 3 + 100 / 20.0, FF_PRICE_STEP_US);
	ff_pricer_destroy(p);
	ff_costs_destroy(c);
	p = NULL;
	ck_assert_int_eq(ff_costs_create("fast", &c, NULL), FF_OK);
	set_plain_rates(c, FF_RATE_UPDATE_ADAMW);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "no \"update\" rate"));
	ff_costs_destroy(c);
	teardown(&w);
}
END_TEST

/* Weight and gradient are read and the weight written; each state both. */
START_TEST(peak_updates)
{
	static const double passes[FF_OPTIMIZER_COUNT] = {3, 5, 5, 7, 7};
	struct world w;

	setup(&w, 1, 1, NULL);
	ck_assert_double_eq_tol(
			ff_price_update(w.p, 0, 1000), 5 + 5 * 1000 / 1e4, FF_PRICE_STEP_US);
	for (int i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		ck_assert_int_eq(ff_pricer_set_optimizer(
						 w.p, ff_optimizer((enum ff_optimizer_id)i), NULL),
				FF_OK);
		ck_assert_double_eq_tol(ff_price_update(w.p, 0, 1000), 5 + passes[i] * 1000 / 1e4,
				FF_PRICE_STEP_US);
	}
	teardown(&w);
}
END_TEST

/* Where the weights are read in bfloat16, they are written once more, half as long. */
START_TEST(peak_updates_rounded)
{
	struct world w;

	setup(&w, 1, 1, NULL);
	w.g.dtype = FF_BF16;
	ck_assert_double_eq_tol(
			ff_price_update(w.p, 0, 1000), 5 + 5.5 * 1000 / 1e4, FF_PRICE_STEP_US);
	teardown(&w);
}
END_TEST

START_TEST(peak_roofline)
{
	struct world w;
	struct ff_work fc;
	double us, slow_us;

	setup(&w, 1, 8, NULL);
	fc = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &fc, 0, &us, NULL), FF_OK);
	/* 8x16 and 12x16 and 12 read, 8x12 written: bound by memory at 1e4 bytes/us */
	ck_assert_double_eq_tol(us, 5 + 4 * (128 + 192 + 12 + 96) / 1e4, FF_PRICE_STEP_US);
	/* a small product's packed blocks, in a thread or more */
	ck_assert_int_gt(ff_price_workspace(w.p, &fc), 0);
	/* memory 1000 times as fast: bound by arithmetic at 1e6 FLOP/us */
	teardown(&w);
	setup(&w, 2, 4, NULL);
	w.h.kind[0].memory_bytes_per_s = w.h.kind[1].memory_bytes_per_s = 1e16;
	w.h.node[1].kind = 1;
	fc = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_price_work(w.p, &fc, 0, &us, NULL), FF_OK);
	ck_assert_int_eq(ff_price_work(w.p, &fc, 4, &slow_us, NULL), FF_OK);
	ck_assert_double_eq_tol(us, 5 + (double)ff_work_flops(&fc) / 1e6, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(slow_us, 5 + (double)ff_work_flops(&fc) / 1e5, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_update(w.p, 0, 1000), 5, 1e-3);
	teardown(&w);
}
END_TEST

/* Of devices that have a model, and of others beside them, which cost what their peaks say. */
START_TEST(by_models)
{
	struct ff_pricer *models, *peaks;
	struct ff_device_model m;
	struct ff_inferred inferred;
	struct ff_error err;
	struct ff_work fc;
	struct world w;
	double us, again, expect, peak;

	setup(&w, 2, 4, NULL);
	w.h.node[1].kind = 1;
	w.h.kind[0].model = "K80";
	fc = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
	ck_assert_int_eq(ff_device_model_load(
					 FF_SOURCE_MACHINES "/models/K80.json", &w.arena, &m, &err),
			FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_MODEL, NULL, NULL, NULL,
					 &models, &err),
			FF_OK);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &peaks,
					 &err),
			FF_OK);
	expect = ff_device_model_work_us(&m, &fc, &inferred);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ff_price_work(models, &fc, 0, &us, NULL), FF_OK);
		ck_assert_double_eq_tol(us, expect, FF_PRICE_STEP_US);
		ck_assert_double_eq(us, round(us / FF_PRICE_STEP_US) * FF_PRICE_STEP_US);
		ck_assert_int_eq(ff_price_work(models, &fc, 4, &again, NULL), FF_OK);
		ck_assert_int_eq(ff_price_work(peaks, &fc, 4, &peak, NULL), FF_OK);
		ck_assert_double_eq(again, peak);
		ck_assert_double_ne(us, peak);
	}
	ck_assert_int_eq(ff_price_part(models, &fc, 0, 2, 0, &us, &inferred, NULL), FF_OK);
	ck_assert_uint_eq(inferred.classes, 1u << FF_KERNEL_PRODUCT);
	ck_assert_double_eq_tol(inferred.us, us, FF_PRICE_STEP_US);
	ck_assert_double_eq_tol(ff_price_update(models, 0, 1 << 20),
			ff_device_model_stream_us(&m, 5.0 * (1 << 20)), FF_PRICE_STEP_US);
	ck_assert_str_eq(ff_price_unmodelled(models)->name, w.h.kind[1].name);
	ck_assert_ptr_null(ff_price_unmodelled(peaks));
	ff_pricer_destroy(models);
	ff_pricer_destroy(peaks);
	/* one that is named has to be there */
	w.h.kind[0].model = "K81";
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_MODEL, NULL, NULL, NULL,
					 &models, &err),
			FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "there is no model \"K81\""));
	teardown(&w);
}
END_TEST

/* A batch norm, its relu, a sum with what went in, its relu; a norm, a sum of that, its relu. */
static void residual_graph(struct ff_arena *a, struct ff_graph *ret)
{
	union ff_attrs x = {.input = {.rank = 4, .shape = {8, 16, 12, 12}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {8}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2], skip;

	ck_assert_int_eq(ff_builder_create("residual", a, &b, &err), FF_OK);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	skip = in[0] = ff_builder_add(b, FF_OP_TANH, "tanh", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_BATCH_NORM, "norm", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RELU, "relu1", NULL, in, 1);
	in[1] = skip;
	in[0] = ff_builder_add(b, FF_OP_ADD, "add", NULL, in, 2);
	in[0] = ff_builder_add(b, FF_OP_RELU, "relu2", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RELU, "relu3", NULL, in, 1);
	in[1] = ff_builder_add(b, FF_OP_BATCH_NORM, "norm2", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_ADD, "add2", NULL, in, 2);
	in[0] = ff_builder_add(b, FF_OP_RELU, "relu4", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, ret, &err) == FF_OK, "%s", err.text);
}

/* What a neighbour's kernel computes costs what that reads and writes for it, and no launch:
 * forward nothing, as the norm, or the sum, writes what the relu would.  Backward the norm's kernel
 * reads the relu's output and writes the gradient, which its prelude reads; the sum's reads the
 * output.  A sum behind a norm reads what is added, and writes that one's gradient. */
START_TEST(fused_kernels_are_priced_as_fused)
{
	static const struct {
		const char *name;
		double passes[2]; /* over the data; -1: a kernel of its own */
	} rows[] = {{"tanh", {-1, -1}}, {"norm", {-1, -1}}, {"relu1", {0, 2}}, {"add", {-1, -1}},
			{"relu2", {0, 1}}, {"relu3", {-1, -1}}, {"norm2", {-1, -1}},
			{"add2", {1, 2}}, {"relu4", {0, 1}}};
	struct ff_device_model m;
	struct ff_pricer *p;
	struct ff_error err;
	struct ff_graph g;
	struct world w;

	setup(&w, 1, 2, NULL);
	w.h.kind[0].model = "A100-40GB";
	residual_graph(&w.arena, &g);
	ck_assert_int_eq(ff_device_model_load(FF_SOURCE_MACHINES "/models/A100-40GB.json", &w.arena,
					 &m, &err),
			FF_OK);
	ck_assert_int_eq(
			ff_pricer_create(&g, &w.h.m, FF_ESTIMATE_MODEL, NULL, NULL, NULL, &p, &err),
			FF_OK);
	for (uint32_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct ff_work work = part_of(&g, rows[i / 2].name, 1, 0, (enum ff_pass)(i % 2));
		double passes = rows[i / 2].passes[i % 2], bytes = 8 * 16 * 12 * 12 * 4, us, alone;
		double floor = ff_device_model_stream_us(&m, 0);

		ck_assert_int_eq(ff_price_work(p, &work, 0, &us, NULL), FF_OK);
		alone = passes < 0 ? ff_device_model_work_us(&m, &work, &(struct ff_inferred){0})
				   : fmax(FF_PRICE_STEP_US,
						     ff_device_model_stream_us(&m, passes * bytes) -
								     floor);
		ck_assert_double_eq_tol(us, alone, FF_PRICE_STEP_US);
	}
	ck_assert_uint_ne(ff_price_place(p, ff_graph_find(&g, "relu1")),
			ff_price_place(p, ff_graph_find(&g, "relu3")));
	ck_assert_uint_ne(ff_price_place(p, ff_graph_find(&g, "relu1")),
			ff_price_place(p, ff_graph_find(&g, "relu2")));
	ff_pricer_destroy(p);
	teardown(&w);
}
END_TEST

/* More samples never take less time, whatever was priced before. */
START_TEST(peak_is_monotonic)
{
	struct world w;

	setup(&w, 1, 8, NULL);
	for (int pass = FF_FORWARD; pass <= FF_BACKWARD; pass++) {
		double last = 1e300;

		for (uint16_t n = 1; n <= 8; n++) {
			struct ff_work work = part_of(&w.g, "fc", n, 0, (enum ff_pass)pass);
			double us, again;

			ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
			ck_assert_int_eq(ff_price_work(w.p, &work, 1, &again, NULL), FF_OK);
			ck_assert_double_eq(us, again);
			ck_assert_double_le(us, last);
			last = us;
		}
	}
	teardown(&w);
}
END_TEST

/* The memo grows past its first size and still tells works apart. */
START_TEST(memo_grows)
{
	struct world w;
	double first[3000];

	setup(&w, 1, 1, NULL);
	for (int round = 0; round < 2; round++) {
		for (int32_t i = 0; i < 3000; i++) {
			struct ff_work work = part_of(&w.g, "fc", 1, 0, FF_FORWARD);
			double us;

			work.in[0].hi[0] = 1000 + i; /* another shape, another work */
			ck_assert_int_eq(ff_price_work(w.p, &work, 0, &us, NULL), FF_OK);
			if (round)
				ck_assert_double_eq(us, first[i]);
			else if (i)
				ck_assert_double_gt(us, first[i - 1]);
			first[i] = us;
		}
	}
	teardown(&w);
}
END_TEST

/* Whole steps, the nearest, so that sums of them are exact whatever their order. */
START_TEST(prices_are_whole_steps)
{
	const double steps = 1 / FF_PRICE_STEP_US;
	struct world w;
	double up = 0, down = 0;

	setup(&w, 2, 4, NULL);
	for (int64_t bytes = 8; bytes < 80000; bytes += 24) {
		double us = ff_price_sync(w.p, 2, devices, bytes);

		ck_assert_double_eq(us * steps, floor(us * steps));
		ck_assert_double_eq_tol(
				us, 2 * (2 + (double)bytes / 2 / 1000), FF_PRICE_STEP_US / 2);
		up += us;
	}
	for (int64_t bytes = 8 + 24 * 3333; bytes >= 8; bytes -= 24)
		down += bytes < 80000 ? ff_price_sync(w.p, 2, devices, bytes) : 0;
	ck_assert_double_eq(up, down);
	ck_assert_double_gt(up, 100000);
	teardown(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("price");
	TCase *t = tcase_create("price");

	tcase_add_test(t, measured_work);
	tcase_add_test(t, what_runs_alone_has_a_time_of_its_own);
	tcase_add_test(t, micro_batches_have_caches_of_their_own);
	tcase_add_test(t, equal_nodes_find_their_data_nearer_or_further);
	tcase_add_test(t, long_names_leave_room_for_the_command);
	tcase_add_test(t, costs_must_fit_the_machine);
	tcase_add_test(t, optimizers_need_their_rates);
	tcase_add_test(t, peak_updates);
	tcase_add_test(t, peak_updates_rounded);
	tcase_add_test(t, peak_roofline);
	tcase_add_test(t, by_models);
	tcase_add_test(t, fused_kernels_are_priced_as_fused);
	tcase_add_test(t, peak_is_monotonic);
	tcase_add_test(t, memo_grows);
	tcase_add_test(t, prices_are_whole_steps);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
