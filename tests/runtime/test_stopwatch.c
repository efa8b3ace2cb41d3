/* What is timed in turns: in which order, how often, and that it finds what it had.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"

#include <string.h>

#include "ff/backends.h"
#include "ff/clock.h"
#include "prof/decay.h"
#include "prof/prof.h"
#include "prof/reference.h"
#include "prof/stopwatch.h"
#include "prof/sweep.h"

#define WORKS 3
#define LOG 400
#define HOT 4096 /* numbers */
#define PASSED ((int64_t)4 << 20)
#define LEAST 5 /* samples, as stopwatch.c has it */

/* Runs of all works, in their order. */
struct record {
	char run[LOG];
	uint32_t n;
};
struct work {
	struct record *to;
	char name;
	double us[2]; /* that it takes, in turns */
	uint32_t n;
};

static int run_work(void *arg, struct ff_error *err)
{
	struct work *w = arg;
	double end = ff_clock_us() + w->us[w->n++ % 2];

	(void)err;
	if (w->to->n + 1 < LOG)
		w->to->run[w->to->n++] = w->name;
	while (ff_clock_us() < end)
		continue;
	return FF_OK;
}

static bool go_on(void)
{
	return false;
}

static bool stop(void)
{
	return true;
}

/* One rank on the host, whose caches hold a megabyte. */
static void open_prof(struct ff_prof *p)
{
	static const struct ff_prof_options options = {.budget_s = 0};
	static double rank_us;
	struct ff_error err = {0};
	int code;

	*p = (struct ff_prof){.opt = &options, .stopped = go_on, .caches.bytes = 1 << 20};
	rank_us = 0;
	p->tally.rank_us = &rank_us;
	p->backend = ff_backend_find("cpu");
	p->states = (struct ff_prof_states){.reuse_bytes = {PASSED}, .n = 1};
	code = ff_comm_local(1, &p->comm, &err);
	if (code == FF_OK)
		code = p->backend->device.open(0, &p->dev, &err);
	if (code == FF_OK)
		code = p->backend->stream.open(p->dev, false, &p->stream, &err);
	if (code == FF_OK)
		code = ff_watch_open(&p->watch, p->backend, p->dev, p->stream, &err);
	if (code == FF_OK)
		code = ff_prof_sweep_open(p, &err);
	if (code == FF_OK)
		code = ff_prof_reference_open(p, &err);
	ck_assert_msg(code == FF_OK, "%s", err.text);
}

static void close_prof(struct ff_prof *p)
{
	ff_prof_sweep_close(p);
	ff_prof_reference_close(p);
	ff_watch_close(&p->watch);
	p->backend->stream.close(p->stream);
	p->backend->device.close(p->dev);
	p->comm->destroy(p->comm);
}

/* Works a, b and c, of which `most` samples are wanted each. */
static void set_works(struct work *w, struct ff_timed *what, struct record *to,
		const uint32_t most[WORKS])
{
	*to = (struct record){.n = 0};
	for (uint32_t i = 0; i < WORKS; i++) {
		w[i] = (struct work){to, (char)('a' + i), {30, 30}, 0};
		what[i] = (struct ff_timed){.run = run_work,
				.arg = &w[i],
				.reuse_bytes = PASSED,
				.most = most[i]};
	}
}

/* Works on an open rank, and what was measured of them. */
struct trial {
	struct ff_prof p;
	struct record log;
	struct work w[WORKS];
	struct ff_timed what[WORKS];
	struct ff_timing t[WORKS];
};

static void open_trial(struct trial *x, const uint32_t most[WORKS])
{
	open_prof(&x->p);
	set_works(x->w, x->what, &x->log, most);
}

static void time_works(struct trial *x)
{
	struct ff_error err = {0};

	ck_assert_msg(ff_prof_time_group(&x->p, x->what, WORKS, x->t, &err) == FF_OK, "%s",
			err.text);
}

START_TEST(in_turns)
{
	static const uint32_t most[WORKS] = {LEAST, LEAST, LEAST};
	struct trial x;

	open_trial(&x, most);
	time_works(&x);
	/* once to warm up, then one sample of each behind each sweep */
	ck_assert_msg(!strncmp(x.log.run, "abcabcabcabcabcabc", 18), "%s", x.log.run);
	for (uint32_t i = 0; i < WORKS; i++) {
		ck_assert_uint_eq(x.t[i].samples, LEAST);
		ck_assert_double_ge(x.t[i].p10_us, 30);
		ck_assert_double_le(x.t[i].p10_us, x.t[i].median_us);
		ck_assert_double_le(x.t[i].median_us, x.t[i].p90_us);
	}
	ck_assert_uint_ge(x.p.tally.taken, WORKS * LEAST);
	ck_assert_uint_eq(x.p.tally.taken, x.log.n - WORKS);
	ck_assert_double_ge(x.p.tally.rank_us[0], 30 * (double)(x.p.tally.taken - x.p.tally.met));
	close_prof(&x.p);
}
END_TEST

/* Who has enough is left out of the turns to come. */
START_TEST(as_often_as_wanted)
{
	static const uint32_t most[WORKS] = {LEAST, 12, LEAST};
	struct trial x;

	open_trial(&x, most);
	x.w[1].us[1] = 300; /* five that agree cannot be had */
	time_works(&x);
	/* of b alone once more, to see how long it takes */
	ck_assert_msg(!strncmp(x.log.run, "abcbabcabcabcabcabc", 19), "%s", x.log.run);
	ck_assert_msg(strstr(x.log.run, "bbbb"), "%s", x.log.run);
	ck_assert_uint_eq(x.t[0].samples, LEAST);
	ck_assert_uint_eq(x.t[2].samples, LEAST);
	ck_assert_uint_ge(x.w[1].n, 2 + 2 * LEAST); /* as many where it was slow at first */
	ck_assert_double_ge(x.t[1].p90_us, 300);
	close_prof(&x.p);
}
END_TEST

START_TEST(ends_when_asked)
{
	static const uint32_t most[WORKS] = {12, 12, 12};
	struct trial x;

	open_trial(&x, most);
	x.p.stopped = stop;
	time_works(&x);
	ck_assert(x.p.end);
	for (uint32_t i = 0; i < WORKS; i++) {
		ck_assert_uint_eq(x.t[i].samples, LEAST); /* what was begun is finished */
		ck_assert_uint_eq(x.w[i].n, 2 + LEAST);
	}
	close_prof(&x.p);
}
END_TEST

/* What is brought near keeps its values. */
START_TEST(near)
{
	static const uint32_t most[WORKS] = {LEAST, LEAST, LEAST};
	static float array[WORKS][HOT];
	struct trial x;

	open_trial(&x, most);
	for (uint32_t i = 0; i < WORKS; i++) {
		for (uint32_t k = 0; k < HOT; k++)
			array[i][k] = (float)(i * HOT + k);
		x.what[i].hot[i] = (struct ff_hot){array[i], sizeof(array[i])};
	}
	time_works(&x);
	for (uint32_t i = 0; i < WORKS; i++)
		for (uint32_t k = 0; k < HOT; k++)
			ck_assert(array[i][k] == (float)(i * HOT + k));
	close_prof(&x.p);
}
END_TEST

/* What goes by after something was written comes behind it and leaves it as it is. */
START_TEST(since)
{
	static const int64_t gone_by[] = {0, 1 << 10, PASSED};
	static float array[HOT];
	struct trial x;
	struct ff_error err = {0};

	open_trial(&x, (const uint32_t[WORKS]){LEAST, LEAST, LEAST});
	for (uint32_t i = 0; i < 3; i++) {
		const struct ff_hot hot[FF_HOT] = {{array, sizeof(array)}};
		float *from = x.p.caches.sweep[0], *to = x.p.caches.sweep[1];

		for (uint32_t k = 0; k < HOT; k++)
			array[k] = 3;
		from[0] = 4;
		ck_assert_int_eq(ff_prof_rewrite(&x.p, hot, gone_by[i], &err), FF_OK);
		/* it comes by way of the memory that then goes by */
		ck_assert_float_eq(to[0], gone_by[i] ? 3 + 4 : 3);
		for (uint32_t k = 0; k < HOT; k++)
			ck_assert_float_eq(array[k], 3);
	}
	close_prof(&x.p);
}
END_TEST

START_TEST(what_goes_by)
{
	struct ff_prof p = {.caches.bytes = 1 << 20};

	ck_assert(!ff_prof_keeps_nothing(&p, 1 << 20));
	ck_assert(ff_prof_keeps_nothing(&p, (1 << 20) + 1));
	/* half of it is copied to as much; twice the cache, and more is the same */
	ck_assert(!ff_prof_is_same(&p, 1 << 20, 2 << 20));
	ck_assert(ff_prof_is_same(&p, 2 << 20, 64 << 20));
	p.caches.bytes = 0; /* not told: 32 MiB */
	ck_assert(!ff_prof_keeps_nothing(&p, 32 << 20));
	ck_assert(ff_prof_keeps_nothing(&p, 33 << 20));
}
END_TEST

/* Where caches lose what lies in them, as much time goes by before a sample as in a step. */
START_TEST(rests)
{
	struct ff_prof p;
	struct ff_error err = {0};
	double us = 0, start;

	open_prof(&p);
	p.caches.us_per_byte = 1e-3;
	ck_assert_double_eq(ff_prof_rest_us(&p, 1 << 20), 0); /* they lose nothing */
	p.caches.decay = 2;
	ck_assert_double_eq(ff_prof_rest_us(&p, 2000000), 2000);
	ck_assert_double_eq(ff_prof_rest_us(&p, 0), 1e-3 * PASSED); /* a step's */
	ck_assert_double_eq(ff_prof_rest_us(&p, INT64_MAX), 30000); /* all is lost by then */
	start = ff_clock_us();
	ck_assert_int_eq(ff_prof_sweep(&p, 0, &us, &err), FF_OK);
	ck_assert_double_ge(ff_clock_us() - start, us + 1e-3 * PASSED);
	p.caches.us_per_byte = 0; /* not known */
	ck_assert_double_eq(ff_prof_rest_us(&p, 1 << 20), 0);
	close_prof(&p);
}
END_TEST

/* Of memory that a core's own caches have room for nothing is said; else what it says is no
 * noise. */
START_TEST(decay)
{
	struct ff_prof p;
	struct ff_error err = {0};

	open_prof(&p);
	p.caches.decay = 3;
	ck_assert_int_eq(ff_prof_decay(&p, &err), FF_OK);
	ck_assert_double_eq(p.caches.decay, 0);
	ff_prof_sweep_close(&p);
	p.caches.bytes = 16 << 20;
	p.states.reuse_bytes[0] = 64 << 20;
	ck_assert_int_eq(ff_prof_sweep_open(&p, &err), FF_OK);
	ck_assert_int_eq(ff_prof_decay(&p, &err), FF_OK);
	ck_assert(p.caches.decay == 0 || p.caches.decay > 1.2);
	close_prof(&p);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("stopwatch");
	TCase *t = tcase_create("turns");

	tcase_add_test(t, in_turns);
	tcase_add_test(t, as_often_as_wanted);
	tcase_add_test(t, ends_when_asked);
	tcase_add_test(t, near);
	tcase_add_test(t, since);
	tcase_add_test(t, what_goes_by);
	tcase_add_test(t, rests);
	tcase_add_test(t, decay);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
