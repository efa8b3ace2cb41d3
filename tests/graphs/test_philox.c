/* Tests of the random numbers.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>

#include "check_main.h"
#include "ff/philox.h"

/* Known answers of Random123 (kat_vectors, "philox4x32 10"). */
START_TEST(known_answers)
{
	static const struct {
		uint64_t key, hi, lo;
		uint32_t out[4];
	} kat[] = {
			{0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
			{UINT64_MAX, UINT64_MAX, UINT64_MAX,
					{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
			{0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88,
					{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};

	for (size_t i = 0; i < sizeof(kat) / sizeof(*kat); i++) {
		uint32_t out[4];

		ff_philox(kat[i].key, kat[i].hi, kat[i].lo, out);
		for (int k = 0; k < 4; k++)
			ck_assert_uint_eq(out[k], kat[i].out[k]);
	}
}
END_TEST

START_TEST(element_is_a_lane_of_its_counter)
{
	uint32_t out[4];
	const uint64_t seed = 0x1122334455667788, stream = ff_philox_stream(3, 9);

	ck_assert_uint_eq(stream, UINT64_C(0x0000000300000009));
	for (uint64_t index = 0; index < 64; index++) {
		ff_philox(seed, stream, index / 4, out);
		ck_assert_uint_eq(ff_philox_at(seed, stream, index), out[index % 4]);
	}
	ff_philox(seed, stream, UINT64_MAX / 4, out);
	ck_assert_uint_eq(ff_philox_at(seed, stream, UINT64_MAX), out[3]);
}
END_TEST

/* Any run of elements, from any offset, has the values of the elements. */
START_TEST(uniform_agrees_with_at)
{
	struct ff_random r = {.seed = ff_test_seed(5)};
	float out[300];

	for (int round = 0; round < 2000; round++) {
		uint64_t seed = ff_random_u32(&r), stream = ff_random_u32(&r);
		uint64_t index = (uint64_t)ff_random_u32(&r) << ff_random_below(&r, 30);
		size_t n;

		index += ff_random_below(&r, 8);
		n = ff_random_below(&r, round % 4 ? 40 : 300);
		out[n] = -1;
		ff_philox_uniform(seed, stream, index, n, out);
		ck_assert(out[n] == -1);
		for (size_t i = 0; i < n; i++) {
			uint32_t word = ff_philox_at(seed, stream, index + i);

			ck_assert((double)out[i] == (word >> 8) / 16777216.0);
			ck_assert(out[i] >= 0 && out[i] < 1);
		}
	}
}
END_TEST

/* Mean, variance and lag-1 correlation of 2^18 draws, within 5 deviations;
 * chi-squared over 64 cells within 5 deviations of its 63 degrees. */
START_TEST(uniform_looks_uniform)
{
	enum { N = 1 << 18, CELLS = 64 };
	static float x[N];
	uint32_t cell[CELLS] = {0};
	double sum = 0, squares = 0, lag = 0, chi = 0;

	ff_philox_uniform(ff_test_seed(7), ff_philox_stream(1, 2), 0, N, x);
	for (int i = 0; i < N; i++) {
		double d = x[i] - 0.5;

		sum += d;
		squares += d * d;
		lag += i ? d * (x[i - 1] - 0.5) : 0;
		cell[(int)(x[i] * CELLS)]++;
	}
	for (int i = 0; i < CELLS; i++) {
		double d = cell[i] - (double)N / CELLS;

		chi += d * d / ((double)N / CELLS);
	}
	ck_assert(fabs(sum / N) < 5 * sqrt(1.0 / 12 / N));
	ck_assert(fabs(squares / N - 1.0 / 12) < 5 * sqrt(1.0 / 180 / N));
	ck_assert(fabs(lag / N) < 5 * (1.0 / 12) / sqrt(N));
	ck_assert(fabs(chi - 63) < 5 * sqrt(2 * 63.0));
}
END_TEST

START_TEST(streams_and_seeds_differ)
{
	int same = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		uint32_t a = ff_philox_at(1, 1, i);

		same += a == ff_philox_at(2, 1, i);
		same += a == ff_philox_at(1, 2, i);
		same += a == ff_philox_at(1, 1, i + 1);
	}
	ck_assert_int_le(same, 1);
}
END_TEST

START_TEST(sequence_is_the_stream)
{
	struct ff_random r = {.seed = 8, .stream = 3, .next = 5};

	for (uint64_t i = 5; i < 50; i++)
		ck_assert_uint_eq(ff_random_u32(&r), ff_philox_at(8, 3, i));
	ck_assert_uint_eq(r.next, 50);
}
END_TEST

START_TEST(below_is_in_range_and_even)
{
	struct ff_random r = {.seed = ff_test_seed(21)};
	uint32_t low = 0;

	for (int i = 0; i < 100; i++)
		ck_assert_uint_eq(ff_random_below(&r, 1), 0);
	for (uint32_t n = 2; n < 40; n++) {
		uint32_t count[40] = {0};
		const uint32_t draws = 2000 * n;

		for (uint32_t i = 0; i < draws; i++) {
			uint32_t v = ff_random_below(&r, n);

			if (v >= n)
				ck_abort_msg("%u is not below %u", v, n);
			count[v]++;
		}
		for (uint32_t v = 0; v < n; v++) /* binomial, 6 deviations */
			ck_assert(fabs(count[v] - 2000.0) < 6 * sqrt(2000.0));
	}
	/* 3 * 2^30 does not divide 2^32: without rejection the lowest third
	 * would come up half of the time. */
	for (int i = 0; i < 30000; i++)
		low += ff_random_below(&r, 3u << 30) < 1u << 30;
	ck_assert(fabs(low - 10000.0) < 6 * sqrt(30000 * 2.0 / 9));
}
END_TEST

START_TEST(unit_has_53_bits)
{
	struct ff_random r = {.seed = ff_test_seed(22)};
	double sum = 0;
	bool fine = false;

	for (int i = 0; i < 20000; i++) {
		double u = ff_random_unit(&r);

		if (!(u >= 0 && u < 1 && u * 0x1p53 == floor(u * 0x1p53)))
			ck_abort_msg("%a is not one of the 2^53 values", u);
		fine |= u * 0x1p52 != floor(u * 0x1p52);
		sum += u;
	}
	ck_assert(fine);
	ck_assert(fabs(sum / 20000 - 0.5) < 5 * sqrt(1.0 / 12 / 20000));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("philox");
	TCase *c = tcase_create("philox");

	tcase_add_test(c, known_answers);
	tcase_add_test(c, element_is_a_lane_of_its_counter);
	tcase_add_test(c, uniform_agrees_with_at);
	tcase_add_test(c, uniform_looks_uniform);
	tcase_add_test(c, streams_and_seeds_differ);
	tcase_add_test(c, sequence_is_the_stream);
	tcase_add_test(c, below_is_in_range_and_even);
	tcase_add_test(c, unit_has_53_bits);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
