/* Clocks that are brought onto one: with offsets, drifts and messages made up; and over MPI, ranks
 * whose clocks are this machine's but shifted and stretched.  Run by mpirun; every rank checks, the
 * first one prints.  SPDX-License-Identifier: Apache-2.0 */
#include "check_ranks.h"

#include <math.h>
#include <stdlib.h>

#include "ff/clock.h"
#include "ff/philox.h"
#include "process/clocks.h"

#define ROUNDS 200
#define PINGS 20
#define DRIFT 2e-4 /* of made-up clocks; quartz has a tenth of it, NTP slews by 5e-4 at most */

/* Shows offset + us * speed when it is `us`. */
struct made_up {
	double offset, speed;
};

static double shows(const struct made_up *m, double us)
{
	return m->offset + us * m->speed;
}

static double between(struct ff_random *r, double least, double most)
{
	return least + (most - least) * ff_random_unit(r);
}

static struct made_up draw_clock(struct ff_random *r)
{
	return (struct made_up){between(r, -1e9, 1e9), 1 + between(r, -DRIFT, DRIFT)};
}

/* A ping that begins at `us`, a way of which takes up to `most`; it ends at *us. */
static struct ff_ping draw_ping(struct ff_random *r, const struct made_up *lead,
		const struct made_up *other, double most, double *us)
{
	struct ff_ping p = {.sent = shows(lead, *us)};

	p.received = shows(other, *us += between(r, 1, most));
	p.answered = shows(other, *us += between(r, 0, 2));
	p.returned = shows(lead, *us += between(r, 1, most));
	return p;
}

static struct ff_clock_reading draw_reading(struct ff_random *r, const struct made_up *lead,
		const struct made_up *other, double us)
{
	struct ff_ping p[PINGS];
	struct ff_clock_reading best;

	for (uint32_t i = 0; i < PINGS; i++)
		p[i] = draw_ping(r, lead, other, 200, &us);
	best = ff_clock_reading_best(p, PINGS);
	for (uint32_t i = 0; i < PINGS; i++) {
		double round_trip = p[i].returned - p[i].sent;

		ck_assert_double_le(best.bound_us, round_trip / 2);
		ck_assert_double_le(best.bound_us, ff_clock_reading_of(&p[i]).bound_us);
	}
	return best;
}

/* By how much a line is wrong when it is `us`. */
static double error_of(const struct ff_clock_line *l, const struct made_up *lead,
		const struct made_up *other, double us)
{
	return fabs(ff_clock_common(l, shows(other, us)) - shows(lead, us));
}

START_TEST(lines_are_within_their_bound)
{
	struct ff_random r = {.seed = ff_test_seed(71)};

	for (int round = 0; round < ROUNDS; round++) {
		struct made_up lead = draw_clock(&r), other = draw_clock(&r);
		double start = between(&r, 0, 1e10);
		double end = start + between(&r, 1e4, 3.6e9); /* up to an hour */
		struct ff_clock_line l;
		/* what clocks run apart during a ping, and rounding */
		double slack = 4 * DRIFT * 400 + 1e-4;

		l.first = draw_reading(&r, &lead, &other, start);
		l.last = draw_reading(&r, &lead, &other, end);
		for (int i = 0; i < 50; i++)
			ck_assert_double_le(
					error_of(&l, &lead, &other, between(&r, start + 1e4, end)),
					ff_clock_bound(&l) + slack);
		ck_assert_double_le(fabs(ff_clock_drift(&l) - (lead.speed / other.speed - 1)),
				2 * (ff_clock_bound(&l) + slack) / (end - start) + 1e-12);
	}
}
END_TEST

/* As wrong as it may be: one way takes all the time, or the other does. */
START_TEST(bounds_are_reached)
{
	struct ff_ping slow_there = {1000, 1540, 1550, 1050}, slow_back = {1000, 1500, 1510, 1050};
	struct ff_clock_reading a = ff_clock_reading_of(&slow_there);
	struct ff_clock_reading b = ff_clock_reading_of(&slow_back);

	/* the other clock shows 500 more */
	ck_assert_double_eq_tol(a.offset_us, -500 - 20, 1e-9);
	ck_assert_double_eq_tol(b.offset_us, -500 + 20, 1e-9);
	ck_assert_double_eq_tol(a.bound_us, 20, 1e-9);
	ck_assert_double_eq_tol(b.bound_us, 20, 1e-9);
	ck_assert_double_eq_tol(a.at_us, 1545, 1e-9);
}
END_TEST

START_TEST(one_reading_is_an_offset)
{
	struct ff_clock_reading r = {100, 7, 1};
	struct ff_clock_line l = {r, r};

	ck_assert_double_eq(ff_clock_drift(&l), 0);
	ck_assert_double_eq(ff_clock_common(&l, 250), 257);
	ck_assert_double_eq(ff_clock_bound(&l), 1);
}
END_TEST

static double read_made_up(void *ctx)
{
	return shows(ctx, ff_clock_us());
}

static void let_pass(double us)
{
	for (double start = ff_clock_us(); ff_clock_us() - start < us;)
		;
}

/* All ranks are on one machine, so what their clocks should show is known. */
START_TEST(ranks_meet)
{
	struct made_up lead = {-3e8, 1 - DRIFT}, own;
	struct ff_comm *c;
	struct ff_error err;

	ck_assert_msg(ff_comm_mpi(&c, &err) == FF_OK, "%s", err.text);
	own = c->rank ? (struct made_up){1e9 * c->rank, 1 + DRIFT * c->rank / c->n_ranks} : lead;
	for (int round = 0; round < 5; round++) {
		struct ff_clock_line l;
		double from, to;

		ck_assert_msg(ff_clocks_meet(c, read_made_up, &own, &l.first, &err) == FF_OK, "%s",
				err.text);
		let_pass(3e4);
		ck_assert_msg(ff_clocks_meet(c, read_made_up, &own, &l.last, &err) == FF_OK, "%s",
				err.text);
		ck_assert_double_lt(l.first.at_us, l.last.at_us);
		if (!c->rank)
			ck_assert_double_eq(ff_clock_bound(&l), 0);
		else
			ck_assert_double_gt(ff_clock_bound(&l), 0);
		from = (l.first.at_us - own.offset) / own.speed;
		to = (l.last.at_us - own.offset) / own.speed;
		for (int i = 0; i <= 10; i++)
			ck_assert_double_le(error_of(&l, &lead, &own, from + (to - from) * i / 10),
					ff_clock_bound(&l) * (1 + 4 * DRIFT) + 0.01);
	}
	c->destroy(c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("clocks");
	TCase *t = tcase_create("clocks");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, lines_are_within_their_bound);
	tcase_add_test(t, bounds_are_reached);
	tcase_add_test(t, one_reading_is_an_offset);
	tcase_add_test(t, ranks_meet);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_ranks(suite());
}
