/* Timing on all ranks at once.  SPDX-License-Identifier: Apache-2.0 */
#include "stopwatch.h"

#include <math.h>
#include <stdlib.h>

#include "process/agree.h"
#include "reference.h"

#define TOTAL_US 20000   /* time to spend on short work */
#define LIMIT_US 1000000 /* and on long work, beyond LEAST samples */
#define LEAST 5
#define SAVE_EVERY_US 5e6
#define ENOUGH 3 /* undisturbed points that make a line without the others */

/* One of a group, in the making. */
struct take {
	const struct ff_timed *what;
	struct ff_steady steady;
	uint32_t first; /* of this round's samples, among the group's */
};
/* Things timed in turns, behind one sweep each time. */
struct group {
	struct ff_prof *p;
	struct take *take;
	uint32_t n;
	double reference_us;                /* of the last compute reference */
	struct ff_sample *own, *all;        /* a round's, of this rank and of every rank */
	struct ff_sample *kept;             /* all that is taken */
	double us[FF_PROF_TOGETHER];        /* each one's first time */
	uint32_t samples[FF_PROF_TOGETHER]; /* wanted of each */
};

/* Started on all ranks together. */
static int run_together(struct ff_prof *p, const struct ff_timed *what, struct ff_signs *ret,
		struct ff_error *err)
{
	int code = p->comm->barrier(p->comm, err);

	if (code < 0)
		return code;
	ret->us = ret->wait_us = 0;
	if (!what->alone || !p->comm->rank) {
		ff_prof_wait_start(p);
		code = ff_watch_time_behind(
				&p->watch, what->before, what->run, what->arg, &ret->us, err);
		ret->wait_us = ff_prof_wait_us(p);
	}
	/* the others wait as for a message: nothing that they do next may run beside it */
	return code == FF_OK && what->alone ? p->comm->barrier(p->comm, err) : code;
}

/* With what it finds near. */
static int run_once(struct ff_prof *p, const struct ff_timed *what, struct ff_signs *ret,
		struct ff_error *err)
{
	int code = ff_prof_rewrite(p, what->hot, what->since_bytes, err);

	return code == FF_OK ? run_together(p, what, ret, err) : code;
}

static bool wants_many(const struct ff_timed *what)
{
	return !what->most || what->most > LEAST;
}

/* The fewer the longer it takes, with the wait before it. */
static uint32_t samples_of(const struct ff_prof *p, const struct ff_timed *what, double us)
{
	double samples;

	if (!wants_many(what))
		return LEAST;
	us = fmax(us, 0.01) + ff_prof_rest_us(p, what->reuse_bytes);
	samples = TOTAL_US / us;
	if (samples < 2 * LEAST)
		samples = LIMIT_US / us < 2 * LEAST ? LIMIT_US / us : 2 * LEAST;
	samples = fmin(samples, what->most ? what->most : FF_SAMPLES);
	return samples < LEAST ? LEAST : (uint32_t)samples;
}

/* All ranks take the same number of samples, by the slowest of them.  What was never run before
 * is run once for its code and its pages alone, which no sweep takes away. */
static int choose(struct group *g, struct ff_error *err)
{
	struct ff_prof *p = g->p;
	struct ff_signs s = {0};
	bool many = false;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n && code == FF_OK; i++) {
		many = many || wants_many(g->take[i].what);
		code = run_together(p, g->take[i].what, &s, err);
	}
	if (code == FF_OK && many)
		code = ff_prof_sweep(p, g->take->what->reuse_bytes, &s.memory_us, err);
	for (uint32_t i = 0; i < g->n && code == FF_OK && many; i++)
		if (wants_many(g->take[i].what)) {
			code = run_once(p, g->take[i].what, &s, err);
			g->us[i] = s.us;
		}
	if (code == FF_OK && many)
		code = ff_agree_max(p->comm, g->us, g->n, err);
	for (uint32_t i = 0; i < g->n; i++)
		g->samples[i] = samples_of(p, g->take[i].what, g->us[i]);
	return code;
}

static bool wants_end(const struct ff_prof *p)
{
	double seconds = (ff_clock_us() - p->start_us) * 1e-6;

	return p->stopped() || (p->opt->budget_s > 0 && seconds > p->opt->budget_s);
}

/* One between references: of the two beside it the slower counts. */
static int take_one(struct group *g, const struct ff_timed *what, double memory_us,
		struct ff_sample *ret, struct ff_error *err)
{
	struct ff_reference *r = &g->p->reference;
	struct ff_signs s = {.compute_us = g->reference_us, .memory_us = memory_us};
	int code = run_once(g->p, what, &s, err);

	if (code == FF_OK)
		code = ff_prof_reference(g->p, &g->reference_us, err);
	if (code < 0)
		return code;
	s.compute_us = fmax(s.compute_us, g->reference_us);
	*ret = (struct ff_sample){.us = s.us,
			.disturbance = ff_disturbance(&s, ff_baseline_quiet(&r->compute),
					ff_baseline_quiet(&r->memory))};
	return FF_OK;
}

/* One of each that wants more than `turn` in this round. */
static int take_turn(struct group *g, uint32_t turn, struct ff_error *err)
{
	double memory_us;
	int code = ff_prof_sweep(g->p, g->take->what->reuse_bytes, &memory_us, err);

	for (uint32_t i = 0; i < g->n && code == FF_OK; i++)
		if (g->take[i].steady.more > turn)
			code = take_one(g, g->take[i].what, memory_us,
					&g->own[g->take[i].first + turn], err);
	return code;
}

/* A sample is as disturbed as it is on the rank where it is most. */
static struct ff_sample combine(
		struct group *g, const struct ff_timed *what, uint32_t i, uint32_t stride)
{
	uint32_t ranks = g->p->comm->n_ranks;
	bool slowest = what->slowest || what->alone;
	struct ff_sample worst = {0};
	double sum = 0;

	for (uint32_t r = 0; r < ranks; r++) {
		const struct ff_sample *s = &g->all[(size_t)r * stride + i];

		sum += s->us;
		worst.us = fmax(worst.us, s->us);
		worst.disturbance = fmax(worst.disturbance, s->disturbance);
	}
	for (uint32_t r = 0; r < ranks && !slowest && worst.disturbance <= 1; r++)
		g->p->tally.rank_us[r] += g->all[(size_t)r * stride + i].us;
	return (struct ff_sample){slowest ? worst.us : sum / ranks, worst.disturbance};
}

/* What all ranks have taken, and, behind it, whether one of them wants to stop. */
static void share_out(struct group *g, uint32_t taken)
{
	for (uint32_t r = 0; r < g->p->comm->n_ranks; r++)
		g->p->end |= g->all[(size_t)r * (taken + 1) + taken].us > 0;
	for (uint32_t i = 0; i < g->n; i++) {
		struct take *t = &g->take[i];

		for (uint32_t k = 0; k < t->steady.more; k++)
			t->steady.sample[t->steady.n + k] =
					combine(g, t->what, t->first + k, taken + 1);
		if (t->steady.more)
			ff_steady_add(&t->steady);
	}
}

/* What each wants next. */
static int take_round(struct group *g, struct ff_error *err)
{
	uint32_t turns = 0, n = 0;
	int code = ff_prof_reference(g->p, &g->reference_us, err);

	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t more = g->take[i].steady.more;

		g->take[i].first = n;
		n += more;
		turns = more > turns ? more : turns;
	}
	for (uint32_t turn = 0; turn < turns && code == FF_OK; turn++)
		code = take_turn(g, turn, err);
	g->own[n] = (struct ff_sample){.us = wants_end(g->p)};
	if (code == FF_OK)
		code = ff_agree_gather(g->p->comm, g->own, (n + 1) * sizeof(*g->own), g->all, err);
	if (code == FF_OK)
		share_out(g, n);
	return code;
}

static bool wants_more(const struct group *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->take[i].steady.more)
			return true;
	return false;
}

static int by_time(const void *a, const void *b)
{
	const struct ff_sample *x = a, *y = b;

	return (x->us > y->us) - (x->us < y->us);
}

static struct ff_timing summarise(struct ff_prof *p, struct ff_steady *steady)
{
	struct ff_taken taken = ff_steady_end(steady);
	const struct ff_sample *s = steady->sample;
	uint32_t n = taken.samples;

	p->tally.taken += taken.taken;
	p->tally.met += taken.met;
	qsort(steady->sample, n, sizeof(*s), by_time);
	return (struct ff_timing){
			.median_us = n % 2 ? s[n / 2].us : (s[n / 2 - 1].us + s[n / 2].us) / 2,
			.p10_us = s[n / 10].us,
			.p90_us = s[n - 1 - n / 10].us,
			.samples = n,
			.disturbed = taken.disturbed};
}

/* Room for what each wants, and its start. */
static int start(struct group *g, struct ff_error *err)
{
	size_t n = 0, at = 0;

	for (uint32_t i = 0; i < g->n; i++)
		n += g->samples[i];
	g->kept = malloc((FF_STEADY_ROUNDS * n + 1) * sizeof(*g->kept));
	g->own = malloc((n + 1) * sizeof(*g->own));
	g->all = malloc((n + 1) * sizeof(*g->all) * g->p->comm->n_ranks);
	if (!g->kept || !g->own || !g->all)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n; i++) {
		ff_steady_start(&g->take[i].steady, g->samples[i], LEAST, g->kept + at);
		at += (size_t)FF_STEADY_ROUNDS * g->samples[i];
	}
	return FF_OK;
}

int ff_prof_time_group(struct ff_prof *p, const struct ff_timed *what, uint32_t n,
		struct ff_timing *ret, struct ff_error *err)
{
	struct take take[FF_PROF_TOGETHER] = {0};
	struct group g = {.p = p, .take = take, .n = n};
	int code;

	for (uint32_t i = 0; i < n; i++)
		take[i].what = &what[i];
	code = choose(&g, err);
	if (code == FF_OK)
		code = start(&g, err);
	if (code == FF_OK) /* what was begun has some samples, even at the end */
		do
			code = take_round(&g, err);
		while (code == FF_OK && !p->end && wants_more(&g));
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		ret[i] = summarise(p, &take[i].steady);
	free(g.kept);
	free(g.own);
	free(g.all);
	return code;
}

int ff_prof_time(struct ff_prof *p, const struct ff_timed *what, struct ff_timing *ret,
		struct ff_error *err)
{
	return ff_prof_time_group(p, what, 1, ret, err);
}

struct ff_timing ff_prof_middle(const struct ff_timing *t, uint32_t n)
{
	struct ff_sample figure[FF_PROF_ROUNDS + 2];

	for (uint32_t i = 0; i < n; i++)
		figure[i] = (struct ff_sample){t[i].median_us,
				t[i].samples ? (double)t[i].disturbed / t[i].samples : 0};
	return t[ff_steady_middle(figure, n)];
}

/* Line through n points by least squares of relative errors; through one and the origin. */
static struct ff_rate fit(const struct ff_point *p, uint32_t n)
{
	double w = 0, x = 0, y = 0, xx = 0, xy = 0, slope, start;

	if (n < 2)
		return n ? (struct ff_rate){0, p->bytes / p->us, 0, 0} : (struct ff_rate){0};
	for (uint32_t i = 0; i < n; i++) {
		double weight = 1 / (p[i].us * p[i].us);

		w += weight;
		x += weight * p[i].bytes;
		y += weight * p[i].us;
		xx += weight * p[i].bytes * p[i].bytes;
		xy += weight * p[i].bytes * p[i].us;
	}
	slope = (w * xy - x * y) / (w * xx - x * x);
	start = (y - slope * x) / w;
	if (!(start >= 0)) { /* through the origin */
		start = 0;
		slope = xy / xx;
	}
	if (!(slope > 0)) { /* larger was not slower: take the largest by itself */
		start = 0;
		slope = p[n - 1].us / p[n - 1].bytes;
	}
	return (struct ff_rate){start, 1 / slope, 0, 0};
}

struct ff_rate ff_prof_fit(const struct ff_point *p, uint32_t n)
{
	struct ff_point good[FF_POINTS];
	uint32_t n_good = 0, disturbed = 0;
	struct ff_rate rate;

	for (uint32_t i = 0; i < n; i++) {
		if (!p[i].disturbed)
			good[n_good++] = p[i];
		disturbed += p[i].disturbed;
	}
	if (n_good == n || n_good >= ENOUGH)
		return fit(good, n_good);
	rate = fit(p, n);
	rate.disturbed = disturbed;
	return rate;
}

int ff_prof_save(struct ff_prof *p, bool now, struct ff_error *err)
{
	struct ff_out out;
	int code;

	if (p->comm->rank || (!now && ff_clock_us() - p->saved_us < SAVE_EVERY_US))
		return FF_OK;
	ff_out_init(&out);
	ff_costs_write(p->costs, &out);
	code = ff_out_save(&out, p->opt->out, err);
	ff_out_finish(&out);
	p->saved_us = ff_clock_us();
	return code;
}
