/* Optimizers: the rows, their settings, and what a step's kernels compute with.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/bucket_layout.h"

#include <math.h>
#include <string.h>

#include "check_main.h"

/* Weights, gradients, states, then weights as they are read, no two of which overlap. */
static void check_layout(
		const struct ff_optimizer *o, enum ff_dtype type, int64_t bytes, int64_t run)
{
	uint32_t n = (uint32_t)(bytes / run);
	const struct ff_sparse none = {0};
	struct ff_bucket_layout l =
			ff_bucket_layout(o, type, ff_bucket_extent(bytes, n, false, false, &none));

	ck_assert_int_eq(l.run, run);
	ck_assert_int_eq(l.gradients, type == FF_F32 ? bytes : run);
	ck_assert_int_eq(l.states, l.gradients + bytes);
	ck_assert_int_eq(l.readers, type == FF_F32 ? 0 : l.states + o->states * run);
	ck_assert_int_eq(l.end, l.states + o->states * run + (type == FF_F32 ? 0 : bytes / 2));
	if (run == bytes)
		ck_assert_int_eq(l.end, ff_optimizer_bytes(o, type, bytes));
}

START_TEST(rows_are_different)
{
	static const uint32_t states[FF_OPTIMIZER_COUNT] = {0, 1, 1, 2, 2};

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)i), *found = NULL;
		struct ff_error err;

		ck_assert_uint_eq(o->id, i);
		ck_assert_uint_le(o->states, FF_MAX_STATES);
		ck_assert_uint_eq(o->states, states[i]);
		/* 33 weights: 132 bytes and 66 rounded ones, both padded to end at a multiple of
		 * 64 */
		ck_assert_int_eq(ff_optimizer_align(FF_F32, 33), 192);
		ck_assert_int_eq(ff_optimizer_align(FF_BF16, 33), 256);
		ck_assert_int_eq(ff_optimizer_bytes(o, FF_F32, 256), (2 + states[i]) * 256);
		ck_assert_int_eq(ff_optimizer_bytes(o, FF_BF16, 256), (2 + states[i]) * 256 + 128);
		check_layout(o, FF_F32, 1024, 1024);
		check_layout(o, FF_F32, 1024, 256);
		check_layout(o, FF_BF16, 1024, 1024);
		check_layout(o, FF_BF16, 1024, 128);
		ck_assert(o->setting[FF_SETTING_RATE].used);
		ck_assert_int_eq(ff_optimizer_find(o->name, &found, &err), FF_OK);
		ck_assert_ptr_eq(found, o);
		for (uint32_t k = 0; k < i; k++) {
			const struct ff_optimizer *other = ff_optimizer((enum ff_optimizer_id)k);

			ck_assert_int_ne(other->rate, o->rate);
			ck_assert_int_ne(other->rounding_rate, o->rounding_rate);
		}
		ck_assert_int_ne(o->rounding_rate, o->rate);
	}
	ck_assert_str_eq(ff_optimizer_preset()->name, "momentum");
}
END_TEST

/* A table of 100 rows of 5, of which at most 20 are read, among others. */
START_TEST(sparse)
{
	struct ff_region table = {.rank = 2, .hi = {100, 5}};

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)i);
		int64_t skipped = i == FF_OPTIMIZER_SGD ? 80 * 5 * 4 : 0;
		double setting[FF_SETTING_COUNT] = {0};
		struct ff_sparse s = {0};
		struct ff_bucket_extent x;

		ff_sparse_add(&s, 100 * 5 * 4, &table, 20);
		ck_assert_int_eq(s.list_bytes, 64 * 4); /* twice as many, a power of two */
		ck_assert_int_eq(ff_bucket_updated_bytes(o, 4096, &s), 4096 - skipped);
		x = ff_bucket_extent(4096, 1, false, false, &s);
		ck_assert_int_eq(ff_bucket_layout(o, FF_BF16, x).end,
				ff_optimizer_bytes(o, FF_BF16, 4096) + 64 * 4);
		ck_assert(ff_optimizer_skips(o, setting) == (i == FF_OPTIMIZER_SGD));
		setting[FF_SETTING_DECAY] = 0.01;
		ck_assert(!ff_optimizer_skips(o, setting));
	}
}
END_TEST

START_TEST(names)
{
	const struct ff_optimizer *found = NULL;
	char text[FF_OPTIMIZER_TEXT];
	struct ff_error err;

	ck_assert_int_eq(ff_optimizer_find("adagrad", &found, &err), FF_E_INPUT);
	ck_assert_ptr_null(found);
	ck_assert_str_eq(err.text,
			"expected sgd, momentum, nesterov, adam or adamw, not \"adagrad\"");
	ff_optimizer_list(true, text);
	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++)
		ck_assert_ptr_nonnull(strstr(text, ff_optimizer((enum ff_optimizer_id)i)->summary));
	ff_setting_help(FF_SETTING_RATE, text);
	ck_assert_str_eq(text,
			"learning rate (sgd: 0.01, momentum: 0.01, nesterov: 0.01, adam: 0.001, "
			"adamw: 0.001)");
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++) {
		ff_setting_help((enum ff_setting_id)i, text);
		ck_assert_int_eq(text[strlen(text) - 1], ')'); /* not cut */
	}
}
END_TEST

static void nothing_told(double *told)
{
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		told[i] = NAN;
}

/* PyTorch's presets, but for SGD, which there has none. */
START_TEST(presets)
{
	static const double expected[FF_OPTIMIZER_COUNT][FF_SETTING_COUNT] = {
			{0.01, 0, 0, 0, 0, 0},
			{0.01, 0.9, 0, 0, 0, 0},
			{0.01, 0.9, 0, 0, 0, 0},
			{0.001, 0, 0.9, 0.999, 1e-8, 0},
			{0.001, 0, 0.9, 0.999, 1e-8, 0.01},
	};
	double told[FF_SETTING_COUNT], value[FF_SETTING_COUNT];
	struct ff_error err;

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++) {
		const struct ff_optimizer *o = ff_optimizer((enum ff_optimizer_id)i);

		nothing_told(told);
		ck_assert_int_eq(ff_optimizer_set(o, told, value, &err), FF_OK);
		for (uint32_t k = 0; k < FF_SETTING_COUNT; k++)
			ck_assert_double_eq(value[k], expected[i][k]);
		told[FF_SETTING_DECAY] = 0.25;
		ck_assert_int_eq(ff_optimizer_set(o, told, value, &err), FF_OK);
		ck_assert_double_eq(value[FF_SETTING_DECAY], 0.25);
		ck_assert_double_eq(value[FF_SETTING_RATE], expected[i][FF_SETTING_RATE]);
	}
}
END_TEST

START_TEST(refuses)
{
	static const struct {
		enum ff_optimizer_id o;
		enum ff_setting_id id;
		double told;
		const char *sentence; /* NULL: accepted */
	} cases[] = {
			{FF_OPTIMIZER_SGD, FF_SETTING_RATE, 0, NULL},
			{FF_OPTIMIZER_SGD, FF_SETTING_RATE, 1e9, NULL},
			{FF_OPTIMIZER_SGD, FF_SETTING_RATE, -1,
					"option --rate: expected a number from 0, not -1"},
			{FF_OPTIMIZER_SGD, FF_SETTING_RATE, INFINITY, "--rate"},
			{FF_OPTIMIZER_SGD, FF_SETTING_MOMENTUM, 0.5,
					"option --momentum: optimizer sgd has no such setting"},
			{FF_OPTIMIZER_MOMENTUM, FF_SETTING_MOMENTUM, 0, NULL},
			{FF_OPTIMIZER_MOMENTUM, FF_SETTING_MOMENTUM, 1,
					"option --momentum: expected a number from 0 and below 1, "
					"not 1"},
			{FF_OPTIMIZER_MOMENTUM, FF_SETTING_BETA1, 0.5, "optimizer momentum has no"},
			{FF_OPTIMIZER_MOMENTUM, FF_SETTING_DECAY, -1e-9, "--decay"},
			{FF_OPTIMIZER_ADAMW, FF_SETTING_MOMENTUM, 0.5, "optimizer adamw has no"},
			{FF_OPTIMIZER_ADAMW, FF_SETTING_BETA1, 0, NULL},
			{FF_OPTIMIZER_ADAMW, FF_SETTING_BETA1, 1, "--beta1"},
			{FF_OPTIMIZER_ADAMW, FF_SETTING_BETA2, 1.5, "--beta2"},
			{FF_OPTIMIZER_ADAMW, FF_SETTING_EPSILON, 2, NULL},
			{FF_OPTIMIZER_ADAMW, FF_SETTING_EPSILON, -2, "--epsilon"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double told[FF_SETTING_COUNT], value[FF_SETTING_COUNT] = {7};
		struct ff_error err = {0};
		int code;

		nothing_told(told);
		told[cases[i].id] = cases[i].told;
		code = ff_optimizer_set(ff_optimizer(cases[i].o), told, value, &err);
		ck_assert_msg(code == (cases[i].sentence ? FF_E_INPUT : FF_OK), "case %zu: %s", i,
				err.text);
		if (!cases[i].sentence)
			continue;
		ck_assert_msg(strstr(err.text, cases[i].sentence), "got \"%s\", expected \"%s\"",
				err.text, cases[i].sentence);
		ck_assert_double_eq(value[FF_SETTING_RATE], 7);
	}
}
END_TEST

/* Corrected means of n equal gradients are the gradient and its square. */
START_TEST(bias_is_corrected)
{
	const struct ff_optimizer *o = ff_optimizer(FF_OPTIMIZER_ADAMW);
	double value[FF_SETTING_COUNT] = {0}, m = 0, v = 0, g = 3;

	value[FF_SETTING_RATE] = 0.5;
	value[FF_SETTING_BETA1] = 0.9;
	value[FF_SETTING_BETA2] = 0.99;
	value[FF_SETTING_DECAY] = 0.1;
	for (uint64_t n = 0; n < 50; n++) {
		union ff_factors f;

		o->factors(value, n, &f);
		m = (double)f.adamw.keep1 * m + (double)f.adamw.take1 * g;
		v = (double)f.adamw.keep2 * v + (double)f.adamw.take2 * g * g;
		ck_assert_double_eq_tol((double)f.adamw.rate * m, 0.5 * g, 1e-5);
		ck_assert_double_eq_tol(sqrt(v) / (double)f.adamw.root, g, 1e-5);
		ck_assert_double_eq_tol((double)f.adamw.shrink, 0.95, 1e-6);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("optimizer");
	TCase *c = tcase_create("rows");

	tcase_add_test(c, rows_are_different);
	tcase_add_test(c, sparse);
	tcase_add_test(c, names);
	tcase_add_test(c, presets);
	tcase_add_test(c, refuses);
	tcase_add_test(c, bias_is_corrected);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
