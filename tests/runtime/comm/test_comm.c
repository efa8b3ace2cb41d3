/* Communication among devices of one process.  SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include "comm/post.h"
#include "comm_cases.h"
#include "ff/backend.h"

#define CASES 300

struct cases {
	struct ff_random r;
	comm_case test;
	int64_t most; /* bytes on the way at once; 0: as preset */
	uint32_t bounced;
};

/* What the arrays' first elements need, each on 64 bytes. */
#define LEAST (64 * 2 * 8 * 8)

static void one(void *ctx, const struct ff_channel *on)
{
	struct cases *k = ctx;
	struct ff_error err;
	struct ff_comm *c;

	ck_assert_int_eq(ff_comm_local(2 + ff_random_below(&k->r, 7), &c, &err), FF_OK);
	if (k->most)
		ff_host_comm_limit(c, k->most);
	for (uint32_t n = 1 + ff_random_below(&k->r, 3); n-- > 0;)
		k->test(c, on, &k->r);
	k->bounced += ff_host_comm_bounced(c) > 0;
	if (k->most)
		ck_assert_uint_le(ff_host_comm_bounced(c), (size_t)k->most + LEAST);
	ck_assert_int_eq(c->barrier(c, &err), FF_OK);
	c->destroy(c);
}

static void each(comm_case test, uint64_t seed)
{
	struct cases k = {{ff_test_seed(seed), 0, 0}, test, 0, 0};
	struct ff_random r = k.r;

	r.stream = 1;
	comm_each(&r, (int)ff_test_rounds(CASES), one, &k);
}

static void each_round(comm_case test, int64_t most, uint64_t stream, int n)
{
	struct cases k = {{ff_test_seed(6), stream, 0}, test, most, 0};
	struct ff_random r = k.r;

	r.stream = 1;
	comm_each(&r, n, one, &k);
	ck_assert_uint_gt(k.bounced, 0);
}

/* Whatever is posted goes by way of little host memory, in rounds, and comes out the same. */
START_TEST(rounds)
{
	const comm_case tests[] = {comm_all_reduce, comm_all_gather, comm_reduce_scatter,
			comm_exchange, comm_posted};
	const int64_t most[] = {1, 100, 700, 4000};

	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		for (size_t m = 0; m < sizeof(most) / sizeof(*most); m++)
			each_round(tests[i], most[m], i, CASES / 3);
	each_round(comm_server, 20000, 0, CASES / 10);
}
END_TEST

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

START_TEST(posted)
{
	each(comm_posted, 5);
}
END_TEST

static void refuse(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	(void)r;
	comm_refused(c, on);
}

START_TEST(refused)
{
	each(refuse, 6);
}
END_TEST

/* A stream that has failed skips what is posted; nothing of that is lost. */
static int break_down(void *arg, struct ff_error *err)
{
	(void)arg;
	return ff_fail(err, FF_E_RUN, "on purpose");
}

static void skip(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r)
{
	struct ff_error err;
	float v = 1, w = 0;
	struct ff_parcel parcel = {0, 1, &v, &w, 1};

	(void)r;
	on->backend->stream.call(on->stream, break_down, NULL, &err);
	for (int i = 0; i < 3; i++)
		c->exchange(c, on, FF_F32, &parcel, 1, &err);
	on->backend->stream.drain(on->stream, &err);
}

START_TEST(skipped)
{
	each(skip, 7);
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

	tcase_set_timeout(t, 0);
	tcase_add_test(t, rounds);
	tcase_add_test(t, all_reduce);
	tcase_add_test(t, all_gather);
	tcase_add_test(t, reduce_scatter);
	tcase_add_test(t, exchange);
	tcase_add_test(t, posted);
	tcase_add_test(t, refused);
	tcase_add_test(t, skipped);
	tcase_add_test(t, hosts);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
