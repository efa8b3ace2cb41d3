/* When ranks' tasks ran.  SPDX-License-Identifier: Apache-2.0 */
#include "timing.h"

#include <math.h>
#include <string.h>

#include "ff/clock.h"
#include "process/agree.h"

static double own_clock(void *ctx)
{
	(void)ctx;
	return ff_clock_us();
}

int ff_timing_begin(struct ff_timing *t, struct ff_comm *comm, struct ff_error *err)
{
	int code = FF_OK;

	if (!t->begun)
		code = ff_clocks_meet(comm, own_clock, NULL, &t->own.first, err);
	t->begun = code == FF_OK;
	return code;
}

int ff_timing_end(
		struct ff_timing *t, struct ff_comm *comm, struct ff_arena *a, struct ff_error *err)
{
	int code;

	if (!t->begun)
		return FF_OK;
	t->n_ranks = comm->n_ranks;
	t->line = ff_arena_array(a, t->n_ranks, sizeof(*t->line));
	if (!t->line)
		return ff_fail_memory(err);
	code = ff_clocks_meet(comm, own_clock, NULL, &t->own.last, err);
	if (code == FF_OK)
		code = ff_agree_gather(comm, &t->own, sizeof(t->own), t->line, err);
	t->ended = code == FF_OK;
	return code;
}

/* Of two ranks that both are off. */
double ff_timing_bound(const struct ff_timing *t)
{
	double most[2] = {0, 0};

	for (uint32_t r = 0; t->ended && r < t->n_ranks; r++) {
		double bound = ff_clock_bound(&t->line[r]);

		if (bound > most[0]) {
			most[1] = most[0];
			most[0] = bound;
		} else {
			most[1] = fmax(most[1], bound);
		}
	}
	return most[0] + most[1];
}

/* What each rank tells of a step before its spans. */
struct step {
	double origin_us;
	uint32_t n;
};

/* all[rank][most] to one array, on one clock. */
static uint32_t bring_together(const struct ff_timing *t, const struct step *step, uint32_t most,
		struct ff_span *all)
{
	double first_us = ff_clock_common(&t->line[0], step[0].origin_us);
	uint32_t n = 0;

	for (uint32_t r = 1; r < t->n_ranks; r++)
		first_us = fmin(first_us, ff_clock_common(&t->line[r], step[r].origin_us));
	for (uint32_t r = 0; r < t->n_ranks; r++) {
		const struct ff_clock_line *l = &t->line[r];

		for (uint32_t i = 0; i < step[r].n; i++) {
			struct ff_span s = all[(size_t)r * most + i];
			double start = step[r].origin_us + s.start_us;
			double finish = step[r].origin_us + s.finish_us;

			s.start_us = ff_clock_common(l, start) - first_us;
			s.finish_us = ff_clock_common(l, finish) - first_us;
			all[n++] = s;
		}
	}
	return n;
}

int ff_timing_gather(const struct ff_timing *t, struct ff_comm *comm,
		const struct ff_timed_step *own, struct ff_arena *a, struct ff_span **all,
		uint32_t *n_all, struct ff_error *err)
{
	const struct step mine = {own->origin_us, own->n};
	struct step *step = ff_arena_array(a, comm->n_ranks, sizeof(*step));
	struct ff_span *padded, *gathered;
	uint32_t most = 0;
	int code;

	if (!step)
		return ff_fail_memory(err);
	if ((code = ff_agree_gather(comm, &mine, sizeof(mine), step, err)) < 0)
		return code;
	for (uint32_t r = 0; r < comm->n_ranks; r++)
		most = step[r].n > most ? step[r].n : most;
	padded = ff_arena_array(a, most, sizeof(*padded));
	gathered = ff_arena_array(a, (size_t)most * comm->n_ranks, sizeof(*gathered));
	if (!padded || !gathered)
		return ff_fail_memory(err);
	if (own->n)
		memcpy(padded, own->spans, own->n * sizeof(*padded));
	code = ff_agree_gather(comm, padded, most * sizeof(*padded), gathered, err);
	if (code < 0)
		return code;
	*n_all = bring_together(t, step, most, gathered);
	*all = gathered;
	return FF_OK;
}
