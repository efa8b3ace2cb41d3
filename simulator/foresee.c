/* What a proposal's step most likely comes to, judged by what is known of the current
 * strategy's.  Most proposals are slower, and that shows long before all of one has been
 * timed: devices are busy for longer; buckets are synchronised for longer behind the
 * operators that close them; or, once all that it changes in forward is timed, devices have
 * been idle for longer.  What is made of the rest changes that seldom, but it may: so one
 * proposal of some that are doubted is timed all the same, and where too many of those turn
 * out to be good nothing is given up on a doubt.  SPDX-License-Identifier: Apache-2.0 */
#include "course.h"

#include <string.h>

#define CHECK_EVERY 8  /* proposals, of which one is timed whatever is thought of it */
#define TRUST 64       /* doubts are heeded while fewer than one in so many is wrong */
#define REMEMBER 1024u /* checks, before they count half */

static double busiest(const struct ff_course *e, const double *busy)
{
	double most = 0;

	for (uint32_t d = 0; d < e->m->n_devices; d++)
		most = busy[d] > most ? busy[d] : most;
	return most;
}

int ff_foresee_create(struct ff_course *e, struct ff_error *err)
{
	struct ff_foresight *f = &e->foresight;

	f->closed = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*f->closed));
	f->closed_next = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*f->closed));
	f->lane = ff_arena_array(&e->arena, ff_lane_count(e->m), sizeof(*f->lane));
	return f->closed && f->closed_next && f->lane ? FF_OK : ff_fail_memory(err);
}

void ff_foresee_keep(struct ff_course *e)
{
	struct ff_foresight *f = &e->foresight;
	double *was = f->closed;

	f->closed = f->closed_next;
	f->closed_next = was;
	f->now_us = f->next_us;
	f->busiest_us = busiest(e, e->busy);
}

void ff_foresee_begin(struct ff_course *e, double limit_us)
{
	struct ff_foresight *f = &e->foresight;

	f->doubted = false;
	f->spare_us = limit_us - f->now_us;
	f->most_busy_us = f->busiest_us + f->spare_us;
	f->checks = !f->on || f->n++ % CHECK_EVERY == 0 || f->wrong * TRUST > f->checked + TRUST;
}

/* When the last bucket is up to date if they are synchronised back to back from when the
 * operators that close them are done, each `earlier` than now. */
static double synchronised(struct ff_course *e, const struct ff_gathered *g, double earlier)
{
	struct ff_foresight *f = &e->foresight;
	double last = 0;

	memset(f->lane, 0, ff_lane_count(e->m) * sizeof(*f->lane));
	for (uint32_t i = 0; i < g->synced.n_buckets; i++) {
		const struct ff_bucket_build *b = &g->synced.bucket[i];
		double at = f->closed[b->close] - earlier;
		uint32_t n;

		if (b->n_devices < 2)
			continue;
		n = ff_transfer_lanes(e->m, b->n_devices, b->device, e->sync_lane);
		for (uint32_t k = 0; k < n; k++)
			at = f->lane[e->sync_lane[k]] > at ? f->lane[e->sync_lane[k]] : at;
		at += g->timed[i].sync_us;
		for (uint32_t k = 0; k < n; k++)
			f->lane[e->sync_lane[k]] = at;
		at += g->timed[i].update_us;
		last = at > last ? at : last;
	}
	return last;
}

int ff_foresee_sync(struct ff_course *e, struct ff_error *err)
{
	struct ff_foresight *f = &e->foresight;
	struct ff_gathered *g;
	double earlier;
	int code;

	/* where nothing overlaps, operators close buckets the later the more is synchronised */
	if (!f->on || !e->rebuckets || !e->m->overlap)
		return FF_OK;
	code = ff_course_gather(e, false, &g, err);
	if (code < 0)
		return code;
	earlier = f->busiest_us - busiest(e, e->busy_next);
	if (synchronised(e, g, earlier > 0 ? earlier : 0) > f->now_us + f->spare_us)
		f->doubted = true;
	return FF_OK;
}

void ff_foresee_rest(struct ff_course *e, const struct ff_snapshot *s)
{
	struct ff_foresight *f = &e->foresight;
	double now = 0, next = 0;

	if (!f->on)
		return;
	for (uint32_t d = 0; d < e->m->n_devices; d++) {
		double was = s->idle[d] + e->busy[d], is = e->idle[d] + e->busy_next[d];

		now = was > now ? was : now;
		next = is > next ? is : next;
	}
	if (next - now > f->spare_us)
		f->doubted = true;
}

void ff_foresee_end(struct ff_course *e, bool slower)
{
	struct ff_foresight *f = &e->foresight;

	if (!f->on || !f->checks || !f->doubted)
		return;
	f->checked++;
	f->wrong += !slower;
	if (f->checked >= REMEMBER) {
		f->checked /= 2;
		f->wrong /= 2;
	}
}
