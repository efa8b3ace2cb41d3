/* What a proposal's step most likely comes to, judged by what is known of the current
 * strategy's.  Most proposals are slower, and that shows long before all of one has been
 * timed: devices are busy for longer; buckets are synchronised for longer behind the
 * operators that close them; or, once all that it changes in forward is timed, devices have
 * been idle for longer.  What is made of the rest changes that seldom, but it may: so one
 * proposal of some is timed whatever is thought of it, and where too many that were doubted for
 * one reason turn out to be good none is given up for that.  SPDX-License-Identifier: Apache-2.0 */
#include "foresee.h"

#include <string.h>

#define CHECK_EVERY 16 /* proposals, of which one is timed whatever is thought of it */
#define TRUST 64       /* doubts are heeded while fewer than one in so many is wrong */
#define REMEMBER 1024u /* checks, before they count half */

static int create_marks(struct ff_course *e, struct ff_marks *m, struct ff_error *err)
{
	for (uint32_t k = 0; k < FF_MARKS; k++) {
		m->idle[k] = ff_arena_array(&e->arena, e->m->n_devices, sizeof(**m->idle));
		if (!m->idle[k])
			return ff_fail_memory(err);
	}
	return FF_OK;
}

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
	int code = create_marks(e, &f->marks, err);

	if (code == FF_OK)
		code = create_marks(e, &f->marks_next, err);
	if (code < 0)
		return code;
	f->closed = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*f->closed));
	f->closed_next = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*f->closed));
	f->lane = ff_arena_array(&e->arena, ff_lane_count(e->m), sizeof(*f->lane));
	return f->closed && f->closed_next && f->lane ? FF_OK : ff_fail_memory(err);
}

void ff_foresee_keep(struct ff_course *e)
{
	struct ff_foresight *f = &e->foresight;
	struct ff_marks marks = f->marks;
	double *was = f->closed;

	f->closed = f->closed_next;
	f->closed_next = was;
	f->marks = f->marks_next;
	f->marks_next = marks;
	f->now_us = f->next_us;
	f->busiest_us = busiest(e, e->busy);
}

void ff_foresee_begin(struct ff_course *e, double limit_us, enum ff_doubt at_marks)
{
	struct ff_foresight *f = &e->foresight;

	f->at_marks = at_marks;
	f->spare_us = limit_us - f->now_us;
	f->most_busy_us = f->busiest_us + f->spare_us;
	f->checks = !f->on || f->n++ % CHECK_EVERY == 0;
	f->dismissed = false;
	for (int k = 0; k < FF_DOUBTS; k++) {
		const struct ff_doubted *d = &f->so_far[k];

		f->doubts[k] = false;
		f->heeds[k] = !f->checks && d->wrong * TRUST <= d->checked + TRUST;
	}
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
		ff_foresee_doubt(f, FF_DOUBT_SYNCED);
	return FF_OK;
}

/* Whether devices that have been idle for so long, where now it is `was`, seem to be too late. */
static bool is_late(const struct ff_course *e, const double *was)
{
	double now = 0, next = 0;

	for (uint32_t d = 0; d < e->m->n_devices; d++) {
		double before = was[d] + e->busy[d], is = e->idle[d] + e->busy_next[d];

		now = before > now ? before : now;
		next = is > next ? is : next;
	}
	return next - now > e->foresight.spare_us;
}

void ff_foresee_rest(struct ff_course *e, const struct ff_snapshot *s)
{
	if (e->foresight.on && is_late(e, s->idle))
		ff_foresee_doubt(&e->foresight, FF_DOUBT_IDLE);
}

/* Marks lie evenly in what there is of the program. */
static uint32_t mark_step(const struct ff_course *e, uint32_t k)
{
	const struct ff_program *p = &e->program;
	uint32_t end = e->fold.n_runs ? e->fold.run[0].first : p->n;

	if (k == FF_MARKS || end <= p->n_ahead)
		return FF_NONE;
	return p->n_ahead + (end - p->n_ahead) * (k + 1) / (FF_MARKS + 1);
}

void ff_foresee_pass(struct ff_course *e)
{
	e->foresight.marks_next.n = 0;
	e->foresight.mark_at = mark_step(e, 0);
}

void ff_foresee_mark(struct ff_course *e, uint32_t step)
{
	struct ff_foresight *f = &e->foresight;
	struct ff_marks *m = &f->marks_next;

	while (step >= f->mark_at) {
		memcpy(m->idle[m->n++], e->idle, e->m->n_devices * sizeof(*e->idle));
		f->mark_at = mark_step(e, m->n);
	}
	if (f->on && m->n <= f->marks.n && is_late(e, f->marks.idle[m->n - 1]))
		ff_foresee_doubt(f, f->at_marks);
}

void ff_foresee_end(struct ff_course *e, bool good)
{
	struct ff_foresight *f = &e->foresight;

	for (int k = 0; k < FF_DOUBTS && f->on && !f->dismissed; k++) {
		struct ff_doubted *d = &f->so_far[k];

		d->checked += f->doubts[k];
		d->wrong += f->doubts[k] && good;
		if (d->checked >= REMEMBER) {
			d->checked /= 2;
			d->wrong /= 2;
		}
	}
}
