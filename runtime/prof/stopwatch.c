/* Timing on all ranks at once.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <math.h>
#include <stdlib.h>

#include "../agree.h"

#define TOTAL_US 20000   /* time to spend on short work */
#define LIMIT_US 1000000 /* and on long work, beyond LEAST samples */
#define LEAST 5
#define SAVE_EVERY_US 5e6
#define ENOUGH 3 /* undisturbed points that make a line without the others */

/* Samples of one thing, in the making. */
struct take {
	struct ff_prof *p;
	const struct ff_timed *what;
	double reference_us;         /* of the last compute reference */
	struct ff_sample *own, *all; /* a round's, of this rank and of every rank */
};

/* Started on all ranks together. */
static int run_together(struct take *t, struct ff_signs *ret, struct ff_error *err)
{
	struct ff_prof *p = t->p;
	int code = p->comm->barrier(p->comm, err);

	if (code < 0)
		return code;
	ret->us = ret->wait_us = 0;
	if (!t->what->alone || !p->comm->rank) {
		ff_prof_wait_start(p);
		code = ff_watch_time_behind(&p->watch, t->what->before, t->what->run, t->what->arg,
				&ret->us, err);
		ret->wait_us = ff_prof_wait_us(p);
	}
	/* the others wait as for a message: nothing that they do next may run beside it */
	return code == FF_OK && t->what->alone ? p->comm->barrier(p->comm, err) : code;
}

/* One sample, and what it shows of others. */
static int run_once(struct take *t, struct ff_signs *ret, struct ff_error *err)
{
	int code = ff_prof_sweep(t->p, t->what->passed_bytes, t->what->hot, &ret->memory_us, err);

	return code == FF_OK ? run_together(t, ret, err) : code;
}

/* All ranks take the same number of samples, by the slowest of them.  What was never run before
 * is run once for its code and its pages alone, which no sweep takes away. */
static int choose(struct take *t, uint32_t *ret, struct ff_error *err)
{
	double most = t->what->most ? t->what->most : FF_SAMPLES;
	struct ff_signs s;
	double us, samples;
	int code = run_together(t, &s, err);

	*ret = LEAST;
	if (code < 0 || most <= LEAST || (code = run_once(t, &s, err)) < 0)
		return code;
	us = s.us;
	if ((code = ff_agree_max(t->p->comm, &us, 1, err)) < 0)
		return code;
	us = us > 0.01 ? us : 0.01;
	samples = TOTAL_US / us;
	if (samples < 2 * LEAST)
		samples = LIMIT_US / us < 2 * LEAST ? LIMIT_US / us : 2 * LEAST;
	samples = fmin(samples, most);
	*ret = samples < LEAST ? LEAST : (uint32_t)samples;
	return FF_OK;
}

static bool wants_end(const struct ff_prof *p)
{
	double seconds = (ff_clock_us() - p->start_us) * 1e-6;

	return p->stopped() || (p->opt->budget_s > 0 && seconds > p->opt->budget_s);
}

/* A sample is as disturbed as it is on the rank where it is most. */
static void combine(struct take *t, uint32_t n, struct ff_sample *ret)
{
	uint32_t ranks = t->p->comm->n_ranks;

	for (uint32_t r = 0; r < ranks; r++)
		t->p->end |= t->all[(size_t)r * (n + 1) + n].us > 0;
	for (uint32_t i = 0; i < n; i++) {
		struct ff_sample worst = {0};
		double sum = 0;

		for (uint32_t r = 0; r < ranks; r++) {
			const struct ff_sample *s = &t->all[(size_t)r * (n + 1) + i];

			sum += s->us;
			worst.us = s->us > worst.us ? s->us : worst.us;
			worst.disturbance = s->disturbance > worst.disturbance ? s->disturbance
									       : worst.disturbance;
		}
		ret[i].us = t->what->slowest || t->what->alone ? worst.us : sum / ranks;
		ret[i].disturbance = worst.disturbance;
	}
}

/* Some samples between references: of the two beside a sample the slower counts.  What
 * each rank adds behind its samples tells whether it wants to stop. */
static int take_round(void *ctx, uint32_t n, struct ff_sample *ret, struct ff_error *err)
{
	struct take *t = ctx;
	struct ff_reference *r = &t->p->reference;
	int code = ff_prof_reference(t->p, &t->reference_us, err);

	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		struct ff_signs s = {.compute_us = t->reference_us};

		if ((code = run_once(t, &s, err)) < 0 ||
				(code = ff_prof_reference(t->p, &t->reference_us, err)) < 0)
			break;
		if (t->reference_us > s.compute_us)
			s.compute_us = t->reference_us;
		t->own[i] = (struct ff_sample){.us = s.us,
				.disturbance = ff_disturbance(&s, ff_baseline_quiet(&r->compute),
						ff_baseline_quiet(&r->memory))};
	}
	t->own[n] = (struct ff_sample){.us = wants_end(t->p)};
	if (code == FF_OK)
		code = ff_agree_gather(t->p->comm, t->own, (n + 1) * sizeof(*t->own), t->all, err);
	if (code == FF_OK)
		combine(t, n, ret);
	return code;
}

static int by_time(const void *a, const void *b)
{
	const struct ff_sample *x = a, *y = b;

	return (x->us > y->us) - (x->us < y->us);
}

static void summarise(struct ff_sample *s, const struct ff_taken *taken, struct ff_timing *ret)
{
	uint32_t n = taken->samples;

	qsort(s, n, sizeof(*s), by_time);
	ret->median_us = n % 2 ? s[n / 2].us : (s[n / 2 - 1].us + s[n / 2].us) / 2;
	ret->p10_us = s[n / 10].us;
	ret->p90_us = s[n - 1 - n / 10].us;
	ret->samples = n;
	ret->disturbed = taken->disturbed;
}

int ff_prof_time(struct ff_prof *p, const struct ff_timed *what, struct ff_timing *ret,
		struct ff_error *err)
{
	struct take t = {.p = p, .what = what};
	struct ff_sample *sample;
	struct ff_taken taken;
	uint32_t n = 0;
	int code = choose(&t, &n, err);

	if (code < 0)
		return code;
	sample = malloc((size_t)FF_STEADY_ROUNDS * n * sizeof(*sample));
	t.own = malloc((n + 1) * sizeof(*t.own));
	t.all = malloc((n + 1) * sizeof(*t.all) * p->comm->n_ranks);
	if (sample && t.own && t.all)
		code = ff_steady_take(take_round, &t, n, LEAST, &p->end, sample, &taken, err);
	else
		code = ff_fail_memory(err);
	if (code == FF_OK) {
		summarise(sample, &taken, ret);
		p->taken += taken.taken;
		p->met += taken.met;
	}
	free(sample);
	free(t.own);
	free(t.all);
	return code;
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
