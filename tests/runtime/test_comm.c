/* Communication among devices of one process.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include "comm_cases.h"

#define CASES 300

static void each(void (*test)(struct ff_comm *c, struct ff_random *r), uint64_t seed)
{
	struct ff_random r = {ff_test_seed(seed), 0, 0};

	for (int i = 0; i < CASES; i++) {
		struct ff_error err;
		struct ff_comm *c;

		ck_assert_int_eq(ff_comm_local(2 + ff_random_below(&r, 7), &c, &err), FF_OK);
		test(c, &r);
		ck_assert_int_eq(c->barrier(c, &err), FF_OK);
		c->destroy(c);
	}
}

START_TEST(all_reduce)
{
	each(comm_all_reduce, 1);
}
END_TEST

START_TEST(all_gather)
{
	each(comm_all_gather, 2);
}
END_TEST

START_TEST(reduce_scatter)
{
	each(comm_reduce_scatter, 3);
}
END_TEST

START_TEST(exchange)
{
	each(comm_exchange, 4);
}
END_TEST

START_TEST(hosts)
{
	struct ff_error err;
	struct ff_comm *c;

	ck_assert_int_eq(ff_comm_local(3, &c, &err), FF_OK);
	ck_assert(c->hosts(c, 0) && c->hosts(c, 2) && !c->hosts(c, 3));
	ck_assert_uint_eq(c->n_ranks, 1);
	ck_assert_uint_eq(c->rank, 0);
	c->destroy(c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("comm");
	TCase *t = tcase_create("local");

	tcase_add_test(t, all_reduce);
	tcase_add_test(t, all_gather);
	tcase_add_test(t, reduce_scatter);
	tcase_add_test(t, exchange);
	tcase_add_test(t, hosts);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
