/* The order of samples: complete, another one each epoch, however many there are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <stdbool.h>
#include <stdlib.h>

#include "data/order.h"

#define MOST 2000

/* Every sample is visited once. */
static void check_complete(int64_t n, bool walked)
{
	static int64_t before[MOST];
	struct ff_order *o;
	struct ff_error err;

	ck_assert_int_eq(ff_order_create(n, 5, &o, &err), FF_OK);
	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		bool seen[MOST] = {false};
		int64_t same = 0, fixed = 0;

		for (int64_t at = 0; at < n; at++) {
			int64_t to = walked ? ff_order_walk(5, epoch, n, at)
					    : ff_order_at(o, epoch, at);

			ck_assert(to >= 0 && to < n && !seen[to]);
			seen[to] = true;
			fixed += to == at;
			same += epoch && to == before[at];
			before[at] = to;
		}
		/* one of a drawn order stays in its place, more or less */
		ck_assert(n < 50 || (fixed < 10 && same < 10));
	}
	ff_order_destroy(o);
}

START_TEST(complete)
{
	for (int64_t n = 1; n <= 70; n++)
		check_complete(n, _i);
	check_complete(MOST, _i);
	check_complete(1024, _i);
	check_complete(1025, _i);
}
END_TEST

/* Neighbours do not stay neighbours, and every place is as likely as another. */
START_TEST(mixed)
{
	uint32_t count[10] = {0}, rising = 0;
	int64_t last = 0;

	for (int64_t at = 0; at < 100000; at++) {
		int64_t to = ff_order_walk(9, 1, 100000, at);

		if (at < 10000)
			count[to / 10000]++;
		rising += to > last;
		last = to;
	}
	for (int i = 0; i < 10; i++)
		ck_assert(count[i] > 850 && count[i] < 1150);
	ck_assert(rising > 49000 && rising < 51000);
}
END_TEST

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* More than fit in a table, and in 32 bits. */
START_TEST(many)
{
	const int64_t n = INT64_C(5) << 33;
	static int64_t to[20000];
	struct ff_order *o;
	struct ff_error err;
	int64_t high = 0;

	ck_assert_int_eq(ff_order_create(n, 1, &o, &err), FF_OK);
	for (int i = 0; i < 20000; i++) {
		to[i] = ff_order_at(o, 3, n - 1 - i);
		ck_assert(to[i] >= 0 && to[i] < n);
		high += to[i] > n / 2;
	}
	ck_assert(high > 9500 && high < 10500);
	ck_assert_int_eq(ff_order_at(o, 3, n - 1), to[0]); /* before they are sorted */
	qsort(to, 20000, sizeof(*to), by_size);
	for (int i = 1; i < 20000; i++)
		ck_assert_int_ne(to[i], to[i - 1]);
	ff_order_destroy(o);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("order");
	TCase *t = tcase_create("all");

	tcase_add_loop_test(t, complete, 0, 2);
	tcase_add_test(t, mixed);
	tcase_add_test(t, many);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
