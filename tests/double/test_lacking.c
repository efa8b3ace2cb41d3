/* What cuBLASLt lacks is made otherwise, and comes out the same but for rounding, where random
 * cases rarely come: biases of convolutions of one tap in groups, whose products lie beside each
 * other.  Devices that do not reach each other are told of before a kernel tries to.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "check_main.h"
#include "chosen.h"
#include "ff/backend.h"
#include "ff/builder.h"
#include "scene.h"

#define SAMPLES 6

static void make_groups(enum ff_dtype type, struct ff_arena *a, struct ff_graph *ret)
{
	union ff_attrs x = {.input = {.rank = 4, .shape = {SAMPLES, 3, 4, 4}}};
	union ff_attrs y = {
			.input = {.rank = 1, .shape = {SAMPLES}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs conv = ff_attrs_preset(FF_OP_CONV2D), fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	RIG_OK(ff_builder_create("groups", a, &b, &err));
	ff_builder_set_dtype(b, type);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	conv.conv.out_channels = 32;
	conv.conv.kernel[0] = conv.conv.kernel[1] = 1;
	conv.conv.bias = true;
	in[0] = ff_builder_add(b, FF_OP_CONV2D, "first", &conv, in, 1);
	conv.conv.out_channels = 48;
	conv.conv.groups = 2;
	in[0] = ff_builder_add(b, FF_OP_CONV2D, "groups", &conv, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RELU, "relu", NULL, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = 3;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "last", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

/* The losses of some steps: by the second one biases are not zero. */
static void train(enum ff_dtype type, double loss[SCENE_STEPS])
{
	struct ff_random r = {5, 0, 0};
	struct scene s = {.data = NULL};
	struct ff_error err;
	struct rig rig;

	ff_arena_init(&s.arena);
	make_groups(type, &s.arena, &s.graph);
	RIG_OK(random_machine(&r, 1, &s.arena, &s.one, &err));
	RIG_OK(ff_strategy_single(&s.graph, 0, &s.arena, &s.single, &err));
	RIG_OK(ff_dataset_open("synthetic:12", &s.graph, 1, &s.data, &err));
	scene_optimizer(&s, 0);
	rig_open(&rig, scene_single(&s, chosen_backend()));
	for (uint64_t step = 0; step < SCENE_STEPS; step++)
		RIG_OK(ff_executor_step(rig.x, step, &err));
	RIG_OK(ff_executor_losses(rig.x, loss, SCENE_STEPS, &err));
	rig_close(&rig);
	scene_close(&s);
}

START_TEST(biases_of_groups)
{
	enum ff_dtype type = _i ? FF_BF16 : FF_F32;
	double has[SCENE_STEPS], lacks[SCENE_STEPS];

	train(type, has);
	ck_assert_int_eq(setenv("FF_DOUBLE_LACKS", "bias", 1), 0);
	train(type, lacks);
	ck_assert_int_eq(unsetenv("FF_DOUBLE_LACKS"), 0);
	for (int i = 0; i < SCENE_STEPS; i++)
		ck_assert_msg(fabs(lacks[i] - has[i]) <= (_i ? 1e-3 : 1e-5) * has[i],
				"loss %d: %.9g without biases, %.9g with them", i, lacks[i],
				has[i]);
}
END_TEST

static const struct {
	const char *lacks, *sentence;
} apart[] = {
		{"peers", "CUDA device 0 cannot reach the memory of device 1, as one process"},
		{"room for peers", "CUDA device 0 failed to reach the memory of device 1: "},
};

START_TEST(devices_apart)
{
	const struct ff_backend *b = chosen_backend();
	struct ff_device *dev[2];
	struct ff_error err = {0};
	void *memory[2];

	ck_assert_int_eq(setenv("FF_DOUBLE_LACKS", apart[_i].lacks, 1), 0);
	for (uint32_t i = 0; i < 2; i++)
		RIG_OK(b->device.open(i, &dev[i], &err));
	RIG_OK(b->memory.alloc(dev[0], 64, &memory[0], &err));
	ck_assert_int_eq(b->memory.alloc(dev[1], 64, &memory[1], &err), FF_E_RUN);
	ck_assert_ptr_nonnull(strstr(err.text, apart[_i].sentence));
	b->memory.free(dev[0], memory[0]);
	for (int i = 0; i < 2; i++)
		b->device.close(dev[i]);
	ck_assert_int_eq(unsetenv("FF_DOUBLE_LACKS"), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("lacking");
	TCase *t = tcase_create("products");

	tcase_add_loop_test(t, biases_of_groups, 0, 2);
	suite_add_tcase(s, t);
	t = tcase_create("devices");
	tcase_add_loop_test(t, devices_apart, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
