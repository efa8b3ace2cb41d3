/* Models of devices: what convolutions take.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/device_model.h"

static const char *const kinds[] = {"T4", "V100-16GB", "A10-24GB", "RTX-3090-24GB", "A100-80GB",
		"H100-80GB", "B200-180GB"};

static const struct ff_device_model *model_of(const char *kind, struct ff_arena *a)
{
	const struct ff_device_kind k = {.name = kind};
	const struct ff_device_model *m;
	struct ff_error err;

	ck_assert_msg(ff_device_model_find(&k, a, &m, &err) == FF_OK, "%s", err.text);
	return m;
}

/* 32 groups of four channels lie beside each other: they take what four of 32 do, at most. */
START_TEST(groups_of_few_channels)
{
	struct ff_arena a;

	ff_arena_init(&a);
	for (int pass = FF_CONV_FORWARD; pass <= FF_CONV_FILTER; pass++) {
		bool filter = pass == FF_CONV_FILTER;
		struct ff_kernel_shape few = {.class = FF_KERNEL_CONVOLUTION,
				.type = FF_BF16,
				.pass = (enum ff_conv_pass)pass,
				.count = 32,
				.m = filter ? 4 : 1e6,
				.n = filter ? 36 : 4,
				.k = filter ? 1e6 : 36,
				.taps = 9,
				.stride = 1,
				.bytes = 512e6};
		struct ff_kernel_shape many = few, wide;

		many.count = 4;
		many.n *= 8;
		*(filter ? &many.m : &many.k) *= 8;
		wide = many;
		wide.type = FF_F32;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
			const struct ff_device_model *m = model_of(kinds[i], &a);
			double us = ff_device_model_us(m, &many, NULL);

			if (us < ff_device_model_us(m, &wide, NULL)) /* by tensor cores */
				ck_assert_double_le(ff_device_model_us(m, &few, NULL), us);
		}
	}
	ff_arena_finish(&a);
}
END_TEST

/* 192 to 32 channels of 16 x 28 x 28 take 192, 197 and 189 us (DeepBench). */
START_TEST(windows_of_five)
{
	const double measured[] = {192, 197, 189}, pixels = 16 * 28 * 28;
	const double size[][3] = {{pixels, 32, 4800}, {pixels, 192, 800}, {32, 4800, pixels}};
	struct ff_arena a;

	ff_arena_init(&a);
	for (int pass = FF_CONV_FORWARD; pass <= FF_CONV_FILTER; pass++) {
		struct ff_kernel_shape s = {.class = FF_KERNEL_CONVOLUTION,
				.pass = (enum ff_conv_pass)pass,
				.count = 1,
				.m = size[pass][0],
				.n = size[pass][1],
				.k = size[pass][2],
				.taps = 25,
				.stride = 1,
				.winograd = 1,
				.bytes = 4 * (pixels * (192 + 32) + 192 * 32 * 25)};

		ck_assert_double_eq_tol(ff_device_model_us(model_of("V100-16GB", &a), &s, NULL),
				measured[pass], 0.2 * measured[pass]);
	}
	ff_arena_finish(&a);
}
END_TEST

/* Of a filter's gradient on tensor cores, which take channels last, rows are channels: an odd
 * number of places leaves them whole vectors, an odd number of channels does not. */
START_TEST(filters_of_odd_images)
{
	const struct ff_kernel_shape even = {.class = FF_KERNEL_CONVOLUTION,
			.type = FF_BF16,
			.pass = FF_CONV_FILTER,
			.count = 1,
			.m = 512,
			.n = 4608,
			.k = 36 * 49,
			.taps = 9,
			.stride = 1,
			.bytes = 8e6};
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const struct ff_device_model *m = model_of(kinds[i], &a);
		double us = ff_device_model_us(m, &even, NULL);
		struct ff_kernel_shape odd = even, wide = even;

		odd.k -= 49;
		ck_assert_double_le(ff_device_model_us(m, &odd, NULL), us);
		odd = even;
		odd.m -= 1;
		ck_assert_double_gt(ff_device_model_us(m, &odd, NULL), 1.2 * us);
		wide.type = FF_F32;
		odd = wide;
		odd.k -= 49;
		ck_assert_double_gt(ff_device_model_us(m, &odd, NULL),
				0.9 * ff_device_model_us(m, &wide, NULL));
	}
	ff_arena_finish(&a);
}
END_TEST

/* T4's gradients of 128 filters of 128 channels, 16 bits: 894 and 79 us (DeepBench). */
START_TEST(filters_as_measured)
{
	const double measured[][2] = {{112000, 894}, {5832, 79}};
	struct ff_arena a;

	ff_arena_init(&a);
	for (int i = 0; i < 2; i++) {
		struct ff_kernel_shape s = {.class = FF_KERNEL_CONVOLUTION,
				.type = FF_BF16,
				.pass = FF_CONV_FILTER,
				.count = 1,
				.m = 128,
				.n = 1152,
				.k = measured[i][0],
				.taps = 9,
				.stride = 1,
				.winograd = 1.05,
				.bytes = 2 * (2 * 128 * measured[i][0] + 128 * 1152)};

		ck_assert_double_eq_tol(ff_device_model_us(model_of("T4", &a), &s, NULL),
				measured[i][1], 0.35 * measured[i][1]);
	}
	ff_arena_finish(&a);
}
END_TEST

/* Where they were not measured, windows of one place are multiplied no faster than matrices are. */
START_TEST(no_faster_than_products)
{
	static const char *const inferred[] = {"K80", "A100-80GB", "A10-24GB", "H100-80GB",
			"H100-PCIE-80GB", "B200-180GB"};
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t i = 0; i < sizeof(inferred) / sizeof(*inferred); i++) {
		const struct ff_device_model *m = model_of(inferred[i], &a);
		struct ff_kernel_shape s = ff_kernel_product(FF_F32, 1, 1 << 20, 2048, 2048);
		double product_us = ff_device_model_us(m, &s, NULL);

		s.class = FF_KERNEL_CONVOLUTION;
		s.taps = s.stride = 1;
		ck_assert_double_ge(ff_device_model_us(m, &s, NULL), 0.98 * product_us);
	}
	ff_arena_finish(&a);
}
END_TEST

/* 128 to 128 channels of 128 x 28 x 28 in float32 (bench/h100_kernels.csv): 411 and 404 us. */
START_TEST(windows_on_h100)
{
	const double measured[] = {410.528, 403.68}, pixels = 128 * 28 * 28;
	struct ff_arena a;

	ff_arena_init(&a);
	for (int pass = FF_CONV_FORWARD; pass <= FF_CONV_IMAGE; pass++) {
		struct ff_kernel_shape s = {.class = FF_KERNEL_CONVOLUTION,
				.pass = (enum ff_conv_pass)pass,
				.count = 1,
				.m = pixels,
				.n = 128,
				.k = 1152,
				.taps = 9,
				.stride = 1,
				.winograd = 1,
				.bytes = 4 * (2 * pixels * 128 + 128 * 1152)};

		ck_assert_double_eq_tol(ff_device_model_us(model_of("H100-80GB", &a), &s, NULL),
				measured[pass], 0.1 * measured[pass]);
	}
	ff_arena_finish(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("convolution_model");
	TCase *t = tcase_create("convolution_model");

	tcase_add_test(t, groups_of_few_channels);
	tcase_add_test(t, windows_of_five);
	tcase_add_test(t, filters_of_odd_images);
	tcase_add_test(t, filters_as_measured);
	tcase_add_test(t, no_faster_than_products);
	tcase_add_test(t, windows_on_h100);
	suite_add_tcase(s, t);
	return ff_check_main(s);
}
