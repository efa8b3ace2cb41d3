/* What folding compares, and moves on.  SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <string.h>

static size_t limited_size(const struct ff_trial *e)
{
	return FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices * sizeof(*e->times.limited);
}

int ff_base_create(struct ff_trial *e, struct ff_base *b, struct ff_error *err)
{
	size_t lanes = ff_lane_count(e->m);

	b->lane = ff_arena_array(&e->arena, lanes, sizeof(*b->lane));
	b->idle = ff_arena_array(&e->arena, lanes, sizeof(*b->idle));
	b->limited = ff_arena_alloc(&e->arena, limited_size(e));
	return b->lane && b->idle && b->limited ? FF_OK : ff_fail_memory(err);
}

void ff_base_keep(const struct ff_trial *e, struct ff_base *b, bool limited)
{
	size_t size = ff_lane_count(e->m) * sizeof(*b->lane);

	memcpy(b->lane, e->times.lane, size);
	memcpy(b->idle, e->times.idle, size);
	if (limited)
		memcpy(b->limited, e->times.limited, limited_size(e));
}

/* Whether the limited computes of a device are not the run's, and no move waits for them. */
static bool limited_rests(
		const struct ff_trial *e, const struct ff_base *b, uint32_t device, double earliest)
{
	const double *now = &e->times.limited[(size_t)FF_PREFETCH_DISTANCE * device];

	return now[0] == b->limited[(size_t)FF_PREFETCH_DISTANCE * device] && now[0] <= earliest;
}

static bool limited_moved_on(
		const struct ff_trial *e, const struct ff_base *b, double by, double earliest)
{
	bool alike = true;

	for (uint32_t d = 0; d < e->m->n_devices && alike; d++)
		for (uint32_t k = FF_PREFETCH_DISTANCE * d;
				k < FF_PREFETCH_DISTANCE * (d + 1) && alike; k++)
			alike = e->times.limited[k] - b->limited[k] == by ||
				limited_rests(e, b, d, earliest);
	return alike;
}

bool ff_base_moved_on(const struct ff_trial *e, const struct ff_base *b, bool limited, uint32_t n,
		double *by)
{
	uint32_t lanes = ff_lane_count(e->m);
	double earliest = 0, last = 0;

	*by = 0;
	for (uint32_t i = 0; i < lanes; i++) {
		double d = e->times.lane[i] - b->lane[i];

		last = e->times.lane[i] > last ? e->times.lane[i] : last;
		if (d == 0)
			continue;
		if (*by > 0 && d != *by)
			return false;
		if (*by == 0 || b->lane[i] < earliest)
			earliest = b->lane[i];
		*by = d;
	}
	if (*by == 0 || last + *by * n >= FF_TIMES_EXACT_US)
		return false;
	return !limited || !e->m->overlap || limited_moved_on(e, b, *by, earliest);
}

void ff_base_go_on(struct ff_trial *e, const struct ff_base *b, bool limited, uint32_t n)
{
	uint32_t lanes = ff_lane_count(e->m);

	for (uint32_t i = 0; i < lanes; i++) {
		e->times.lane[i] += n * (e->times.lane[i] - b->lane[i]);
		e->times.idle[i] += n * (e->times.idle[i] - b->idle[i]);
		if (i < e->m->n_devices && e->times.idle[i] + e->busy.known[i] > e->busy.most_us)
			e->busy.too_slow = true;
	}
	for (uint32_t k = 0; k < FF_PREFETCH_DISTANCE * e->m->n_devices && limited; k++)
		e->times.limited[k] += n * (e->times.limited[k] - b->limited[k]);
}
