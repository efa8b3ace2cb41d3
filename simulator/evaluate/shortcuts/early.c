/* What a proposal's step most likely comes to, judged by what is known of the current
 * strategy's.  Most proposals are slower, and that shows long before all of one has been
 * timed: devices are busy for longer; buckets are synchronised for longer behind the
 * operators that close them; or, once all that it changes in forward is timed, devices have
 * been idle for longer.  These are reasons to reject it early.  None is certain: the rest of the
 * step may make up for it, though it seldom does.  So one proposal of some is timed whatever was
 * found, and a reason that too often turns out wrong rejects none.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "early.h"

#include <string.h>

#include "evaluate/lane_runs.h"

#define CHECK_EVERY 16 /* proposals, of which one is timed whatever was found */
#define TRUST 64       /* a reason is trusted while fewer than one in so many is wrong */
#define MOST_HELD 8    /* lanes of so many moves are remembered */
#define REMEMBER 1024u /* checks, before they count half */

static int create_marks(struct ff_trial *e, struct ff_marks *m, struct ff_error *err)
{
	for (uint32_t k = 0; k < FF_MARKS; k++) {
		m->idle[k] = ff_arena_array(&e->arena, e->m->n_devices, sizeof(**m->idle));
		if (!m->idle[k])
			return ff_fail_memory(err);
	}
	return FF_OK;
}

static double busiest(const struct ff_trial *e, const double *busy)
{
	double most = 0;

	for (uint32_t d = 0; d < e->m->n_devices; d++)
		most = busy[d] > most ? busy[d] : most;
	return most;
}

int ff_early_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_early *early = &e->early;
	int code = create_marks(e, &early->marks, err);

	if (code == FF_OK)
		code = create_marks(e, &early->marks_next, err);
	if (code < 0)
		return code;
	early->closed = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*early->closed));
	early->closed_next = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*early->closed));
	early->lane = ff_arena_array(&e->arena, ff_lane_count(e->m), sizeof(*early->lane));
	return early->closed && early->closed_next && early->lane ? FF_OK : ff_fail_memory(err);
}

void ff_early_keep(struct ff_trial *e)
{
	struct ff_early *early = &e->early;
	struct ff_marks marks = early->marks;
	double *was = early->closed;

	early->closed = early->closed_next;
	early->closed_next = was;
	early->marks = early->marks_next;
	early->marks_next = marks;
	early->now_us = early->next_us;
	early->busiest_us = busiest(e, e->busy.now);
}

void ff_early_begin(struct ff_trial *e, double limit_us, enum ff_early_reason at_marks)
{
	struct ff_early *early = &e->early;

	early->at_marks = at_marks;
	early->spare_us = limit_us - early->now_us;
	early->most_busy_us = early->busiest_us + early->spare_us;
	early->checks = !early->on || early->n++ % CHECK_EVERY == 0;
	early->rejected = false;
	for (int k = 0; k < FF_EARLY_REASONS; k++) {
		const struct ff_early_record *d = &early->so_far[k];

		early->found[k] = false;
		early->trusted[k] = !early->checks && d->wrong * TRUST <= d->checked + TRUST;
	}
}

/* Lanes that buckets have held last, each all of a move's until the same time, and no two the same
 * one: what is written in `lane` of these is from before.  Most buckets hold the lanes of one
 * before. */
struct held {
	double *lane;
	uint32_t n;
	struct {
		const struct ff_bucket_move *by;
		double until;
	} at[MOST_HELD];
};

static bool same_lanes(const struct ff_bucket_move *a, const struct ff_bucket_move *b)
{
	return a->n_lanes == b->n_lanes &&
	       (a->lane == b->lane || !memcmp(a->lane, b->lane, a->n_lanes * sizeof(*a->lane)));
}

/* Runs of lanes ascend. */
static bool share_lanes(const struct ff_bucket_move *a, const struct ff_bucket_move *b)
{
	uint32_t i = 0, k = 0;

	while (i < a->n_lanes && k < b->n_lanes) {
		if (a->lane[i].first + a->lane[i].n <= b->lane[k].first)
			i++;
		else if (b->lane[k].first + b->lane[k].n <= a->lane[i].first)
			k++;
		else
			return true;
	}
	return false;
}

/* Writes down those that `mv` holds, too; all, if there is no room for it. */
static void release(struct held *h, const struct ff_bucket_move *mv)
{
	bool all = h->n == MOST_HELD;
	uint32_t n = 0;

	for (uint32_t i = 0; i < h->n; i++) {
		const struct ff_bucket_move *by = h->at[i].by;

		if (all || share_lanes(by, mv))
			hold_until(by->n_lanes, by->lane, h->at[i].until, h->lane);
		else
			h->at[n++] = h->at[i];
	}
	h->n = n;
}

/* When a bucket's move is done that starts at `at`, or when its lanes are free. */
static double after(struct held *h, const struct ff_bucket_move *mv, double at)
{
	uint32_t i = 0;

	while (i < h->n && !same_lanes(h->at[i].by, mv))
		i++;
	if (i < h->n) {
		at = later(at, h->at[i].until);
	} else {
		release(h, mv);
		at = free_at(mv->n_lanes, mv->lane, h->lane, at);
		i = h->n++;
	}
	h->at[i].by = mv;
	h->at[i].until = at + mv->us;
	return h->at[i].until;
}

/* When the last bucket is up to date if they are synchronised back to back from when the
 * operators that close them are done, each `earlier` than now. */
static double synchronised(struct ff_trial *e, const struct ff_gathered *g, double earlier)
{
	struct ff_early *early = &e->early;
	struct held held = {.lane = early->lane};
	double last = 0;

	memset(early->lane, 0, ff_lane_count(e->m) * sizeof(*early->lane));
	for (uint32_t i = 0; i < g->synced.n_buckets; i++) {
		const struct ff_memo_bucket *b = g->timed[i].price;
		double at = early->closed[g->synced.bucket[i].close] - earlier;

		if (b->n_devices < 2)
			continue;
		at = after(&held, &b->sync[0], at);
		if (b->across.us > 0)
			at = after(&held, &b->across, at);
		at += g->timed[i].update_us;
		last = at > last ? at : last;
	}
	return last;
}

int ff_early_check_sync(struct ff_trial *e, struct ff_error *err)
{
	struct ff_early *early = &e->early;
	struct ff_gathered *g;
	double earlier;
	int code;

	/* where nothing overlaps, operators close buckets the later the more is synchronised */
	if (!early->on || !e->proposal.rebuckets || !e->m->overlap)
		return FF_OK;
	code = ff_trial_gather(e, false, &g, err);
	if (code < 0)
		return code;
	earlier = early->busiest_us - busiest(e, e->busy.next);
	if (synchronised(e, g, earlier > 0 ? earlier : 0) > early->now_us + early->spare_us)
		ff_early_add_reason(early, FF_EARLY_SYNCED);
	return FF_OK;
}

/* Whether devices that have been idle for so long, where now it is `was`, seem to be too late. */
static bool is_late(const struct ff_trial *e, const double *was)
{
	double now = 0, next = 0;

	for (uint32_t d = 0; d < e->m->n_devices; d++) {
		double before = was[d] + e->busy.now[d], is = e->times.idle[d] + e->busy.next[d];

		now = before > now ? before : now;
		next = is > next ? is : next;
	}
	return next - now > e->early.spare_us;
}

void ff_early_check_idle(struct ff_trial *e, const struct ff_snapshot *s)
{
	if (e->early.on && is_late(e, s->idle))
		ff_early_add_reason(&e->early, FF_EARLY_IDLE);
}

/* Marks lie evenly in what there is of the program. */
uint32_t ff_early_mark_step(const struct ff_trial *e, uint32_t k)
{
	const struct ff_program *p = &e->order.program;
	uint32_t end = e->order.n_runs ? e->order.run[0].first : p->n;

	if (k == FF_MARKS || end <= p->n_ahead)
		return FF_NONE;
	return p->n_ahead + (end - p->n_ahead) * (k + 1) / (FF_MARKS + 1);
}

void ff_early_pass(struct ff_trial *e)
{
	e->early.marks_next.n = 0;
	e->early.mark_at = ff_early_mark_step(e, 0);
}

void ff_early_mark(struct ff_trial *e, uint32_t step)
{
	struct ff_early *early = &e->early;
	struct ff_marks *m = &early->marks_next;

	while (step >= early->mark_at) {
		memcpy(m->idle[m->n++], e->times.idle, e->m->n_devices * sizeof(*e->times.idle));
		early->mark_at = ff_early_mark_step(e, m->n);
	}
	if (early->on && m->n <= early->marks.n && is_late(e, early->marks.idle[m->n - 1]))
		ff_early_add_reason(early, early->at_marks);
}

void ff_early_end(struct ff_trial *e, bool good)
{
	struct ff_early *early = &e->early;

	for (int k = 0; k < FF_EARLY_REASONS && early->on && !early->rejected; k++) {
		struct ff_early_record *d = &early->so_far[k];

		d->checked += early->found[k];
		d->wrong += early->found[k] && good;
		if (d->checked >= REMEMBER) {
			d->checked /= 2;
			d->wrong /= 2;
		}
	}
}
