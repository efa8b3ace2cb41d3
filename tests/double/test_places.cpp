/* Where elements of strided loops are, by multiplication and by division: runtime/cuda's own
 * code, on the host.  SPDX-License-Identifier: Apache-2.0 */
#include <random>

#include "check_main.h"
#include "cuda/core/places.cuh"

static void plain(const struct ff_strided &l, int64_t i, int64_t *source, int64_t *sink)
{
	*source = *sink = 0;
	for (uint32_t axis = l.rank; axis-- > 0; i /= l.n[axis]) {
		*source += i % l.n[axis] * l.source[axis];
		*sink += i % l.n[axis] * l.sink[axis];
	}
}

static void check_at(const struct ff_strided &l, const struct places &p, int64_t i)
{
	int64_t from, to, source, sink;

	plain(l, i, &source, &sink);
	places_at(p, i, &from, &to);
	ck_assert_msg(from == source && to == sink, "element %lld of %lld", (long long)i,
			(long long)ff_strided_volume(&l));
	loops_at(l, i, &from, &to);
	ck_assert_msg(from == source && to == sink, "element %lld divided", (long long)i);
	if (l.rank >= 2 && p.narrow) {
		int64_t row, column, last = l.n[l.rank - 1];

		tile_at(p, uint32_t(i), &row, &column, &from, &to);
		ck_assert_msg(from == source && to == sink && column == i % last &&
						row == i / last % l.n[l.rank - 2],
				"tile %lld", (long long)i);
	}
}

static void check(const struct ff_strided &l, std::mt19937_64 &r)
{
	const struct places p = places_of(&l);
	int64_t n = ff_strided_volume(&l);

	ck_assert_int_eq(p.narrow, n <= int64_t(1) << 31);
	for (int64_t i = 0; i < 64 && i < n; i++) {
		check_at(l, p, i);
		check_at(l, p, n - 1 - i);
		check_at(l, p, int64_t(r() % uint64_t(n)));
	}
}

START_TEST(random_loops)
{
	std::mt19937_64 r(ff_test_seed(70));
	uint32_t wide = 0, narrow = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		struct ff_strided l = {1 + uint32_t(r() % FF_COPY_RANK), 0, {0}, {0}, {0}};
		int64_t n = 1;

		for (uint32_t axis = 0; axis < l.rank; axis++) {
			l.n[axis] = 1 + int64_t(r() % (uint64_t(1) << r() % 12));
			l.source[axis] = int64_t(r() % 100000);
			l.sink[axis] = int64_t(r() % 100000);
			n = n >> 40 ? n : n * l.n[axis];
		}
		if (n >> 40)
			continue;
		check(l, r);
		*(n > int64_t(1) << 31 ? &wide : &narrow) += 1;
	}
	ck_assert_uint_gt(wide, 100);
	ck_assert_uint_gt(narrow, 1000);
}
END_TEST

/* Around the number of elements up to which 32 bits do. */
START_TEST(largest)
{
	static const int64_t extents[][2] = {{1, 0x7fffffff}, {1, 0x80000000}, {1, 0x80000001},
			{0x80000000, 1}, {2, 0x40000000}, {3, 0x2aaaaaaa}, {0x8000, 0x10000},
			{0x8000, 0x10001}, {46341, 46340}, {46341, 46341}, {0x100000000, 3}};
	std::mt19937_64 r(1);

	for (const auto &n : extents)
		check({2, 0, {n[0], n[1]}, {n[1], 1}, {1, n[0]}}, r);
}
END_TEST

int main()
{
	Suite *s = suite_create("places");
	TCase *t = tcase_create("places");

	tcase_add_test(t, random_loops);
	tcase_add_test(t, largest);
	suite_add_tcase(s, t);
	return ff_check_main(s);
}
