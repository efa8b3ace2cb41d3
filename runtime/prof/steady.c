/* Telling quiet samples from disturbed ones.  SPDX-License-Identifier: Apache-2.0 */
#include "steady.h"

#include <stdlib.h>
#include <string.h>

/* What a quiet machine was never seen to exceed, and a busy one soon does: the share of a
 * sample spent waiting for a processor (besides a timer's tick); references against
 * their quiet time.  Memory is noisier by itself: what lies in a shared cache varies. */
#define WAIT_SHARE 0.03
#define TICK_US 3
#define COMPUTE_EXCESS 0.3
#define MEMORY_EXCESS 0.5
#define SHORTEST_US 50 /* references below this are mostly overhead */
#define AGREEMENT 0.05 /* samples within it of each other agree */

static uint32_t fewer(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void ff_baseline_add(struct ff_baseline *b, double us)
{
	b->recent_us[b->next] = us;
	b->next = (b->next + 1) % FF_BASELINE;
	b->n += b->n < FF_BASELINE;
}

double ff_baseline_quiet(const struct ff_baseline *b)
{
	double sorted[FF_BASELINE];

	if (!b->n)
		return 0;
	memcpy(sorted, b->recent_us, b->n * sizeof(*sorted));
	qsort(sorted, b->n, sizeof(*sorted), compare_reals);
	return sorted[b->n / 10];
}

static double excess(double us, double quiet_us, double limit)
{
	if (quiet_us < SHORTEST_US || us <= quiet_us)
		return 0;
	return (us / quiet_us - 1) / limit;
}

double ff_disturbance(const struct ff_signs *s, double quiet_compute_us, double quiet_memory_us)
{
	double wait = s->wait_us > TICK_US ? (s->wait_us - TICK_US) / (WAIT_SHARE * s->us) : 0;
	double compute = excess(s->compute_us, quiet_compute_us, COMPUTE_EXCESS);
	double memory = excess(s->memory_us, quiet_memory_us, MEMORY_EXCESS);
	double most = compute > memory ? compute : memory;

	return wait > most ? wait : most;
}

static int by_disturbance(const void *a, const void *b)
{
	const struct ff_sample *x = a, *y = b;

	return (x->disturbance > y->disturbance) - (x->disturbance < y->disturbance);
}

/* Undisturbed, and hardly different from each other: more would say the same. */
static bool agree(const struct ff_sample *s, uint32_t n)
{
	double least = s->us, most = s->us;

	for (uint32_t i = 0; i < n; i++) {
		if (s[i].disturbance > 1)
			return false;
		least = s[i].us < least ? s[i].us : least;
		most = s[i].us > most ? s[i].us : most;
	}
	return most <= (1 + AGREEMENT) * least;
}

/* How many of them come before `f`: equal ones in their order. */
static uint32_t before(const struct ff_sample *f, const struct ff_sample *figure, uint32_t n)
{
	uint32_t ret = 0;

	for (uint32_t i = 0; i < n; i++)
		if (figure[i].disturbance <= f->disturbance)
			ret += figure[i].us < f->us || (figure[i].us <= f->us && &figure[i] < f);
	return ret;
}

uint32_t ff_steady_middle(const struct ff_sample *figure, uint32_t n)
{
	double least = figure->disturbance;
	uint32_t quiet = 0, ret = 0;

	for (uint32_t i = 1; i < n; i++)
		least = figure[i].disturbance < least ? figure[i].disturbance : least;
	for (uint32_t i = 0; i < n; i++)
		quiet += figure[i].disturbance <= least;
	for (uint32_t i = 0; i < n; i++)
		if (figure[i].disturbance <= least &&
				before(&figure[i], figure, n) == (quiet - 1) / 2)
			ret = i;
	return ret;
}

uint32_t ff_steady_slowest(const double *us, uint32_t n, double *excess)
{
	uint32_t ret = 0;
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += us[i];
		ret = us[i] > us[ret] ? i : ret;
	}
	*excess = sum > 0 ? us[ret] * n / sum - 1 : 0;
	return ret;
}

void ff_steady_start(struct ff_steady *s, uint32_t want, uint32_t least, struct ff_sample *sample)
{
	least = fewer(least, want);
	*s = (struct ff_steady){.sample = sample, .want = want, .least = least, .more = least};
}

void ff_steady_add(struct ff_steady *s)
{
	bool enough = !s->n && agree(s->sample, s->more);

	for (uint32_t k = s->n; k < s->n + s->more; k++)
		s->good += s->sample[k].disturbance <= 1;
	s->n += s->more;
	s->more = enough ? 0 : fewer(s->want - s->good, FF_STEADY_ROUNDS * s->want - s->n);
}

struct ff_taken ff_steady_end(struct ff_steady *s)
{
	struct ff_taken ret = {.samples = s->good, .taken = s->n, .met = s->n - s->good};

	qsort(s->sample, s->n, sizeof(*s->sample), by_disturbance);
	if (s->good < s->least && s->n >= s->least) {
		ret.samples = s->least;
		ret.disturbed = s->least - s->good;
	}
	return ret;
}
