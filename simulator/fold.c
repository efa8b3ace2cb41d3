/* Folding: equal micro-batches are timed until one takes no other course than the one before,
 * and then as many as there are more of them at once.
 *
 * A step starts when the latest of several times has come and ends so much later: from one
 * time of a run to the next the same maxima and sums are taken, of the times that are still
 * to be read: when lanes are free, when paced computes ended, and what was moved to, or
 * computed by, operators of other stages.  Where all of these are later by the same amount
 * than they were one time before, so they will be after every further time, exactly, as
 * prices are whole steps (ff/price.h) and sums of them are exact.  The same holds of two
 * times together, or three, where the course is another each time but comes back.  A lane
 * that is not used stays as it is: every task takes some time, so one that is used moves on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

int ff_fold_create(struct ff_evaluator *e, struct ff_error *err)
{
	size_t lanes = ff_lane_count(e->m), paced = FF_PACE * (size_t)e->m->n_devices;

	e->fold.at = FF_NONE;
	for (int i = 0; i < FF_FOLD_BACK; i++) {
		struct ff_folding_base *b = &e->fold.base[i];

		b->lane = ff_arena_array(&e->arena, lanes, sizeof(*b->lane));
		b->idle = ff_arena_array(&e->arena, lanes, sizeof(*b->idle));
		b->paced = ff_arena_array(&e->arena, paced, sizeof(*b->paced));
		if (!b->lane || !b->idle || !b->paced)
			return ff_fail_memory(err);
	}
	return FF_OK;
}

void ff_evaluator_fold(struct ff_evaluator *e, bool on)
{
	e->fold.off = !on;
}

/* ---- runs ---- */

/* The step that does for the next micro-batch what step `i` does; FF_NONE: none does, or one
 * of the two is in the first micro-batch or the last. */
static uint32_t successor(const struct ff_program *p, uint32_t i)
{
	const struct ff_step *s = &p->step[i];

	if (s->micro == 0 || s->micro + 2 >= p->micro_batches)
		return FF_NONE;
	if (s->kind == FF_STEP_MOVES)
		return ff_program_moves(p, s->phase, s->micro + 1, s->id);
	return s->kind == FF_STEP_COMPUTE ? ff_program_compute(p, s->phase, s->micro + 1, s->id)
					  : FF_NONE;
}

/* How many steps from `i` on come back `period` steps later. */
static uint32_t count_repeated(const struct ff_program *p, uint32_t i, uint32_t period)
{
	uint32_t n = 0;

	while (i + n + period < p->n && successor(p, i + n) == i + n + period &&
			p->step[i + n].paced == p->step[i + n + period].paced)
		n++;
	return n;
}

static void find_runs(struct ff_evaluator *e)
{
	const struct ff_program *p = &e->program;
	struct ff_folding *f = &e->fold;
	uint32_t i = 0;

	f->n_runs = 0;
	while (i < p->n && f->n_runs < FF_RUNS && !f->off && p->micro_batches > 3) {
		uint32_t next = successor(p, i), period = next - i, n = 0;

		if (next != FF_NONE && next > i)
			n = count_repeated(p, i, period);
		if (n > 0 && n >= period) {
			n = n / period + 1;
			f->run[f->n_runs++] = (struct ff_run){i, period, n, false, true, 0, NULL};
			i += n * period;
		} else {
			i += n ? n : 1; /* no run with this period begins before */
		}
	}
}

/* ---- what goes from one time to the next ---- */

/* One run while its live times are listed. */
struct listing {
	struct ff_evaluator *e;
	struct ff_run *run;
	uint32_t low, high; /* micro-batches of its first time */
	uint32_t cap;
};

static bool within(const struct ff_run *r, uint32_t step)
{
	return step >= r->first && step < r->first + r->period;
}

static void add(struct listing *l, struct ff_saved v)
{
	if (l->run->live)
		l->run->live[l->run->n_live] = v;
	l->run->n_live++;
}

/* What steps `wrote` write and steps `reads` read, both by micro-batch with so many between. */
static void list(struct listing *l, struct ff_timed_node *t, bool ready, const uint32_t *wrote,
		size_t every_wrote, const uint32_t *reads, size_t every_read)
{
	bool in_run[2] = {false, false}, some = false;

	for (uint32_t k = l->low; k <= l->high; k++) {
		uint32_t w = wrote[k * every_wrote], r = reads[k * every_read];

		some = some || (w != FF_NONE && r != FF_NONE);
		in_run[0] = in_run[0] || within(l->run, w);
		in_run[1] = in_run[1] || within(l->run, r);
	}
	if (some && in_run[0] != in_run[1]) /* piles up, or was there before */
		l->run->still = false;
	for (uint32_t k = l->low; k <= l->high && some && in_run[0] && in_run[1]; k++)
		if (wrote[k * every_wrote] < l->run->first &&
				reads[k * every_read] >= l->run->first)
			add(l, (struct ff_saved){.node = t, .micro = k, .ready = ready});
}

/* Of what is moved over `edge` in `phase` from `from` to `to`, which reads it in `reader`. */
static void list_moved(struct listing *l, enum ff_phase phase, uint32_t edge, uint32_t from,
		uint32_t to, enum ff_phase reader)
{
	const struct ff_evaluator *e = l->e;
	const struct ff_program *p = &e->program;
	const uint32_t *moves = p->moves[phase] + edge;

	if (ff_node_is_computed(e->g, from))
		list(l, &e->timed[phase][from], false, p->compute[phase] + from, p->n_nodes, moves,
				p->n_edges);
	if (ff_node_is_computed(e->g, to))
		list(l, &e->timed[reader][to], true, moves, p->n_edges, p->compute[reader] + to,
				p->n_nodes);
}

static void list_edge(struct listing *l, uint32_t edge)
{
	const struct ff_evaluator *e = l->e;
	const struct ff_program *p = &e->program;
	uint32_t from = ff_edge_source(e->g, edge), to = e->g->edges[edge].node;
	uint32_t first = e->g->edges[e->first_edge[e->g->edges[edge].value]].node, reader;

	list_moved(l, FF_PHASE_FORWARD, edge, from, to, FF_PHASE_FORWARD);
	reader = ff_time_reader(e, edge);
	list_moved(l, FF_PHASE_RECOMPUTE, edge, from, reader, ff_time_reads_again(e, reader));
	list_moved(l, FF_PHASE_BACKWARD, edge, to, from, FF_PHASE_BACKWARD);
	if (first != to) /* what the first use has written is added to */
		list(l, &e->timed[FF_PHASE_BACKWARD][first], false,
				p->compute[FF_PHASE_BACKWARD] + first, p->n_nodes,
				p->moves[FF_PHASE_BACKWARD] + edge, p->n_edges);
}

static void list_run(struct listing *l)
{
	const struct ff_step *step = l->e->program.step + l->run->first;

	l->low = FF_NONE;
	l->high = l->run->n_live = 0;
	for (uint32_t i = 0; i < l->run->period; i++) {
		l->low = step[i].micro < l->low ? step[i].micro : l->low;
		l->high = step[i].micro > l->high ? step[i].micro : l->high;
		l->run->paced = l->run->paced || step[i].paced;
	}
	for (uint32_t k = 0; k < l->e->g->n_edges; k++)
		list_edge(l, k);
}

/* Later micro-batches of one node first: they make room for those before. */
static int by_node(const void *a, const void *b)
{
	const struct ff_saved *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->ready != y->ready)
		return x->ready ? -1 : 1;
	return (x->micro < y->micro) - (x->micro > y->micro);
}

static int list_live(struct ff_evaluator *e, struct ff_run *r, struct ff_error *err)
{
	struct listing l = {.e = e, .run = r};
	size_t room = FF_FOLD_BACK * (size_t)e->m->n_devices;
	uint32_t n = 0;
	double *times;

	list_run(&l);
	if (!r->n_live || !r->still)
		return FF_OK;
	r->live = ff_arena_array(&e->order_arena, r->n_live, sizeof(*r->live));
	if (!r->live)
		return ff_fail_memory(err);
	list_run(&l);
	qsort(r->live, r->n_live, sizeof(*r->live), by_node);
	for (uint32_t i = 0; i < r->n_live; i++)
		if (!n || by_node(&r->live[n - 1], &r->live[i]))
			r->live[n++] = r->live[i];
	r->n_live = n;
	times = ff_arena_array(&e->order_arena, n * room, sizeof(*times));
	for (uint32_t i = 0; i < n && times; i++)
		r->live[i].times = times + i * room;
	return times ? FF_OK : ff_fail_memory(err);
}

int ff_fold_plan(struct ff_evaluator *e, struct ff_error *err)
{
	int code = FF_OK;

	find_runs(e);
	for (uint32_t i = 0; i < e->fold.n_runs && code == FF_OK; i++)
		code = list_live(e, &e->fold.run[i], err);
	return code;
}

/* ---- the pass ---- */

static double *times_of(const struct ff_saved *v, uint32_t times)
{
	return (v->ready ? v->node->ready : v->node->finish) +
	       (size_t)(v->micro + times) * v->node->n;
}

/* What they were when the run began for the time number `times`. */
static double *times_then(const struct ff_evaluator *e, const struct ff_saved *v, uint32_t times)
{
	return v->times + times % FF_FOLD_BACK * (size_t)e->m->n_devices;
}

/* What stands there when the run begins for the time number `times`. */
static void keep(struct ff_evaluator *e, const struct ff_run *r, uint32_t times)
{
	const struct ff_folding_base *b = &e->fold.base[times % FF_FOLD_BACK];
	size_t size = ff_lane_count(e->m) * sizeof(*b->lane);

	memcpy(b->lane, e->lane, size);
	memcpy(b->idle, e->idle, size);
	if (r->paced)
		memcpy(b->paced, e->paced, FF_PACE * (size_t)e->m->n_devices * sizeof(*b->paced));
	for (uint32_t i = 0; i < r->n_live; i++)
		memcpy(times_then(e, &r->live[i], times), times_of(&r->live[i], times),
				r->live[i].node->n * sizeof(double));
}

/* Whether the paced computes of a device are not the run's, and no move waits for them. */
static bool paced_rests(const struct ff_evaluator *e, const struct ff_folding_base *b,
		uint32_t device, double earliest)
{
	const double *now = &e->paced[(size_t)FF_PACE * device];

	return now[0] == b->paced[(size_t)FF_PACE * device] && now[0] <= earliest;
}

static bool paced_moved_on(const struct ff_evaluator *e, const struct ff_folding_base *b, double by,
		double earliest)
{
	bool alike = true;

	for (uint32_t d = 0; d < e->m->n_devices && alike; d++)
		for (uint32_t k = FF_PACE * d; k < FF_PACE * (d + 1) && alike; k++)
			alike = e->paced[k] - b->paced[k] == by || paced_rests(e, b, d, earliest);
	return alike;
}

static bool live_moved_on(const struct ff_evaluator *e, const struct ff_run *r, uint32_t times,
		uint32_t since, double by)
{
	bool alike = true;

	for (uint32_t i = 0; i < r->n_live && alike; i++) {
		const double *was = times_then(e, &r->live[i], since);
		const double *now = times_of(&r->live[i], times);

		for (uint32_t p = 0; p < r->live[i].node->n && alike; p++)
			alike = now[p] - was[p] == by || (now[p] == 0 && was[p] == 0);
	}
	return alike;
}

/* By how much all is later than when time `since` began; 0: not all by the same. */
static double moved_on(const struct ff_evaluator *e, const struct ff_run *r, uint32_t times,
		uint32_t since)
{
	const struct ff_folding_base *b = &e->fold.base[since % FF_FOLD_BACK];
	uint32_t lanes = ff_lane_count(e->m);
	double by = 0, earliest = 0, last = 0;

	for (uint32_t i = 0; i < lanes; i++) {
		double d = e->lane[i] - b->lane[i];

		last = e->lane[i] > last ? e->lane[i] : last;
		if (d == 0)
			continue;
		if (by > 0 && d != by)
			return 0;
		if (by == 0 || b->lane[i] < earliest)
			earliest = b->lane[i];
		by = d;
	}
	if (last + by * r->n >= FF_TIMES_EXACT_US)
		return 0;
	if (r->paced && e->m->overlap && !paced_moved_on(e, b, by, earliest))
		return 0;
	return live_moved_on(e, r, times, since, by) ? by : 0;
}

static void skip_live(struct ff_evaluator *e, const struct ff_saved *v, uint32_t from, uint32_t n,
		double later)
{
	double *was = times_of(v, from), *now = times_of(v, from + n);

	if (v->ready) {
		if (!v->node->arrived[v->micro + from])
			return;
		ff_time_expect(e, v->node, v->micro + from + n);
	}
	for (uint32_t p = 0; p < v->node->n; p++)
		now[p] = was[p] > 0 ? was[p] + later : 0;
	if (v->ready)
		ff_time_forget(v->node, v->micro + from);
}

/* Goes through the run's times from `times` on at once, as often as those from `since` on
 * were gone through until now, `n` times.  All get later by `by` each time. */
static void skip(struct ff_evaluator *e, const struct ff_run *r, uint32_t times, uint32_t since,
		uint32_t n, double by)
{
	const struct ff_folding_base *b = &e->fold.base[since % FF_FOLD_BACK];
	uint32_t lanes = ff_lane_count(e->m), left_out = n * (times - since);

	for (uint32_t i = 0; i < lanes; i++) {
		if (e->lane[i] == b->lane[i])
			continue;
		e->lane[i] += n * by;
		e->idle[i] += n * (e->idle[i] - b->idle[i]);
		if (i < e->m->n_devices && e->idle[i] + e->busy_next[i] > e->most_us)
			e->too_slow = true;
	}
	for (uint32_t k = 0; k < FF_PACE * e->m->n_devices && r->paced; k++)
		if (e->paced[k] != b->paced[k])
			e->paced[k] += n * by;
	for (uint32_t i = 0; i < r->n_live; i++)
		skip_live(e, &r->live[i], times, left_out, n * by);
	e->fold.n_folded += (uint64_t)left_out * r->period;
}

static void await(struct ff_folding *f, uint32_t run)
{
	while (run < f->n_runs && !f->run[run].still)
		run++;
	f->next = run;
	f->times = 0;
	f->at = run < f->n_runs ? f->run[run].first : FF_NONE;
}

void ff_fold_begin(struct ff_evaluator *e)
{
	await(&e->fold, 0);
	e->fold.n_timed += e->fold.at != FF_NONE;
}

uint32_t ff_fold_reach(struct ff_evaluator *e, uint32_t i)
{
	struct ff_folding *f = &e->fold;
	const struct ff_run *r = &f->run[f->next];
	uint32_t times = f->times++, most = times < FF_FOLD_BACK ? times : FF_FOLD_BACK;

	for (uint32_t k = 1; k <= most && times + k <= r->n; k++) {
		double by = moved_on(e, r, times, times - k);
		uint32_t n = (r->n - times) / k;

		if (by == 0)
			continue;
		skip(e, r, times, times - k, n, by);
		await(f, f->next + 1);
		return r->first + (times + n * k) * r->period;
	}
	keep(e, r, times);
	f->at = r->first + f->times * r->period;
	if (f->times == r->n)
		await(f, f->next + 1);
	return i;
}
