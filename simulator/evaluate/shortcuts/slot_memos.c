/* Memos of slots.
 *
 * In a slot maxima and sums are taken of the times that are there as it begins.  Where these are
 * all later by the same amount than they were another time so are those that it leaves, exactly, as
 * prices are whole steps (ff/price.h) and sums of them are exact.  A memo has times from a base:
 * the first at which anything in the slot may begin, when the first of the devices that compute in
 * it is free, or, where it moves something that was computed before, when that was done.  What was
 * there by then delays nothing, however long before it came: a lane that only moves hold, or
 * something that has arrived.  A lane that is not held stays as it is, and one that is moves on, as
 * every task takes some time.  SPDX-License-Identifier: Apache-2.0 */
#include "slot_memos.h"

#include <stdlib.h>
#include <string.h>

#include "evaluate/lane_runs.h"
#include "ff/grow.h"
#include "stretch.h"

static struct ff_timed_node *node_of(const struct ff_trial *e, const struct ff_pipe_slot_node *v)
{
	return &e->times.node[v->phase][v->node];
}

/* Makes room for so many; false: there is none. */
static bool has_room(double **times, uint32_t want, uint32_t *cap)
{
	double *grown;

	if (want <= *cap)
		return true;
	want = want > 2 * *cap ? want : 2 * *cap;
	grown = realloc(*times, want * sizeof(*grown));
	if (!grown)
		return false;
	*times = grown;
	*cap = want;
	return true;
}

/* ---- what it may wait for ---- */

/* Whether what was computed before, number `i` of what may be, is asked for. */
static bool reads(const struct ff_trial *e, uint32_t slot, uint32_t i)
{
	uint32_t step = e->order.slots.slot[slot].first + ff_pipe_slot_kind_of(e, slot)->reader[i];

	return e->order.active[step / 64] >> step % 64 & 1;
}

/* When that was done; NULL: it is not asked for. */
static const double *read_at(const struct ff_trial *e, uint32_t slot, uint32_t i, uint32_t micro)
{
	return reads(e, slot, i) ? ff_time_finish(e,
						   node_of(e, &ff_pipe_slot_kind_of(e, slot)
										   ->reads.at[i]),
						   micro)
				 : NULL;
}

static uint32_t count_parts(const struct ff_trial *e, const struct ff_pipe_slot_nodes *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += node_of(e, &l->at[i])->n;
	return n;
}

/* What has arrived, or zeros. */
static double *copy_arrived(const struct ff_trial *e, const struct ff_pipe_slot_nodes *l,
		uint32_t micro, double *at)
{
	for (uint32_t i = 0; i < l->n; i++) {
		const struct ff_timed_node *t = node_of(e, &l->at[i]);

		if (t->arrived[micro])
			memcpy(at, ff_timed_ready(t, micro), t->n * sizeof(*at));
		else
			memset(at, 0, t->n * sizeof(*at));
		at += t->n;
	}
	return at;
}

bool ff_slot_memos_capture(struct ff_trial *e, uint32_t slot)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	struct ff_pipe_slot_pass *x = &e->slots;
	uint32_t micro = ff_pipe_slot_micro(e, slot), n = count_parts(e, &k->reads);
	double *at;

	n += count_parts(e, &k->awaits) + count_parts(e, &k->sends);
	if (!has_room(&x->captured, n + 1, &x->cap_captured))
		return false;
	at = x->captured;
	for (uint32_t i = 0; i < k->reads.n; i++) {
		const double *finish = read_at(e, slot, i, micro);

		if (!finish)
			continue;
		n = node_of(e, &k->reads.at[i])->n;
		memcpy(at, finish, n * sizeof(*at));
		at += n;
	}
	at = copy_arrived(e, &k->awaits, micro, at);
	copy_arrived(e, &k->sends, micro, at);
	return true;
}

static uint32_t count_read(const struct ff_trial *e, uint32_t slot)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	uint32_t n = 0;

	for (uint32_t i = 0; i < k->reads.n; i++)
		n += reads(e, slot, i) ? node_of(e, &k->reads.at[i])->n : 0;
	return n;
}

/* ---- how it went ---- */

/* Times are never negative (lane_runs.h). */
FF_CLONES static void earliest_bits(uint32_t n, const time_bits *x, time_bits *at)
{
	time_bits least = *at;

	for (uint32_t i = 0; i < n; i++)
		least = x[i] < least ? x[i] : least;
	*at = least;
}

static inline double earliest(uint32_t n, const double *x, double at)
{
	earliest_bits(n, (const time_bits *)x, (time_bits *)&at);
	return at;
}

/* When the first of the devices that compute in it was free. */
static double first_free(const struct ff_slot_memos *c, const double *lane)
{
	double at = FF_TIMES_EXACT_US;

	for (uint32_t i = 0; i < c->n_own_runs; i++)
		at = earliest(c->run[i].n, lane + c->run[i].first, at);
	return at;
}

FF_CLONES static void subtract(uint32_t n, const double *x, double base, double *restrict ret)
{
	for (uint32_t i = 0; i < n; i++)
		ret[i] = x[i] - base;
}

/* What is later than the base, else zero; whether anything is. */
static bool subtract_later(uint32_t n, const double *x, double base, double *ret)
{
	bool any = false;

	for (uint32_t i = 0; i < n; i++) {
		ret[i] = x[i] > base ? x[i] - base : 0;
		any = any || ret[i] > 0;
	}
	return any;
}

/* Lanes that are not as they were; false: none computes, or there is no room. */
static bool find_runs(const struct ff_trial *e, struct ff_slot_memos *c)
{
	const double *was = e->slots.lane, *is = e->times.lane;
	uint32_t lanes = ff_lane_count(e->m), devices = e->m->n_devices;

	c->n_runs = c->n_own_runs = c->n_lanes = c->n_own = 0;
	for (uint32_t i = 0; i < lanes; i++) {
		struct ff_lanes *last = c->n_runs ? &c->run[c->n_runs - 1] : NULL;

		if (was[i] == is[i])
			continue;
		c->n_lanes++;
		c->n_own += i < devices;
		if (last && last->first + last->n == i && i != devices) {
			last->n++;
			continue;
		}
		if (ff_grow(&c->run, c->n_runs, &c->cap_runs, sizeof(*c->run), NULL) < 0)
			return false;
		c->run[c->n_runs++] = (struct ff_lanes){i, 1};
		c->n_own_runs += i < devices;
	}
	return c->n_own > 0;
}

/* The first memo of these blocks: what lanes it holds all later ones hold. */
static bool begin_memos(struct ff_trial *e, uint32_t slot, struct ff_slot_memos *c)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	uint32_t sent = k->sends.n + count_parts(e, &k->sends);

	c->next = c->last = 0;
	if (!find_runs(e, c))
		return false;
	c->n_before = c->n_lanes + count_read(e, slot) + k->awaits.n + count_parts(e, &k->awaits) +
		      sent;
	c->n_behind = c->n_lanes + 1 + c->n_own + count_parts(e, &k->results) + sent;
	return has_room(&c->times, FF_SLOT_MEMOS * (c->n_before + c->n_behind), &c->cap_times);
}

/* Of each of some operators whether what has arrived may delay anything, and if it may, when. */
static double *note_arrived(const struct ff_trial *e, const struct ff_pipe_slot_nodes *l,
		const double **captured, double base, double *at)
{
	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t n = node_of(e, &l->at[i])->n;

		*at = subtract_later(n, *captured, base, at + 1);
		*captured += n;
		at += 1 + n;
	}
	return at;
}

/* Lanes before it, as far as they may delay anything, and all it may wait for; behind that is the
 * end. */
static double *note_before(struct ff_trial *e, uint32_t slot, const struct ff_slot_memos *c,
		double base, double *at)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	const double *captured = e->slots.captured;
	uint32_t n_read = count_read(e, slot);

	for (uint32_t i = 0; i < c->n_runs; i++) {
		const struct ff_lanes *r = &c->run[i];

		if (i < c->n_own_runs)
			subtract(r->n, e->slots.lane + r->first, base, at);
		else
			subtract_later(r->n, e->slots.lane + r->first, base, at);
		at += r->n;
	}
	subtract(n_read, captured, base, at);
	captured += n_read;
	at = note_arrived(e, &k->awaits, &captured, base, at + n_read);
	return note_arrived(e, &k->sends, &captured, base, at);
}

/* Lanes behind it; whether devices were idle in it, and for how long; the last of them is free
 * then. */
static double *note_lanes(const struct ff_trial *e, const struct ff_slot_memos *c, double base,
		double *at, double *most)
{
	double *idles;

	for (uint32_t i = 0; i < c->n_runs; i++) {
		subtract(c->run[i].n, e->times.lane + c->run[i].first, base, at);
		*most = latest(c->run[i].n, at, *most);
		at += c->run[i].n;
	}
	idles = at++;
	*idles = 0;
	for (uint32_t i = 0; i < c->n_own_runs; i++)
		for (uint32_t d = c->run[i].first; d < c->run[i].first + c->run[i].n; d++, at++) {
			*at = e->times.idle[d] - e->slots.idle[d];
			*idles = later(*idles, *at);
		}
	return at;
}

static void note_sent(const struct ff_trial *e, uint32_t micro, const struct ff_pipe_slot_nodes *l,
		double base, double *at)
{
	for (uint32_t i = 0; i < l->n; i++) {
		const struct ff_timed_node *t = node_of(e, &l->at[i]);

		*at = t->arrived[micro] &&
		      subtract_later(t->n, ff_timed_ready(t, micro), base, at + 1);
		at += 1 + t->n;
	}
}

/* What it leaves, which none has before it; `most`: when the last lane is free. */
static void note_behind(struct ff_trial *e, uint32_t slot, const struct ff_slot_memos *c,
		double base, double *at, double *most)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	uint32_t micro = ff_pipe_slot_micro(e, slot);

	at = note_lanes(e, c, base, at, most);
	for (uint32_t i = 0; i < k->results.n; i++) {
		const struct ff_timed_node *t = node_of(e, &k->results.at[i]);

		subtract(t->n, ff_time_finish(e, t, micro), base, at);
		at += t->n;
	}
	note_sent(e, micro, &k->sends, base, at);
}

void ff_slot_memos_record(struct ff_trial *e, uint32_t slot, struct ff_slot_memos *c)
{
	double base, most = 0, *at;

	if (!c->n && !begin_memos(e, slot, c))
		return;
	base = earliest(count_read(e, slot), e->slots.captured, first_free(c, e->slots.lane));
	at = c->times + (size_t)c->next * (c->n_before + c->n_behind);
	at = note_before(e, slot, c, base, at);
	note_behind(e, slot, c, base, at, &most);
	if (base + most >= FF_TIMES_EXACT_US) {
		c->n = 0; /* another one may have stood there */
		return;
	}
	c->most_us[c->next] = most;
	c->last = c->next;
	c->next = (c->next + 1) % FF_SLOT_MEMOS;
	c->n = c->n < FF_SLOT_MEMOS ? c->n + 1 : c->n;
}

/* ---- whether it begins as another one did ---- */

FF_CLONES static int64_t count_others(
		uint32_t n, const double *x, double base, const double *restrict was)
{
	int64_t others = 0;

	for (uint32_t i = 0; i < n; i++)
		others += x[i] - base != was[i];
	return others;
}

FF_CLONES static int64_t count_others_later(
		uint32_t n, const double *x, double base, const double *restrict was)
{
	int64_t others = 0;

	for (uint32_t i = 0; i < n; i++)
		others += (x[i] > base ? x[i] - base : 0) != was[i];
	return others;
}

/* Whether lanes are as they were; *at behind them. */
static bool same_lanes(const struct ff_trial *e, const struct ff_slot_memos *c, double base,
		const double **at)
{
	const double *lane = e->times.lane;
	int64_t others = 0;

	for (uint32_t i = 0; i < c->n_runs && !others; i++) {
		const struct ff_lanes *r = &c->run[i];

		others = i < c->n_own_runs ? count_others(r->n, lane + r->first, base, *at)
					   : count_others_later(r->n, lane + r->first, base, *at);
		*at += r->n;
	}
	return !others;
}

static bool same_read(const struct ff_trial *e, uint32_t slot, uint32_t micro, double base,
		const double **at)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	bool same = true;

	for (uint32_t i = 0; i < k->reads.n && same; i++) {
		const double *finish = read_at(e, slot, i, micro);
		uint32_t n = node_of(e, &k->reads.at[i])->n;

		if (!finish)
			continue;
		same = !count_others(n, finish, base, *at);
		*at += n;
	}
	return same;
}

static bool same_arrived(const struct ff_trial *e, const struct ff_pipe_slot_nodes *l,
		uint32_t micro, double base, const double **at)
{
	bool same = true;

	for (uint32_t i = 0; i < l->n && same; i++) {
		const struct ff_timed_node *t = node_of(e, &l->at[i]);
		const double *ready = ff_timed_ready(t, micro);

		if (**at > 0)
			same = t->arrived[micro] && !count_others_later(t->n, ready, base, *at + 1);
		else
			same = !t->arrived[micro] || latest(t->n, ready, 0) <= base;
		*at += 1 + t->n;
	}
	return same;
}

/* Of memo number `which`; *at: behind what was before it. */
static bool begins_so(const struct ff_trial *e, uint32_t slot, const struct ff_slot_memos *c,
		uint32_t which, double base, const double **at)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	uint32_t micro = ff_pipe_slot_micro(e, slot);

	*at = c->times + (size_t)which * (c->n_before + c->n_behind);
	return base + c->most_us[which] < FF_TIMES_EXACT_US && same_lanes(e, c, base, at) &&
	       same_read(e, slot, micro, base, at) &&
	       same_arrived(e, &k->awaits, micro, base, at) &&
	       same_arrived(e, &k->sends, micro, base, at);
}

/* ---- as it went before ---- */

FF_CLONES static void add_each(uint32_t n, const double *x, double base, double *restrict ret)
{
	for (uint32_t i = 0; i < n; i++)
		ret[i] = base + x[i];
}

static void idle_on(struct ff_trial *e, const struct ff_slot_memos *c, const double *at)
{
	for (uint32_t i = 0; i < c->n_own_runs; i++)
		for (uint32_t d = c->run[i].first; d < c->run[i].first + c->run[i].n; d++) {
			e->times.idle[d] += *at++;
			if (e->times.idle[d] + e->busy.known[d] > e->busy.most_us)
				e->busy.too_slow = true;
		}
}

static const double *move_lanes_on(
		struct ff_trial *e, const struct ff_slot_memos *c, double base, const double *at)
{
	for (uint32_t i = 0; i < c->n_runs; i++) {
		add_each(c->run[i].n, at, base, e->times.lane + c->run[i].first);
		at += c->run[i].n;
	}
	if (*at++ > 0)
		idle_on(e, c, at);
	return at + c->n_own;
}

/* Sends what the slot has sent. */
static const double *send(struct ff_trial *e, struct ff_timed_node *t, uint32_t micro, double base,
		const double *at)
{
	bool any = *at++ > 0;
	double *ready = any ? ff_time_expect(e, t, micro) : NULL;

	for (uint32_t p = 0; p < t->n && any; p++)
		ready[p] = at[p] > 0 ? later(ready[p], base + at[p]) : ready[p];
	return at + t->n;
}

/* Does the slot at once, as noted at `at`. */
static void replay(struct ff_trial *e, uint32_t slot, const struct ff_slot_memos *c, double base,
		const double *at)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	uint32_t micro = ff_pipe_slot_micro(e, slot);

	at = move_lanes_on(e, c, base, at);
	for (uint32_t i = 0; i < k->awaits.n; i++)
		if (node_of(e, &k->awaits.at[i])->arrived[micro])
			ff_time_forget(node_of(e, &k->awaits.at[i]), micro);
	for (uint32_t i = 0; i < k->results.n; i++) {
		struct ff_timed_node *t = node_of(e, &k->results.at[i]);

		t->stretched[micro].in = FF_NONE;
		add_each(t->n, at, base, t->finish + (size_t)micro * t->n);
		at += t->n;
	}
	for (uint32_t i = 0; i < k->sends.n; i++)
		at = send(e, node_of(e, &k->sends.at[i]), micro, base, at);
	e->slots.n_folded += k->n;
}

bool ff_slot_memos_replay(struct ff_trial *e, uint32_t slot, struct ff_slot_memos *c)
{
	const struct ff_pipe_slot_kind *k = ff_pipe_slot_kind_of(e, slot);
	double base = first_free(c, e->times.lane);
	const double *at;

	for (uint32_t i = 0; i < k->reads.n; i++) {
		at = read_at(e, slot, i, ff_pipe_slot_micro(e, slot));
		base = at ? earliest(node_of(e, &k->reads.at[i])->n, at, base) : base;
	}
	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t which = (c->last + i) % c->n;

		if (!begins_so(e, slot, c, which, base, &at))
			continue;
		c->last = which;
		replay(e, slot, c, base, at);
		return true;
	}
	return false;
}
