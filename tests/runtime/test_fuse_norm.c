/* Batch norms, additions and the relus or clips behind them, two or three by one kernel: whole
 * steps to the bit as without.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/builder.h"
#include "ff/micro.h"
#include "pairs.h"

#define SCENES 40

static uint32_t add_conv(struct ff_builder *b, const char *name, int32_t channels, uint32_t in)
{
	union ff_attrs conv = ff_attrs_preset(FF_OP_CONV2D);

	conv.conv.out_channels = channels;
	conv.conv.kernel[0] = conv.conv.kernel[1] = 1;
	conv.conv.bias = 0;
	return ff_builder_add(b, FF_OP_CONV2D, name, &conv, &in, 1);
}

/* A relu, or a clip whose limits are met on one side or both. */
static uint32_t add_limit(struct ff_builder *b, struct ff_random *r, uint32_t in)
{
	union ff_attrs clip = ff_attrs_preset(FF_OP_CLIP);

	if (ff_random_below(r, 2))
		return ff_builder_add(b, FF_OP_RELU, "relu0", NULL, &in, 1);
	clip.unary.a = (double)ff_random_below(r, 3) / 2 - 1;
	if (ff_random_below(r, 2))
		clip.unary.b = 0.75;
	return ff_builder_add(b, FF_OP_CLIP, "clip0", &clip, &in, 1);
}

/* As residual networks have them: conv, norm, relu or clip; conv, norm, and a sum, on either side,
 * with what went in or a norm of it; relu, or none.  Some norms have no parameters. */
static void make_graph(struct ff_random *r, enum ff_dtype type, int32_t batch, struct ff_arena *a,
		struct ff_graph *ret)
{
	int32_t side = 1 + (int32_t)ff_random_below(r, 24);
	int32_t wide = ff_random_below(r, 2) ? 8 + 8 * (int32_t)ff_random_below(r, 10)
					     : 1 + (int32_t)ff_random_below(r, 40);
	union ff_attrs x = {.input = {.rank = 4, .shape = {batch, 3, side, side}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), norm = ff_attrs_preset(FF_OP_BATCH_NORM);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2], skip, side_norm = ff_random_below(r, 2), at = ff_random_below(r, 2);

	norm.norm.affine = norm.norm.bias = ff_random_below(r, 3) > 0;
	RIG_OK(ff_builder_create("norms", a, &b, &err));
	ff_builder_set_dtype(b, type);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = add_conv(b, "conv0", wide, in[0]);
	in[0] = ff_builder_add(b, FF_OP_BATCH_NORM, "norm0", &norm, in, 1);
	skip = in[0] = add_limit(b, r, in[0]);
	in[0] = add_conv(b, "conv1", wide, in[0]);
	in[0] = ff_builder_add(b, FF_OP_BATCH_NORM, "norm1", &norm, in, 1);
	in[1] = in[0];
	if (side_norm) {
		skip = add_conv(b, "conv2", wide, skip);
		skip = ff_builder_add(b, FF_OP_BATCH_NORM, "norm2", &norm, &skip, 1);
	}
	in[at] = skip;
	in[0] = ff_builder_add(b, FF_OP_ADD, "add1", NULL, in, 2);
	if (ff_random_below(r, 4))
		in[0] = ff_builder_add(b, FF_OP_RELU, "relu1", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = 3;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "last", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

static void open_scene(struct scene *s, struct ff_random *r, enum ff_dtype type, uint32_t devices)
{
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	make_graph(r, type, 6, &s->arena, &s->graph);
	RIG_OK(random_machine(r, devices, &s->arena, &s->machine, &err));
	RIG_OK(ff_graph_micro(&s->graph, 1, &s->arena, &s->micro, &err));
	RIG_OK(ff_strategy_data_parallel(&s->micro, devices, &s->arena, &s->strategy, &err));
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	scene_optimizer(s, (enum ff_optimizer_id)(s->opt.seed % FF_OPTIMIZER_COUNT));
}

/* What is fused, by pass; the same bits without. */
static void compare(struct scene *s, uint32_t fused[2])
{
	struct ff_backend with = pairs_backend(true), without = pairs_backend(false);
	size_t bytes = (size_t)ff_graph_parameters(&s->graph) * sizeof(float);
	struct result one, two;
	uint32_t runs;

	memset(pairs_fused, 0, sizeof(pairs_fused));
	scene_run(s, &s->machine, &s->strategy, &with, NULL, 0, &one);
	memcpy(fused, pairs_fused, sizeof(pairs_fused));
	scene_run(s, &s->machine, &s->strategy, &without, NULL, 0, &two);
	ck_assert_mem_eq(one.weights, two.weights, bytes);
	ck_assert_mem_eq(one.loss, two.loss, sizeof(one.loss));
	ck_assert_double_eq(one.test_loss, two.test_loss);
	runs = pairs_step_runs(s, &without) - pairs_step_runs(s, &with);
	ck_assert_uint_eq(runs, fused[FF_FORWARD] + fused[FF_BACKWARD]);
}

START_TEST(norms)
{
	uint64_t seed = ff_test_seed(91);
	uint32_t all[2] = {0, 0}, scenes = ff_test_rounds(SCENES);

	for (uint32_t i = 0; i < scenes; i++) {
		struct ff_random r = {seed, i, 0};
		uint32_t devices = 1 + ff_random_below(&r, 3), fused[2];
		struct scene s;

		open_scene(&s, &r, i % 2 ? FF_BF16 : FF_F32, devices);
		compare(&s, fused);
		for (int pass = 0; pass < 2; pass++) /* as is predicted */
			ck_assert_uint_eq(fused[pass],
					devices * pairs_predicted(&s.graph, (enum ff_pass)pass));
		printf("# case %u: %u devices: %u forward, %u backward\n", i, devices,
				fused[FF_FORWARD], fused[FF_BACKWARD]);
		for (int pass = 0; pass < 2; pass++)
			all[pass] += fused[pass];
		scene_close(&s);
	}
	ck_assert_uint_ge(all[FF_FORWARD], 2 * scenes);
	ck_assert_uint_ge(all[FF_BACKWARD], 2 * scenes);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fuse_norm");
	TCase *t = tcase_create("fuse_norm");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, norms);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
