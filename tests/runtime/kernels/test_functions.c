/* The CPU kernels' own exp, log, tanh and erf beside the C library's in double precision, and
 * where they end.  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/core/functions.h"

#include "check_main.h"
#include "ff/philox.h"

#define DRAWN 1000000
#define MOST 2e-7 /* of the result: three units in the last place at most */

static double logistic(double x)
{
	return 1 / (1 + exp(-x));
}

struct range {
	const char *name;
	float (*have)(float x);
	double (*want)(double x);
	float lo, hi;
};

static float have_exp(float x)
{
	return ff_exp(x);
}
static float have_log(float x)
{
	return ff_log(x);
}
static float have_tanh(float x)
{
	return ff_tanh(x);
}
static float have_erf(float x)
{
	return ff_erf(x);
}
static float have_sigmoid(float x)
{
	return ff_sigmoid(x);
}

static const struct range ranges[] = {
		{"exp", have_exp, exp, -87, 88},
		{"exp", have_exp, exp, -1, 1},
		{"log", have_log, log, 1e-6f, 4},
		{"log", have_log, log, 0.9f, 1.1f},
		{"log", have_log, log, 1e-40f, 1e-37f},
		{"tanh", have_tanh, tanh, -1, 1},
		{"tanh", have_tanh, tanh, -20, 20},
		{"erf", have_erf, erf, -1.5f, 1.5f},
		{"erf", have_erf, erf, -6, 6},
		{"sigmoid", have_sigmoid, logistic, -20, 20},
};

START_TEST(close)
{
	const struct range *r = &ranges[_i];
	struct ff_random random = {.seed = ff_test_seed(41), .stream = (uint64_t)_i};
	double worst = 0;

	for (int i = 0; i < DRAWN; i++) {
		float x = r->lo + (r->hi - r->lo) * (float)ff_random_unit(&random);
		double want = r->want((double)x), apart = fabs((double)r->have(x) - want);

		worst = fmax(worst, want != 0 ? apart / fabs(want) : apart);
	}
	printf("# %s from %g to %g: %.3g\n", r->name, (double)r->lo, (double)r->hi, worst);
	ck_assert_double_le(worst, MOST);
}
END_TEST

/* The slopes of the gamma function's logarithm beside differences of the C library's, left and
 * right of zero, and the slopes' beside differences of theirs. */
START_TEST(slopes)
{
	static const float at[] = {-7.375f, -2.625f, -1.5f, -0.25f, 0.0625f, 0.25f, 1, 1.4616321f,
			2.5f, 7, 33.25f, 1e4f};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		double x = (double)at[i], h = x < 0 ? 1e-4 : x * 1e-4;
		double before = lgamma(x - h), here = lgamma(x), after = lgamma(x + h);
		double first = (after - before) / (2 * h);
		double second = (after - 2 * here + before) / (h * h);

		ck_assert_double_eq_tol(
				(double)ff_digamma(at[i]), first, 2e-6 * fmax(1, fabs(first)));
		ck_assert_double_eq_tol(
				(double)ff_trigamma(at[i]), second, 1e-5 * fmax(1, fabs(second)));
	}
	ck_assert(isnan(ff_digamma(NAN)) && isnan(ff_trigamma(NAN)));
	ck_assert(isinf(ff_digamma(INFINITY)) && ff_trigamma(INFINITY) == 0);
}
END_TEST

START_TEST(ends)
{
	ck_assert(ff_exp(0) == 1 && ff_exp(-INFINITY) == 0 && isinf(ff_exp(INFINITY)));
	ck_assert(isinf(ff_exp(89)) && ff_exp(-200) == 0 && isnan(ff_exp(NAN)));
	ck_assert(ff_exp(-100) > 0); /* less than the least normal number */
	ck_assert(ff_log(1) == 0 && ff_log(0) == -INFINITY && isinf(ff_log(INFINITY)));
	ck_assert(isnan(ff_log(-1)) && isnan(ff_log(NAN)));
	ck_assert(ff_tanh(0) == 0 && ff_tanh(INFINITY) == 1 && ff_tanh(-INFINITY) == -1);
	ck_assert(ff_erf(0) == 0 && ff_erf(INFINITY) == 1 && ff_erf(-INFINITY) == -1);
	ck_assert(isnan(ff_tanh(NAN)) && isnan(ff_erf(NAN)));
	ck_assert(ff_sigmoid(-200) == 0 && ff_sigmoid(200) == 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("functions");
	TCase *c = tcase_create("functions");

	tcase_add_loop_test(c, close, 0, sizeof(ranges) / sizeof(ranges[0]));
	tcase_add_test(c, slopes);
	tcase_add_test(c, ends);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
