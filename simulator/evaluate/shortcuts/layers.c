/* Layers: a deep network has many equal ones, and a step goes through them one after another.
 * They are timed until one takes no other course than the one before, and then as many as there
 * are more of them at once.
 *
 * As of micro-batches (fold.c), the same maxima and sums are taken of the times that are still to
 * be read: where all of these are later by the same amount than they were one layer before, so they
 * will be after every further layer that has the same blocks, exactly.  To be read are clocks of
 * lanes, what was moved to operators of later layers, and what operators of the layer before have
 * computed.  What is read behind all layers alone (when buckets are summed, and when they are
 * closed) is written for those that are left out.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <string.h>

#include "alike.h"
#include "base.h"
#include "evaluate/place.h"
#include "ff/program_phases.h"
#include "layer_runs.h"
#include "stretch.h"

#define MOST_LIVE 64  /* of what one layer computes, times that the next one reads */
#define MOST_WAIT 16u /* layers that are not looked at, where others took another course */

int ff_layers_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_layering *x = &e->layers;
	size_t devices = e->m->n_devices;
	double *room = ff_arena_array(&e->arena, FF_MOST_PENDING * devices, sizeof(*room));

	x->at = FF_NONE;
	x->live = ff_arena_array(&e->arena, MOST_LIVE * devices, sizeof(*x->live));
	x->ahead = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*x->ahead));
	x->behind = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*x->behind));
	if (!room || !x->live || !x->ahead || !x->behind)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < FF_MOST_PENDING; i++)
		x->was[i].times = room + i * devices;
	return ff_base_create(e, &x->base, err);
}

static const struct ff_layer_run *run_of(const struct ff_trial *e)
{
	return &e->order.layers.run[e->layers.next];
}

static uint32_t begins(const struct ff_layer_run *r, uint32_t times)
{
	return r->first + times * r->period;
}

/* The node in the place of `node`, so many layers further in the run. */
static uint32_t further(const struct ff_trial *e, const struct ff_layer_run *r, uint32_t node,
		uint32_t layers)
{
	uint32_t by = layers * e->order.layers.nodes;

	return r->back ? node - by : node + by;
}

/* ---- what has arrived ---- */

static struct ff_pending pending_at(const struct ff_trial *e, struct ff_arrival at)
{
	struct ff_pending v = {.at = at};

	for (int k = 0; k < FF_PHASE_COUNT; k++)
		if (at.node >= e->times.node[k] && at.node < e->times.node[k] + e->g->n_nodes) {
			v.phase = (enum ff_phase)k;
			v.node = (uint32_t)(at.node - e->times.node[k]);
		}
	v.read = ff_program_compute(&e->order.program, v.phase, at.micro, v.node);
	return v;
}

/* What waits now; false: it is too much. */
static bool list_pending(struct ff_trial *e)
{
	struct ff_layering *x = &e->layers;
	uint32_t n = 0;

	if (x->n_arrivals > e->times.n_arrivals) /* some were taken back */
		x->n_arrivals = x->n_now = 0;
	for (uint32_t i = 0; i < x->n_now; i++)
		if (x->now[i].at.node->arrived[x->now[i].at.micro])
			x->now[n++] = x->now[i];
	x->n_now = n;
	for (; x->n_arrivals < e->times.n_arrivals; x->n_arrivals++) {
		struct ff_arrival at = e->order.arrival[x->n_arrivals];

		if (!at.node->arrived[at.micro])
			continue;
		if (x->n_now == FF_MOST_PENDING)
			return false;
		x->now[x->n_now++] = pending_at(e, at);
	}
	return true;
}

static bool is_later(const struct ff_pending *now, const struct ff_pending *was, double by)
{
	const double *ready = ff_timed_ready(now->at.node, now->at.micro);
	bool alike = now->at.node->n == was->at.node->n &&
		     now->at.node->device == was->at.node->device;

	for (uint32_t p = 0; p < now->at.node->n && alike; p++)
		alike = ready[p] - was->times[p] == by || (ready[p] == 0 && was->times[p] == 0);
	return alike;
}

/* What waited one layer before for `node` in this phase and micro-batch; NULL: nothing did. */
static const struct ff_pending *waited(
		const struct ff_layering *x, const struct ff_pending *now, uint32_t node)
{
	for (uint32_t i = 0; i < x->n_was; i++)
		if (x->was[i].node == node && x->was[i].phase == now->phase &&
				x->was[i].at.micro == now->at.micro)
			return &x->was[i];
	return NULL;
}

static bool is_within(const struct ff_pending *v, const struct ff_layer_run *r)
{
	return v->read >= r->first && v->read < begins(r, r->n);
}

/* Whether for each layer waits what waited for the one before, later by `by`; what the run does not
 * read waits as it did. */
static bool pending_moved_on(const struct ff_trial *e, const struct ff_layer_run *r, double by)
{
	const struct ff_layering *x = &e->layers;
	bool alike = x->n_now == x->n_was;

	for (uint32_t i = 0; i < x->n_now && alike; i++) {
		const struct ff_pending *now = &x->now[i];
		bool within = is_within(now, r);
		uint32_t back = r->back ? now->node + e->order.layers.nodes
					: now->node - e->order.layers.nodes;
		const struct ff_pending *was = waited(x, now, within ? back : now->node);

		alike = was && is_within(was, r) == within && is_later(now, was, within ? by : 0);
	}
	return alike;
}

/* ---- as it was a layer before ---- */

static double *live_at(const struct ff_trial *e, const struct ff_layer_run *r, uint32_t i,
		uint32_t times, const struct ff_timed_node **node)
{
	uint32_t micro = e->order.program.step[r->first].micro;

	*node = &e->times.node[r->live[i].phase][further(e, r, r->live[i].node, times - 1)];
	return ff_time_finish(e, *node, micro);
}

/* Before the time number `times`. */
static void keep(struct ff_trial *e, const struct ff_layer_run *r, uint32_t times)
{
	struct ff_layering *x = &e->layers;

	ff_base_keep(e, &x->base, r->limited);
	for (uint32_t i = 0; i < r->n_live; i++) {
		const struct ff_timed_node *t;
		const double *finish = live_at(e, r, i, times, &t);

		memcpy(x->live + i * (size_t)e->m->n_devices, finish, t->n * sizeof(*finish));
	}
	x->n_was = x->n_now;
	for (uint32_t i = 0; i < x->n_now; i++) {
		struct ff_pending *was = &x->was[i];
		double *room = was->times;

		*was = x->now[i];
		was->times = room;
		memcpy(room, ff_timed_ready(was->at.node, was->at.micro),
				was->at.node->n * sizeof(*room));
	}
	x->kept = true;
}

static bool live_moved_on(
		const struct ff_trial *e, const struct ff_layer_run *r, uint32_t times, double by)
{
	bool alike = true;

	for (uint32_t i = 0; i < r->n_live && alike; i++) {
		const double *was = e->layers.live + i * (size_t)e->m->n_devices;
		const struct ff_timed_node *t;
		const double *now = live_at(e, r, i, times, &t);

		for (uint32_t p = 0; p < t->n && alike; p++)
			alike = now[p] - was[p] == by;
	}
	return alike;
}

static bool moved_on(
		const struct ff_trial *e, const struct ff_layer_run *r, uint32_t times, double *by)
{
	return ff_base_moved_on(e, &e->layers.base, r->limited, r->n, by) &&
	       live_moved_on(e, r, times, *by) && pending_moved_on(e, r, *by);
}

/* ---- layers that are left out ---- */

/* When buckets of `node` are summed, as they were `layers` layers before, so much earlier. */
static void close_further(struct ff_trial *e, const struct ff_step *s, uint32_t node, double by)
{
	struct ff_gathered *g = ff_trial_gathered(e);
	uint32_t a = g->synced.first_at[s->id], b = g->synced.first_at[node];

	if (!s->limited)
		e->early.closed_next[node] = e->early.closed_next[s->id] + by;
	for (; a != FF_NONE && b != FF_NONE;
			a = g->synced.bucket[a].next_at, b = g->synced.bucket[b].next_at)
		if (s->limited == (g->synced.bucket[a].way.stage > 0))
			g->timed[b].done_us =
					g->timed[a].done_us > 0 ? g->timed[a].done_us + by : 0;
}

/* What is read behind the run, of `n` layers behind the time before `times`. */
static void close_all(struct ff_trial *e, const struct ff_layer_run *r, uint32_t times, uint32_t n,
		double by)
{
	const struct ff_step *step = e->order.program.step;

	for (uint32_t i = begins(r, times - 1); i < begins(r, times); i++)
		for (uint32_t k = 1; k <= n && step[i].kind == FF_STEP_SYNC; k++)
			close_further(e, &step[i], further(e, r, step[i].id, k), k * by);
}

static void skip_live(struct ff_trial *e, const struct ff_layer_run *r, uint32_t times, uint32_t n,
		double by)
{
	for (uint32_t i = 0; i < r->n_live; i++) {
		const struct ff_timed_node *t;
		const double *was = live_at(e, r, i, times, &t);
		double *now = live_at(e, r, i, times + n, &t);

		for (uint32_t p = 0; p < t->n; p++)
			now[p] = was[p] + n * by;
	}
}

/* What waits is as it was kept just now. */
static void skip_pending(struct ff_trial *e, const struct ff_layer_run *r, uint32_t n, double by)
{
	struct ff_layering *x = &e->layers;

	for (uint32_t i = 0; i < x->n_was; i++)
		if (is_within(&x->was[i], r))
			ff_time_forget(x->was[i].at.node, x->was[i].at.micro);
	for (uint32_t i = 0; i < x->n_was; i++) {
		const struct ff_pending *was = &x->was[i];
		struct ff_arrival at = was->at;
		double *ready;

		if (!is_within(was, r))
			continue;
		at.node = &e->times.node[was->phase][further(e, r, was->node, n)];
		ready = ff_time_expect(e, at.node, at.micro);
		for (uint32_t p = 0; p < at.node->n; p++)
			ready[p] = was->times[p] > 0 ? was->times[p] + n * by : 0;
		x->now[i] = pending_at(e, at);
	}
	x->n_arrivals = e->times.n_arrivals;
}

/* How many layers from the time number `times` on take the course of the one before. */
static uint32_t count_further(const struct ff_trial *e, const struct ff_layer_run *r,
		uint32_t times, uint32_t end)
{
	uint32_t from = begins(r, times), alike = ff_alike_from(e, r, times - 2);
	uint32_t n = r->n - FF_LAYERS_LAST - times;

	n = alike < n + 1 ? (alike ? alike - 1 : 0) : n;
	if (end <= from)
		return 0;
	n = (end - from) / r->period < n ? (end - from) / r->period : n;
	for (uint32_t i = 0; i < e->layers.n_now; i++) {
		const struct ff_pending *v = &e->layers.now[i];

		while (n && is_within(v, r) && v->read + n * r->period >= begins(r, r->n))
			n--;
	}
	return n;
}

/* What is moved is known in all of them: they have the block of the time before. */
static void resolve(struct ff_trial *e, const struct ff_layer_run *r, uint32_t times, uint32_t n)
{
	uint32_t by = e->order.layers.edges;

	for (uint32_t i = begins(r, times - 1); i < begins(r, times); i++) {
		const struct ff_step *s = &e->order.program.step[i];

		for (uint32_t k = 1; k <= n && s->kind == FF_STEP_MOVES; k++)
			ff_place_resolve(e, r->back ? s->id - k * by : s->id + k * by,
					ff_phase_pass(s->phase), NULL);
	}
}

static void skip(struct ff_trial *e, const struct ff_layer_run *r, uint32_t times, uint32_t n,
		double by)
{
	ff_base_go_on(e, &e->layers.base, r->limited, n);
	resolve(e, r, times, n);
	close_all(e, r, times, n, by);
	keep(e, r, times);
	skip_pending(e, r, n, by);
	skip_live(e, r, times, n, by);
	e->layers.n_folded += (uint64_t)n * r->period;
}

/* ---- the pass ---- */

void ff_layers_seek(struct ff_trial *e, uint32_t i)
{
	const struct ff_layers *l = &e->order.layers;
	struct ff_layering *x = &e->layers;
	uint32_t k = x->next < l->n_runs && i >= l->run[x->next].first ? x->next : 0;

	x->kept = false;
	x->wait = x->fails = 0;
	x->at = FF_NONE;
	while (k < l->n_runs && (!l->run[k].still || l->run[k].n_live > MOST_LIVE ||
						i + 3 * l->run[k].period >=
								begins(&l->run[k], l->run[k].n)))
		k++;
	x->next = k;
	if (k == l->n_runs || x->off)
		return;
	x->times = 1;
	while (begins(&l->run[k], x->times) < i)
		x->times++;
	x->at = begins(&l->run[k], x->times);
}

void ff_layers_begin(struct ff_trial *e)
{
	e->layers.known = false;
	e->layers.n_arrivals = e->layers.n_now = 0;
}

/* The pass asks again before the time number `times`, or in the next run. */
static void ask_at(struct ff_trial *e, uint32_t times)
{
	struct ff_layering *x = &e->layers;
	const struct ff_layer_run *r = run_of(e);

	if (times + FF_LAYERS_LAST >= r->n) {
		ff_layers_seek(e, begins(r, r->n));
		return;
	}
	x->times = times;
	x->at = begins(r, times);
}

/* One time behind another was kept; how many layers are left out. */
static uint32_t fold(struct ff_trial *e, const struct ff_layer_run *r, uint32_t end)
{
	struct ff_layering *x = &e->layers;
	uint32_t n = count_further(e, r, x->times, end);
	double by;

	if (!moved_on(e, r, x->times, &by)) {
		x->fails++;
		x->wait = x->fails < MOST_WAIT ? x->fails / 2 : MOST_WAIT;
		return 0;
	}
	x->fails = 0;
	if (n)
		skip(e, r, x->times, n, by);
	return n;
}

uint32_t ff_layers_reach(struct ff_trial *e, uint32_t i, uint32_t end)
{
	struct ff_layering *x = &e->layers;
	const struct ff_layer_run *r = run_of(e);
	uint32_t n = 0;

	if (x->wait > 0) {
		x->wait--;
		ask_at(e, x->times + 1);
		return i;
	}
	if (!x->known)
		ff_alike_find(e);
	x->known = true;
	if (ff_alike_from(e, r, x->times - 1) < 2 || !list_pending(e)) {
		x->kept = false;
		ask_at(e, x->times + 1);
		return i;
	}
	if (x->kept)
		n = fold(e, r, end);
	if (x->wait)
		x->kept = false;
	else
		keep(e, r, x->times + n);
	i = n ? begins(r, x->times + n) : i;
	ask_at(e, x->times + n + 1);
	return i;
}
