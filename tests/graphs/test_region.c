/* Tests of regions against brute force.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/philox.h"
#include "ff/region.h"

#define ROUNDS 4000

/* A box with sides of 0 or 1 to 4 elements inside `within`. */
static struct ff_region draw_inside(struct ff_random *r, const struct ff_region *within, bool empty)
{
	struct ff_region box = {.rank = within->rank};

	for (uint32_t i = 0; i < box.rank; i++) {
		uint32_t size = (uint32_t)ff_region_size(within, i);
		uint32_t least = empty ? 0 : 1, n = least + ff_random_below(r, size + 1 - least);

		box.lo[i] = within->lo[i] + (int32_t)ff_random_below(r, size - n + 1);
		box.hi[i] = box.lo[i] + (int32_t)n;
	}
	return box;
}

static struct ff_region draw(struct ff_random *r, uint32_t rank)
{
	struct ff_region box = {.rank = rank};

	for (uint32_t i = 0; i < rank; i++) {
		box.lo[i] = (int32_t)ff_random_below(r, 5) - 2;
		box.hi[i] = box.lo[i] + 1 + (int32_t)ff_random_below(r, rank > 4 ? 3 : 4);
	}
	return box;
}

static bool inside(const struct ff_region *r, const int32_t *at)
{
	for (uint32_t i = 0; i < r->rank; i++)
		if (at[i] < r->lo[i] || at[i] >= r->hi[i])
			return false;
	return true;
}

/* Any order of the axes. */
static void draw_order(struct ff_random *r, uint32_t rank, uint8_t *order)
{
	for (uint32_t i = 0; i < rank; i++) {
		uint32_t k = ff_random_below(r, i + 1);

		order[i] = order[k];
		order[k] = (uint8_t)i;
	}
}

/* Walks the positions of `whole` as they lie in memory. */
static bool next_stored(const uint8_t *order, const struct ff_region *whole, int32_t *at)
{
	for (uint32_t i = whole->rank; i-- > 0;) {
		uint32_t axis = order[i];

		if (++at[axis] < whole->hi[axis])
			return true;
		at[axis] = whole->lo[axis];
	}
	return false;
}

START_TEST(orders)
{
	static const uint8_t images[4] = {0, 2, 3, 1};

	ck_assert_mem_eq(ff_order_image, images, 4);
	for (uint32_t i = 0; i < FF_MAX_RANK; i++)
		ck_assert_uint_eq(ff_order_plain[i], i);
	/* either is an order of all axes, whatever the rank that uses it */
	for (uint32_t i = 4; i < FF_MAX_RANK; i++)
		ck_assert_uint_eq(ff_order_image[i], i);
}
END_TEST

START_TEST(volume_and_intersection_count_elements)
{
	struct ff_random r = {.seed = ff_test_seed(31)};

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t rank = ff_random_below(&r, FF_MAX_RANK + 1);
		struct ff_region whole = draw(&r, rank), both;
		struct ff_region a = draw_inside(&r, &whole, true);
		struct ff_region b = draw_inside(&r, &whole, true);
		int64_t n_a = 0, n_both = 0, n_inter = 0;
		int64_t volume = ff_region_intersect(&a, &b, &both);
		int32_t at[FF_MAX_RANK];

		memcpy(at, whole.lo, sizeof(at));
		do {
			n_a += inside(&a, at);
			n_both += inside(&a, at) && inside(&b, at);
			n_inter += inside(&both, at);
			if (volume)
				ck_assert(inside(&both, at) == (inside(&a, at) && inside(&b, at)));
		} while (next_stored(ff_order_plain, &whole, at));
		ck_assert_int_eq(ff_region_volume(&a), n_a);
		ck_assert_int_eq(volume, n_both);
		ck_assert_int_eq(ff_region_volume(&both), n_inter);
		ck_assert_int_eq(n_inter, n_both);
		ck_assert_uint_eq(both.rank, rank);
	}
}
END_TEST

START_TEST(offset_counts_as_memory_lies)
{
	struct ff_random r = {.seed = ff_test_seed(32)};

	for (int round = 0; round < ROUNDS / 4; round++) {
		struct ff_region whole = draw(&r, ff_random_below(&r, FF_MAX_RANK + 1));
		int64_t offset = 0, stride[FF_MAX_RANK];
		int32_t at[FF_MAX_RANK];
		uint8_t order[FF_MAX_RANK];

		draw_order(&r, whole.rank, order);
		ff_region_strides(order, &whole, stride);
		memcpy(at, whole.lo, sizeof(at));
		do {
			int64_t stepped = 0;

			for (uint32_t i = 0; i < whole.rank; i++)
				stepped += stride[i] * (at[i] - whole.lo[i]);
			ck_assert_int_eq(stepped, offset);
			ck_assert_int_eq(ff_region_offset(order, &whole, at), offset++);
		} while (next_stored(order, &whole, at));
		ck_assert_int_eq(offset, ff_region_volume(&whole));
	}
}
END_TEST

START_TEST(run_is_a_run)
{
	struct ff_random r = {.seed = ff_test_seed(33)};
	int runs = 0, scattered = 0;

	for (int round = 0; round < ROUNDS; round++) {
		struct ff_region whole = draw(&r, ff_random_below(&r, FF_MAX_RANK + 1));
		struct ff_region part = draw_inside(&r, &whole, false);
		int64_t first = -1, last = -1, n = 0, offset = 0, start = -7;
		int32_t at[FF_MAX_RANK];
		uint8_t order[FF_MAX_RANK];
		bool run;

		draw_order(&r, whole.rank, order);
		memcpy(at, whole.lo, sizeof(at));
		do {
			if (inside(&part, at)) {
				first = first < 0 ? offset : first;
				last = offset;
				n++;
			}
			offset++;
		} while (next_stored(order, &whole, at));
		run = last - first + 1 == n;
		ck_assert(ff_region_is_run(order, &whole, &part, &start) == run);
		ck_assert_int_eq(start, run ? first : -7);
		runs += run;
		scattered += !run;
	}
	ck_assert_int_gt(runs, ROUNDS / 20);
	ck_assert_int_gt(scattered, ROUNDS / 20);
}
END_TEST

START_TEST(empty_part_is_a_run)
{
	struct ff_region whole = {2, {0, 0}, {4, 4}}, part = {2, {1, 3}, {3, 3}};
	int64_t start = -1;

	ck_assert(ff_region_is_run(ff_order_plain, &whole, &part, &start));
	ck_assert_int_eq(start, 0);
}
END_TEST

START_TEST(offsets_need_64_bits)
{
	struct ff_region whole = {3, {0, 0, 0}, {100000, 100000, 7}};
	const int32_t at[3] = {99999, 99999, 6};

	ck_assert_int_eq(ff_region_offset(ff_order_plain, &whole, at), INT64_C(70000000000) - 1);
	ck_assert_int_eq(ff_region_volume(&whole), INT64_C(70000000000));
}
END_TEST

START_TEST(parts_tile_an_axis)
{
	for (int32_t extent = 1; extent < 60; extent++)
		for (uint32_t n = 1; n <= (uint32_t)extent; n++) {
			int32_t previous;

			ck_assert_int_eq(ff_part_start(extent, n, 0), 0);
			ck_assert_int_eq(ff_part_start(extent, n, n), extent);
			previous = extent;
			for (uint32_t i = 0; i < n; i++) {
				int32_t size = ff_part_start(extent, n, i + 1) -
					       ff_part_start(extent, n, i);

				ck_assert_int_ge(size, extent / (int32_t)n);
				ck_assert_int_le(size, extent / (int32_t)n + 1);
				ck_assert_int_le(size, previous);
				previous = size;
			}
		}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("region");
	TCase *c = tcase_create("region");

	tcase_add_test(c, orders);
	tcase_add_test(c, volume_and_intersection_count_elements);
	tcase_add_test(c, offset_counts_as_memory_lies);
	tcase_add_test(c, run_is_a_run);
	tcase_add_test(c, empty_part_is_a_run);
	tcase_add_test(c, offsets_need_64_bits);
	tcase_add_test(c, parts_tile_an_axis);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
