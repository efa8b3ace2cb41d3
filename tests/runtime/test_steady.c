/* Quiet and disturbed samples, told apart by times that are made up.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "prof/steady.h"

#define WANT 10
#define LEAST 5

/* A machine on which samples take 100 and 110 us in turns (104 where it is even), and ten times
 * that where `busy` is. */
struct machine {
	bool even;
	bool busy[FF_STEADY_ROUNDS * WANT + 1];
	uint32_t n, rounds, end_after;
	bool end;
};

static void take_round(struct machine *m, struct ff_steady *s)
{
	ck_assert_uint_le(s->n + s->more, FF_STEADY_ROUNDS * WANT);
	for (uint32_t i = 0; i < s->more; i++, m->n++) {
		struct ff_sample *ret = &s->sample[s->n + i];
		bool busy = m->busy[m->n];

		ret->us = (m->n % 2 ? m->even ? 104 : 110 : 100) * (busy ? 10 : 1);
		ret->disturbance = busy ? 2 + m->n : 0.5;
	}
	ff_steady_add(s);
	m->end = ++m->rounds == m->end_after;
}

/* Until there are enough, or somebody ends it. */
static struct ff_taken take(struct machine *m, struct ff_sample *sample)
{
	struct ff_steady s;
	struct ff_taken t;

	ff_steady_start(&s, WANT, LEAST, sample);
	do
		take_round(m, &s);
	while (s.more && !m->end);
	t = ff_steady_end(&s);
	ck_assert_uint_eq(t.taken, m->n);
	return t;
}

START_TEST(quiet_samples_are_taken_once)
{
	struct ff_sample s[FF_STEADY_ROUNDS * WANT];
	struct machine m = {.end_after = 0};
	struct ff_taken t = take(&m, s);

	ck_assert_uint_eq(m.rounds, 2);
	ck_assert_uint_eq(t.taken, WANT);
	ck_assert_uint_eq(t.samples, WANT);
	ck_assert_uint_eq(t.disturbed + t.met, 0);
}
END_TEST

START_TEST(few_that_agree_are_enough)
{
	struct ff_sample s[FF_STEADY_ROUNDS * WANT];
	struct machine m = {.even = true};
	struct ff_taken t = take(&m, s);

	ck_assert_uint_eq(m.rounds, 1);
	ck_assert_uint_eq(t.taken, LEAST);
	ck_assert_uint_eq(t.samples, LEAST);
	ck_assert_uint_eq(t.disturbed + t.met, 0);
	/* disturbed ones may agree with each other */
	m = (struct machine){.even = true, .busy = {true, true, true, true, true}};
	t = take(&m, s);
	ck_assert_uint_eq(t.samples, WANT);
	ck_assert_uint_eq(t.met, LEAST);
	for (uint32_t i = 0; i < t.samples; i++)
		ck_assert(s[i].us == 100 || s[i].us == 104);
}
END_TEST

START_TEST(disturbed_ones_are_repeated)
{
	struct ff_sample s[FF_STEADY_ROUNDS * WANT];
	struct machine m = {.busy = {[2] = true, [3] = true, [9] = true, [11] = true}};
	struct ff_taken t = take(&m, s);

	ck_assert_uint_eq(m.rounds, 3);
	ck_assert_uint_eq(t.taken, WANT + 3 + 1);
	ck_assert_uint_eq(t.met, 4);
	ck_assert_uint_eq(t.samples, WANT);
	ck_assert_uint_eq(t.disturbed, 0);
	for (uint32_t i = 0; i < t.samples; i++)
		ck_assert(s[i].us == 100 || s[i].us == 110);
}
END_TEST

START_TEST(few_quiet_ones_are_enough)
{
	struct ff_sample s[FF_STEADY_ROUNDS * WANT];
	struct machine m = {.end_after = 0};
	struct ff_taken t;

	for (int i = 0; i < FF_STEADY_ROUNDS * WANT; i++)
		m.busy[i] = i % 5; /* a fifth is quiet */
	t = take(&m, s);
	ck_assert_uint_eq(t.taken, FF_STEADY_ROUNDS * WANT);
	ck_assert_uint_ge(t.samples, LEAST);
	ck_assert_uint_lt(t.samples, WANT);
	ck_assert_uint_eq(t.disturbed, 0);
	for (uint32_t i = 0; i < t.samples; i++)
		ck_assert(s[i].us == 100 || s[i].us == 110);
}
END_TEST

/* It must come to an end, keep the least disturbed and say that it did. */
START_TEST(always_busy)
{
	struct ff_sample s[FF_STEADY_ROUNDS * WANT];
	struct machine m = {.end_after = 0};
	struct ff_taken t;

	for (int i = 0; i < FF_STEADY_ROUNDS * WANT; i++)
		m.busy[i] = i != 4;
	t = take(&m, s);
	ck_assert_uint_eq(t.taken, FF_STEADY_ROUNDS * WANT);
	ck_assert_uint_eq(t.samples, LEAST);
	ck_assert_uint_eq(t.disturbed, LEAST - 1);
	ck_assert_uint_eq(t.met, t.taken - 1);
	ck_assert_double_eq(s[0].us, 100);
	ck_assert_double_eq(s[1].disturbance, 2);
	ck_assert_double_eq(s[4].disturbance, 5);
}
END_TEST

START_TEST(the_user_may_end_it)
{
	struct ff_sample s[FF_STEADY_ROUNDS * WANT];
	struct machine m = {.end_after = 1, .busy = {true, true}};
	struct ff_taken t = take(&m, s);

	ck_assert_uint_eq(m.rounds, 1);
	ck_assert_uint_eq(t.samples, LEAST);
	ck_assert_uint_eq(t.disturbed, LEAST - 3);
	m = (struct machine){.end = true, .end_after = 1};
	ck_assert_uint_eq(take(&m, s).samples, LEAST); /* what was begun is finished */
}
END_TEST

START_TEST(the_baseline_is_quiet_and_recent)
{
	struct ff_baseline b = {.n = 0};

	ck_assert_double_eq(ff_baseline_quiet(&b), 0);
	for (int i = 0; i < 1000; i++)
		ff_baseline_add(&b, i % 3 ? 3000 : 500); /* two of three times something ran */
	ck_assert_double_eq(ff_baseline_quiet(&b), 500);
	ff_baseline_add(&b, 1); /* a clock that went wrong once */
	ck_assert_double_eq(ff_baseline_quiet(&b), 500);
	for (int i = 0; i < FF_BASELINE; i++)
		ff_baseline_add(&b, 600); /* warmer now */
	ck_assert_double_eq(ff_baseline_quiet(&b), 600);
}
END_TEST

START_TEST(signs)
{
	static const struct {
		struct ff_signs s;
		bool disturbed;
	} cases[] = {
			{{1000, 0, 500, 5000}, false},
			{{1000, 0, 550, 6000}, false},     /* what machines do by themselves */
			{{1000, 2, 500, 5000}, false},     /* a tick */
			{{1000, 400, 500, 5000}, true},    /* another program had the processor */
			{{100000, 400, 500, 5000}, false}, /* for no time that matters here */
			{{1000, 0, 3500, 5000}, true},
			{{1000, 0, 800, 5000}, true},
			{{1000, 0, 500, 9000}, true}, /* another program had the memory */
			{{0.5, 0, 500, 5000}, false},
			{{0.5, 4, 500, 5000}, true},
			{{1000, 0, 0, 0}, false},
	};
	struct ff_signs tiny = {1000, 0, 500, 40};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ck_assert_msg((ff_disturbance(&cases[i].s, 500, 5000) > 1) == cases[i].disturbed,
				"case %u: %g", i, ff_disturbance(&cases[i].s, 500, 5000));
	/* so little memory that its time means nothing; no reference yet */
	ck_assert_double_le(ff_disturbance(&tiny, 500, 10), 1);
	ck_assert_double_le(ff_disturbance(&cases[5].s, 0, 0), 1);
}
END_TEST

START_TEST(the_middle_of_the_quiet_ones_counts)
{
	static const struct {
		struct ff_sample figure[5];
		uint32_t n, middle;
	} cases[] = {
			{{{7, 0}}, 1, 0}, {{{7, 0}, {5, 0}}, 2, 1},       /* the faster */
			{{{7, 0}, {5, 0}, {6, 0}}, 3, 2},                 /* not the fastest */
			{{{7, 0}, {5, 0}, {6, 0}, {90, 0}}, 4, 2},        /* nor a slow minute */
			{{{5, 0.4}, {7, 0}, {6, 0.2}, {9, 0}}, 4, 1},     /* quiet, if not faster */
			{{{8, 0.4}, {5, 0.2}, {6, 0.2}, {7, 0.2}}, 4, 2}, /* none is quiet */
			{{{5, 0}, {5, 0}, {5, 0}, {5, 0}, {4, 0}}, 5, 1}, /* equal ones */
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ck_assert_uint_eq(ff_steady_middle(cases[i].figure, cases[i].n), cases[i].middle);
}
END_TEST

START_TEST(the_slowest_rank)
{
	static const double even[] = {100, 101, 99}, uneven[] = {100, 150, 50, 180},
			    none[] = {0, 0};
	double excess;

	ck_assert_uint_eq(ff_steady_slowest(even, 3, &excess), 1);
	ck_assert_double_eq_tol(excess, 0.01, 1e-12);
	ck_assert_uint_eq(ff_steady_slowest(uneven, 4, &excess), 3);
	ck_assert_double_eq_tol(excess, 0.5, 1e-12);
	ff_steady_slowest(even, 1, &excess);
	ck_assert_double_eq(excess, 0);
	ff_steady_slowest(none, 2, &excess);
	ck_assert_double_eq(excess, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("steady");
	TCase *t = tcase_create("samples");

	tcase_add_test(t, quiet_samples_are_taken_once);
	tcase_add_test(t, few_that_agree_are_enough);
	tcase_add_test(t, disturbed_ones_are_repeated);
	tcase_add_test(t, few_quiet_ones_are_enough);
	tcase_add_test(t, always_busy);
	tcase_add_test(t, the_user_may_end_it);
	tcase_add_test(t, the_baseline_is_quiet_and_recent);
	tcase_add_test(t, signs);
	tcase_add_test(t, the_middle_of_the_quiet_ones_counts);
	tcase_add_test(t, the_slowest_rank);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
