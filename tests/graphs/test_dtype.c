/* Element types: bfloat16, and reductions of every type.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "check_main.h"
#include "ff/philox.h"
#include "ff/reduce.h"
#include "runtime/typed.h"

START_TEST(bfloat16_round_trip)
{
	for (uint32_t x = 0; x <= UINT16_MAX; x++) {
		float f = ff_bf16_to_f32((uint16_t)x);

		if (isnan(f))
			ck_assert(isnan(ff_bf16_to_f32(ff_bf16_from_f32(f))));
		else
			ck_assert_uint_eq(ff_bf16_from_f32(f), x);
	}
}
END_TEST

/* Between two neighbours the nearer one is taken, in the middle the even one. */
START_TEST(bfloat16_nearest)
{
	for (uint32_t x = 0; x < 0x7f7f; x++) {
		double lo = (double)ff_bf16_to_f32((uint16_t)x);
		double hi = (double)ff_bf16_to_f32((uint16_t)(x + 1)), mid = (lo + hi) / 2;
		float half = (float)mid;
		uint32_t even = x + (x & 1);

		ck_assert_double_eq((double)half, mid);
		ck_assert_uint_eq(ff_bf16_from_f32(half), even);
		ck_assert_uint_eq(ff_bf16_from_f32(-half), even | 0x8000);
		ck_assert_uint_eq(ff_bf16_from_f32(nextafterf(half, 0)), x);
		ck_assert_uint_eq(ff_bf16_from_f32(nextafterf(half, INFINITY)), x + 1);
	}
	ck_assert_uint_eq(ff_bf16_from_f32(INFINITY), 0x7f80);
	ck_assert_uint_eq(ff_bf16_from_f32(3.4e38f), 0x7f80);
}
END_TEST

START_TEST(sizes)
{
	ck_assert_int_eq(ff_dtype_bytes(FF_F32), 4);
	ck_assert_int_eq(ff_dtype_bytes(FF_I32), 4);
	ck_assert_int_eq(ff_dtype_bytes(FF_BF16), 2);
	ck_assert_int_eq(ff_dtype_bytes(FF_U8), 1);
	ck_assert_str_eq(ff_dtype_name(FF_BF16), "bfloat16");
}
END_TEST

static double draw(struct ff_random *r, enum ff_dtype t)
{
	double x = (double)ff_random_below(r, 2000001) - 1000000;

	return t == FF_BF16 ? (double)ff_bf16_to_f32(ff_bf16_from_f32((float)(x / 999))) : x;
}

/* Against float64: sums of bfloat16 are rounded once, all else is exact. */
START_TEST(sums_and_maxima)
{
	struct ff_random r = {.seed = ff_test_seed(41)};

	for (int op = FF_REDUCE_SUM; op <= FF_REDUCE_MAX; op++)
		for (int t = 0; t < FF_DTYPE_COUNT; t++)
			for (int k = 0; k < 3000 && t != FF_U8; k++) {
				enum ff_dtype type = (enum ff_dtype)t;
				double x = draw(&r, type), y = draw(&r, type), got;
				double want = op == FF_REDUCE_SUM ? x + y : fmax(x, y);
				uint32_t a, b;

				typed_put(type, &a, 0, x);
				typed_put(type, &b, 0, y);
				ff_reduce((enum ff_reduce)op, type, 1, &a, &b);
				got = typed_get(type, &b, 0);
				ck_assert_double_le(fabs(got - want),
						t == FF_BF16 && op == FF_REDUCE_SUM
								? fabs(want) * BF16_HALF_ULP
								: 0);
			}
}
END_TEST

START_TEST(nothing_changes_nothing)
{
	struct ff_random r = {.seed = ff_test_seed(42)};

	for (int op = FF_REDUCE_SUM; op <= FF_REDUCE_MAX; op++)
		for (int t = 0; t < FF_DTYPE_COUNT; t++) {
			enum ff_dtype type = (enum ff_dtype)t;
			uint32_t none = ff_reduce_identity((enum ff_reduce)op, type), x;
			double want = draw(&r, type);

			ck_assert_int_eq(ff_reduce_takes((enum ff_reduce)op, type), t != FF_U8);
			if (t == FF_U8)
				continue;
			typed_put(type, &x, 0, want);
			ff_reduce((enum ff_reduce)op, type, 1, &none, &x);
			ck_assert_double_eq(typed_get(type, &x, 0), want);
			ff_reduce((enum ff_reduce)op, type, 1, &x, &none);
			ck_assert_double_eq(typed_get(type, &none, 0), want);
		}
	ck_assert(ff_reduce_takes(FF_REDUCE_LOG_SUM_EXP, FF_F32));
	ck_assert(!ff_reduce_takes(FF_REDUCE_LOG_SUM_EXP, FF_BF16));
}
END_TEST

/* Of numbers in any groups, in any order: their count, mean, squares and sum. */
START_TEST(moments)
{
	struct ff_random r = {.seed = ff_test_seed(43)};

	for (int round = 0; round < 200; round++) {
		double offset = ff_random_below(&r, 4) * 300.0, mean = 0, squares = 0, x[64];
		uint32_t n = 1 + ff_random_below(&r, 64);
		float all[4] = {0, 0, 0, 0};

		for (uint32_t i = 0; i < n; i++) {
			x[i] = (double)(float)(offset + ff_random_unit(&r));
			mean += x[i] / n;
		}
		for (uint32_t i = 0; i < n; i++)
			squares += (x[i] - mean) * (x[i] - mean);
		for (uint32_t at = 0; at < n;) {
			uint32_t end = at + 1 + ff_random_below(&r, n - at);
			float group[4] = {0, 0, 0, 1}, one[4] = {1, 0, 0, 0}, back[4];

			for (; at < end; at++) {
				one[1] = (float)x[at];
				ff_reduce(FF_REDUCE_MOMENTS, FF_F32, 4, one, group);
			}
			memcpy(back, group, sizeof(back));
			ff_reduce(FF_REDUCE_MOMENTS, FF_F32, 4, all, back);
			ff_reduce(FF_REDUCE_MOMENTS, FF_F32, 4, group, all);
			ck_assert_mem_eq(all, back, sizeof(all));
		}
		ck_assert_float_eq(all[0], (float)n);
		ck_assert_double_lt(fabs((double)all[1] - mean), 1e-6 * (1 + mean));
		ck_assert_double_lt(fabs((double)all[2] - squares), 1e-3 * (squares + 1e-3));
	}
	ck_assert_uint_eq(ff_reduce_identity(FF_REDUCE_MOMENTS, FF_F32), 0);
	ck_assert(!ff_reduce_takes(FF_REDUCE_MOMENTS, FF_BF16));
}
END_TEST

/* Of numbers in any groups, in any order: the largest, and how many are. */
START_TEST(ties)
{
	struct ff_random r = {.seed = ff_test_seed(44)};

	for (int round = 0; round < 1000; round++) {
		uint32_t n = 1 + ff_random_below(&r, 40);
		float x[40], most = -INFINITY, equal = 0, all[2] = {-INFINITY, -INFINITY};

		for (uint32_t i = 0; i < n; i++) {
			x[i] = ff_random_below(&r, 4) ? (float)ff_random_below(&r, 5) : -INFINITY;
			most = fmaxf(most, x[i]);
		}
		for (uint32_t i = 0; i < n; i++)
			equal += x[i] == most;
		for (uint32_t at = 0; at < n;) {
			uint32_t end = at + 1 + ff_random_below(&r, n - at);
			float group[2] = {-INFINITY, -INFINITY}, one[2] = {0, 1}, back[2];

			for (; at < end; at++) {
				one[0] = x[at];
				ff_reduce(FF_REDUCE_TIES, FF_F32, 2, one, group);
			}
			memcpy(back, group, sizeof(back));
			ff_reduce(FF_REDUCE_TIES, FF_F32, 2, all, back);
			ff_reduce(FF_REDUCE_TIES, FF_F32, 2, group, all);
			ck_assert_mem_eq(all, back, sizeof(all));
		}
		ck_assert(all[0] == most && all[1] == equal);
	}
	ck_assert_uint_eq(ff_reduce_identity(FF_REDUCE_TIES, FF_F32), 0xff800000);
	ck_assert(!ff_reduce_takes(FF_REDUCE_TIES, FF_BF16));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("dtype");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, bfloat16_round_trip);
	tcase_add_test(c, bfloat16_nearest);
	tcase_add_test(c, sizes);
	tcase_add_test(c, sums_and_maxima);
	tcase_add_test(c, nothing_changes_nothing);
	tcase_add_test(c, moments);
	tcase_add_test(c, ties);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
