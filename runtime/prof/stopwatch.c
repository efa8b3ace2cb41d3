/* Timing on all ranks at once.  SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <stdlib.h>

#include "../agree.h"

#define TOTAL_US 20000   /* time to spend on short work */
#define LIMIT_US 1000000 /* and on long work, beyond LEAST samples */
#define LEAST 5
#define MOST 25
#define SAVE_EVERY_US 5e6

/* One sample, started on all ranks together. */
static int run_once(
		struct ff_prof *p, const struct ff_timed *what, double *us, struct ff_error *err)
{
	double start;
	int code;

	if ((code = ff_prof_sweep(p, what->hot, what->hot_bytes, err)) < 0 ||
			(code = p->comm->barrier(p->comm, err)) < 0)
		return code;
	start = ff_clock_us();
	code = what->run(what->arg, err);
	if (code == FF_OK)
		code = p->backend->drain(p->stream, err);
	*us = ff_clock_us() - start;
	return code;
}

/* All ranks take the same number of samples, by the slowest of them. */
static int choose(
		struct ff_prof *p, const struct ff_timed *what, uint32_t *ret, struct ff_error *err)
{
	double us, samples;
	int code;

	if ((code = run_once(p, what, &us, err)) < 0 || (code = run_once(p, what, &us, err)) < 0 ||
			(code = ff_agree_max(p->comm, &us, 1, err)) < 0)
		return code;
	us = us > 0.01 ? us : 0.01;
	samples = TOTAL_US / us;
	if (samples < 2 * LEAST)
		samples = LIMIT_US / us < 2 * LEAST ? LIMIT_US / us : 2 * LEAST;
	*ret = samples < LEAST ? LEAST : samples > MOST ? MOST : (uint32_t)samples;
	return FF_OK;
}

static int compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* One figure a sample out of those of all ranks; the last of each rank's
 * figures tells whether it wants to stop. */
static void combine(struct ff_prof *p, const struct ff_timed *what, double *all, uint32_t n)
{
	for (uint32_t r = 0; r < p->comm->n_ranks; r++)
		p->end |= all[(size_t)r * (n + 1) + n] > 0;
	for (uint32_t i = 0; i < n; i++) {
		double sum = 0, most = 0;

		for (uint32_t r = 0; r < p->comm->n_ranks; r++) {
			double us = all[(size_t)r * (n + 1) + i];

			sum += us;
			most = us > most ? us : most;
		}
		all[i] = what->slowest ? most : sum / p->comm->n_ranks;
	}
}

static bool wants_end(const struct ff_prof *p)
{
	double seconds = (ff_clock_us() - p->start_us) * 1e-6;

	return p->stopped() || (p->opt->budget_s > 0 && seconds > p->opt->budget_s);
}

static int take(struct ff_prof *p, const struct ff_timed *what, uint32_t n, double *own,
		double *all, struct ff_timing *ret, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		code = run_once(p, what, &own[i], err);
	own[n] = wants_end(p);
	if (code < 0 || (code = ff_agree_gather(p->comm, own, (n + 1) * sizeof(*own), all, err)) <
					0)
		return code;
	combine(p, what, all, n);
	qsort(all, n, sizeof(*all), compare_reals);
	ret->median_us = n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
	ret->p10_us = all[n / 10];
	ret->p90_us = all[n - 1 - n / 10];
	ret->samples = n;
	return FF_OK;
}

int ff_prof_time(struct ff_prof *p, const struct ff_timed *what, struct ff_timing *ret,
		struct ff_error *err)
{
	uint32_t samples = 0;
	double *own, *all;
	int code = choose(p, what, &samples, err);

	if (code < 0)
		return code;
	own = malloc((samples + 1) * sizeof(*own));
	all = malloc((samples + 1) * sizeof(*all) * p->comm->n_ranks);
	if (own && all)
		code = take(p, what, samples, own, all, ret, err);
	else
		code = ff_fail_memory(err);
	free(own);
	free(all);
	return code;
}

struct ff_rate ff_prof_fit(const double *bytes, const double *us, uint32_t n)
{
	double w = 0, x = 0, y = 0, xx = 0, xy = 0, slope, start;

	for (uint32_t i = 0; i < n; i++) {
		double weight = 1 / (us[i] * us[i]);

		w += weight;
		x += weight * bytes[i];
		y += weight * us[i];
		xx += weight * bytes[i] * bytes[i];
		xy += weight * bytes[i] * us[i];
	}
	slope = (w * xy - x * y) / (w * xx - x * x);
	start = (y - slope * x) / w;
	if (!(start >= 0)) { /* through the origin */
		start = 0;
		slope = xy / xx;
	}
	if (!(slope > 0)) { /* larger was not slower: take the largest by itself */
		start = 0;
		slope = us[n - 1] / bytes[n - 1];
	}
	return (struct ff_rate){start, 1 / slope};
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
