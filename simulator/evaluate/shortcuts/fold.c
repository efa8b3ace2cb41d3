/* Folding: equal micro-batches are timed until one takes no other course than the one before,
 * and then as many as there are more of them at once.
 *
 * A step starts when the latest of several times has come and ends so much later: from one
 * time of a run to the next the same maxima and sums are taken, of the times that are still
 * to be read: when lanes are free, when limited computes ended, and what was moved to, or
 * computed by, operators of other stages.  Where all of these are later by the same amount
 * than they were one time before, so they will be after every further time, exactly, as
 * prices are whole steps (ff/price.h) and sums of them are exact.  The same holds of two
 * times together, or three, where the course is another each time but comes back.  A lane
 * that is not used stays as it is: every task takes some time, so one that is used moves on.
 *
 * Where they are later by amounts of their own, but by the same as the time before (a stage
 * is slower than those behind it, which work off what waits for them), they are for a while.
 * Maxima of sums are convex: on a line through the states before two times, the state
 * behind a time is never below the line, and if it is on it before those two and once
 * further on it is on it in between.  So it is tried: all go on as they did for n times,
 * one more time is timed, and if that takes the same course it was right.  If it does not
 * all that was found was too early at most, which is all that giving up needs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "ff/program_phases.h"
#include "stretch.h"

int ff_fold_create(struct ff_trial *e, struct ff_error *err)
{
	int code = FF_OK;

	e->fold.at = FF_NONE;
	for (int i = 0; i <= FF_FOLD_BACK && code == FF_OK; i++)
		code = ff_base_create(e, &e->fold.base[i], err);
	return code;
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
	if (s->kind == FF_STEP_GATHER)
		return ff_program_gathers(p, s->phase != FF_PHASE_FORWARD, s->micro + 1, s->id);
	if (s->kind == FF_STEP_SYNC)
		return ff_program_syncs(p, s->micro + 1, s->id);
	return s->kind == FF_STEP_COMPUTE ? ff_program_compute(p, s->phase, s->micro + 1, s->id)
					  : FF_NONE;
}

/* How many steps from `i` on come back `period` steps later. */
static uint32_t count_repeated(const struct ff_program *p, uint32_t i, uint32_t period)
{
	uint32_t n = 0;

	while (i + n + period < p->n && successor(p, i + n) == i + n + period &&
			p->step[i + n].limited == p->step[i + n + period].limited)
		n++;
	return n;
}

/* What goes from one time to the next is looked for between any two uses of a value.  Where there
 * are so many of them timing all is faster. */
#define MOST_USES 512

static bool has_many_uses(const struct ff_graph *g)
{
	bool many = false;

	for (uint32_t i = 0; i < g->n_values && !many; i++)
		many = g->values[i].n_uses > MOST_USES;
	return many;
}

static void find_runs(struct ff_trial *e)
{
	const struct ff_program *p = &e->order.program;
	struct ff_order *o = &e->order;
	uint32_t i = 0;

	o->n_runs = 0;
	if (e->fold.off || p->micro_batches <= 3 || has_many_uses(e->g))
		return;
	while (i < p->n && o->n_runs < FF_RUNS) {
		uint32_t next = successor(p, i), period = next - i, n = 0;

		if (next != FF_NONE && next > i)
			n = count_repeated(p, i, period);
		if (n > 0 && n >= period) {
			n = n / period + 1;
			o->run[o->n_runs++] = (struct ff_run){i, period, n, false, true, 0, NULL};
			i += n * period;
		} else {
			i += n ? n : 1; /* no run with this period begins before */
		}
	}
}

/* ---- what goes from one time to the next ---- */

/* One run while its live times are listed. */
struct listing {
	struct ff_trial *e;
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
	const struct ff_trial *e = l->e;
	const struct ff_program *p = &e->order.program;
	const uint32_t *moves = p->moves[phase] + edge;

	if (ff_node_is_computed(e->g, from))
		list(l, &e->times.node[phase][from], false, p->compute[phase] + from, p->n_nodes,
				moves, p->n_edges);
	if (ff_node_is_computed(e->g, to))
		list(l, &e->times.node[reader][to], true, moves, p->n_edges,
				p->compute[reader] + to, p->n_nodes);
}

/* What may be moved to who reads at `edge` for another use of the same value. */
static void list_taken(struct listing *l, uint32_t edge)
{
	const struct ff_trial *e = l->e;
	const struct ff_program *p = &e->order.program;
	const struct ff_value *v = &e->g->values[e->g->edges[edge].value];
	uint32_t to = e->g->edges[edge].node,
		 reader = ff_edge_reader(e->g, &e->order.program, edge);
	enum ff_phase recomputed = ff_node_reads_in(&e->order.program, reader);

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = e->g->uses[v->first_use + u];

		if (other == edge)
			continue;
		list(l, &e->times.node[FF_PHASE_FORWARD][to], true,
				p->moves[FF_PHASE_FORWARD] + other, p->n_edges,
				p->compute[FF_PHASE_FORWARD] + to, p->n_nodes);
		list(l, &e->times.node[recomputed][reader], true,
				p->moves[FF_PHASE_RECOMPUTE] + other, p->n_edges,
				p->compute[recomputed] + reader, p->n_nodes);
	}
}

/* What another use, visited before, may have written is added to. */
static void list_added(struct listing *l, uint32_t edge)
{
	const struct ff_trial *e = l->e;
	const struct ff_program *p = &e->order.program;
	const struct ff_value *v = &e->g->values[e->g->edges[edge].value];
	uint32_t to = e->g->edges[edge].node;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = e->g->edges[e->g->uses[v->first_use + u]].node;

		if (e->order.position[other] > e->order.position[to])
			list(l, &e->times.node[FF_PHASE_BACKWARD][other], false,
					p->compute[FF_PHASE_BACKWARD] + other, p->n_nodes,
					p->moves[FF_PHASE_BACKWARD] + edge, p->n_edges);
	}
}

/* Weights of dropped buckets are gathered at some step of the pass before they are read; and who
 * makes gradients that are summed in every micro-batch waits for what another sum has freed. */
static void list_gathered(struct listing *l, uint32_t edge, enum ff_phase reader)
{
	const struct ff_trial *e = l->e;
	const struct ff_program *p = &e->order.program;
	uint32_t to = e->g->edges[edge].node;

	for (uint32_t k = l->low; k <= l->high; k++) {
		uint32_t read = ff_program_compute(p, reader, k, to);

		if (read != FF_NONE && read >= l->run->first)
			add(l, (struct ff_saved){&e->times.node[reader][to], k, true});
	}
}

static void list_edge(struct listing *l, uint32_t edge)
{
	const struct ff_trial *e = l->e;
	uint32_t from = ff_edge_source(e->g, edge), to = e->g->edges[edge].node;
	uint32_t reader = ff_edge_reader(e->g, &e->order.program, edge);
	uint32_t prelude = ff_edge_replaced_by(e->g, edge);

	list_moved(l, FF_PHASE_FORWARD, edge, from, to, FF_PHASE_FORWARD);
	list_moved(l, FF_PHASE_RECOMPUTE, edge, from, reader,
			ff_node_reads_in(&e->order.program, reader));
	list_taken(l, edge);
	list_moved(l, FF_PHASE_BACKWARD, edge, to, from, FF_PHASE_BACKWARD);
	if (prelude != FF_NONE)
		list_moved(l, FF_PHASE_BACKWARD, edge, to, prelude, FF_PHASE_BACKWARD);
	list_added(l, edge);
	if (e->ends[edge].parameter && e->order.program.recomputed[from]) {
		list_gathered(l, edge, FF_PHASE_FORWARD);
		list_gathered(l, edge, ff_node_reads_in(&e->order.program, to));
	}
	if (e->ends[edge].parameter &&
			(e->order.program.recomputed[from] || e->order.program.scatters))
		list_gathered(l, edge, ff_edge_made_in(e->g, &e->order.program, edge));
}

static void list_run(struct listing *l)
{
	const struct ff_trial *e = l->e;
	const struct ff_program *p = &e->order.program;
	const struct ff_step *step = p->step + l->run->first;

	l->low = FF_NONE;
	l->high = l->run->n_live = 0;
	for (uint32_t i = 0; i < l->run->period; i++) {
		l->low = step[i].micro < l->low ? step[i].micro : l->low;
		l->high = step[i].micro > l->high ? step[i].micro : l->high;
		l->run->limited = l->run->limited || step[i].limited;
	}
	for (uint32_t k = 0; k < e->g->n_edges; k++)
		list_edge(l, k);
	for (uint32_t k = 0; k < e->g->n_nodes; k++) /* what completes gradients that are summed */
		list(l, &e->times.node[FF_PHASE_BACKWARD][k], false,
				p->compute[FF_PHASE_BACKWARD] + k, p->n_nodes, p->syncs + k,
				p->n_nodes);
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

static int list_live(struct ff_trial *e, struct ff_run *r, struct ff_error *err)
{
	struct listing l = {.e = e, .run = r};
	size_t room = (FF_FOLD_BACK + 1) * (size_t)e->m->n_devices;
	uint32_t n = 0;
	double *times;

	list_run(&l);
	if (!r->n_live || !r->still)
		return FF_OK;
	r->live = ff_arena_array(&e->order.arena, r->n_live, sizeof(*r->live));
	if (!r->live)
		return ff_fail_memory(err);
	list_run(&l);
	qsort(r->live, r->n_live, sizeof(*r->live), by_node);
	for (uint32_t i = 0; i < r->n_live; i++)
		if (!n || by_node(&r->live[n - 1], &r->live[i]))
			r->live[n++] = r->live[i];
	r->n_live = n;
	times = ff_arena_array(&e->order.arena, n * room, sizeof(*times));
	for (uint32_t i = 0; i < n && times; i++)
		r->live[i].times = times + i * room;
	return times ? FF_OK : ff_fail_memory(err);
}

int ff_fold_plan(struct ff_trial *e, struct ff_error *err)
{
	int code = FF_OK;

	find_runs(e);
	for (uint32_t i = 0; i < e->order.n_runs && code == FF_OK; i++)
		code = list_live(e, &e->order.run[i], err);
	return code;
}

/* ---- the pass ---- */

static double *times_of(const struct ff_trial *e, const struct ff_saved *v, uint32_t times)
{
	return v->ready ? ff_timed_ready(v->node, v->micro + times)
			: ff_time_finish(e, v->node, v->micro + times);
}

/* What they were in the state number `slot` that is remembered. */
static double *times_then(const struct ff_trial *e, const struct ff_saved *v, uint32_t slot)
{
	return v->times + slot * (size_t)e->m->n_devices;
}

/* The state in which the run began for the time number `times`. */
static uint32_t slot_of(uint32_t times)
{
	return times % FF_FOLD_BACK;
}

/* What stands there when the run begins for the time number `times`. */
static void keep(struct ff_trial *e, const struct ff_run *r, uint32_t times, uint32_t slot)
{
	ff_base_keep(e, &e->fold.base[slot], r->limited);
	for (uint32_t i = 0; i < r->n_live; i++)
		memcpy(times_then(e, &r->live[i], slot), times_of(e, &r->live[i], times),
				r->live[i].node->n * sizeof(double));
}

static bool live_moved_on(const struct ff_trial *e, const struct ff_run *r, uint32_t times,
		uint32_t slot, double by)
{
	bool alike = true;

	for (uint32_t i = 0; i < r->n_live && alike; i++) {
		const double *was = times_then(e, &r->live[i], slot);
		const double *now = times_of(e, &r->live[i], times);

		for (uint32_t p = 0; p < r->live[i].node->n && alike; p++)
			alike = now[p] - was[p] == by || (now[p] == 0 && was[p] == 0);
	}
	return alike;
}

/* Whether all is later than in state `slot` by the same amount. */
static bool moved_on(
		const struct ff_trial *e, const struct ff_run *r, uint32_t times, uint32_t slot)
{
	double by;

	return ff_base_moved_on(e, &e->fold.base[slot], r->limited, r->n, &by) &&
	       live_moved_on(e, r, times, slot, by);
}

static bool goes_on(uint32_t n, const double *now, const double *was, const double *a,
		const double *b, uint32_t ahead)
{
	bool alike = true;

	for (uint32_t i = 0; i < n && alike; i++)
		alike = now[i] - was[i] == a[i] - b[i] &&
			now[i] + ahead * (now[i] - was[i]) < FF_TIMES_EXACT_US;
	return alike;
}

/* Whether each time is later than in state `was` by as much as it was in `a` than in `b`. */
static bool all_go_on(const struct ff_trial *e, const struct ff_run *r, uint32_t times,
		uint32_t was, uint32_t a, uint32_t b)
{
	const struct ff_base *s = e->fold.base;
	bool alike = goes_on(ff_lane_count(e->m), e->times.lane, s[was].lane, s[a].lane, s[b].lane,
			r->n);

	if (alike && r->limited)
		alike = goes_on(FF_PREFETCH_DISTANCE * e->m->n_devices, e->times.limited,
				s[was].limited, s[a].limited, s[b].limited, r->n);
	for (uint32_t i = 0; i < r->n_live && alike; i++) {
		const struct ff_saved *v = &r->live[i];

		alike = goes_on(v->node->n, times_of(e, v, times), times_then(e, v, was),
				times_then(e, v, a), times_then(e, v, b), r->n);
	}
	return alike;
}

static void skip_live(struct ff_trial *e, const struct ff_saved *v, uint32_t times, uint32_t slot,
		uint32_t left_out, uint32_t n)
{
	double *was = times_of(e, v, times), *now = times_of(e, v, times + left_out);
	const double *then = times_then(e, v, slot);

	if (v->ready) {
		if (!v->node->arrived[v->micro + times])
			return;
		ff_time_expect(e, v->node, v->micro + times + left_out);
	}
	for (uint32_t p = 0; p < v->node->n; p++)
		now[p] = was[p] + n * (was[p] - then[p]);
	if (v->ready)
		ff_time_forget(v->node, v->micro + times);
}

/* Goes through the run's times from `times` on at once, `n` times as it did the last `every`,
 * which began in state `slot`. */
static void skip(struct ff_trial *e, const struct ff_run *r, uint32_t times, uint32_t slot,
		uint32_t every, uint32_t n)
{
	ff_base_go_on(e, &e->fold.base[slot], r->limited, n);
	for (uint32_t i = 0; i < r->n_live; i++)
		skip_live(e, &r->live[i], times, slot, n * every, n);
	e->fold.n_folded += (uint64_t)n * every * r->period;
}

/* The pass asks again before the time number `times`; goes on from step `i`. */
static uint32_t ask_at(struct ff_trial *e, uint32_t times, uint32_t i)
{
	const struct ff_run *r = &e->order.run[e->fold.next];

	e->fold.times = times;
	e->fold.at = r->first + times * r->period;
	return i;
}

static void await(struct ff_trial *e, uint32_t run)
{
	const struct ff_order *o = &e->order;
	struct ff_folding *f = &e->fold;

	while (run < o->n_runs && !o->run[run].still)
		run++;
	f->next = run;
	f->kept = f->times = f->patience = 0;
	f->trial.every = 0;
	f->at = run < o->n_runs ? o->run[run].first : FF_NONE;
}

void ff_fold_begin(struct ff_trial *e)
{
	await(e, 0);
	e->fold.n_timed += e->fold.at != FF_NONE;
}

void ff_fold_seek(struct ff_trial *e, uint32_t i)
{
	uint32_t run = 0;

	while (run < e->order.n_runs && e->order.run[run].first < i)
		run++;
	await(e, run);
}

/* The time number `times` is timed. */
static uint32_t go_through(struct ff_trial *e, uint32_t times, uint32_t i)
{
	struct ff_folding *f = &e->fold;
	const struct ff_run *r = &e->order.run[f->next];

	if (times + 1 >= r->n) {
		await(e, f->next + 1);
		return i;
	}
	keep(e, r, times, slot_of(times));
	f->kept++;
	return ask_at(e, times + 1, i);
}

/* ---- trials ---- */

/* All go on as they did since state `slot`, `every` times ago, `n` times. */
static uint32_t try(struct ff_trial *e, uint32_t times, uint32_t every, uint32_t n)
{
	struct ff_folding *f = &e->fold;
	const struct ff_run *r = &e->order.run[f->next];
	uint32_t to = times + n * every;

	f->n_trials++;
	f->trial = (struct ff_fold_trial){every, n, times, e->times.n_arrivals};
	skip(e, r, times, slot_of(times - every), every, n);
	keep(e, r, to, FF_FOLD_BACK);
	return ask_at(e, to + every, r->first + to * r->period);
}

/* Back to where the trial began. */
static void restore(struct ff_trial *e, const struct ff_run *r)
{
	const struct ff_fold_trial *t = &e->fold.trial;
	uint32_t slot = slot_of(t->from);
	const struct ff_base *b = &e->fold.base[slot];
	size_t size = ff_lane_count(e->m) * sizeof(*b->lane);

	memcpy(e->times.lane, b->lane, size);
	memcpy(e->times.idle, b->idle, size);
	if (r->limited)
		memcpy(e->times.limited, b->limited,
				FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices *
						sizeof(*b->limited));
	while (e->times.n_arrivals > t->n_arrivals) {
		struct ff_arrival a = e->order.arrival[--e->times.n_arrivals];

		if (a.node->arrived[a.micro])
			ff_time_forget(a.node, a.micro);
	}
	for (uint32_t i = 0; i < r->n_live; i++) {
		const struct ff_saved *v = &r->live[i];

		memcpy(times_of(e, v, t->from), times_then(e, v, slot),
				v->node->n * sizeof(double));
		for (uint32_t p = 0; p < v->node->n && v->ready; p++)
			if (times_of(e, v, t->from)[p] > 0) /* it is in the list still */
				v->node->arrived[v->micro + t->from] = true;
	}
	e->fold.n_folded -= (uint64_t)t->n * t->every * r->period;
}

/* The trial has been timed for as long as it takes to come back. */
static uint32_t judge(struct ff_trial *e, uint32_t i)
{
	struct ff_folding *f = &e->fold;
	const struct ff_run *r = &e->order.run[f->next];
	struct ff_fold_trial t = f->trial;
	uint32_t a = slot_of(t.from), b = slot_of(t.from - t.every);

	f->trial.every = 0;
	if (all_go_on(e, r, f->times, FF_FOLD_BACK, a, b)) {
		f->kept = 0;
		return go_through(e, f->times, i);
	}
	f->trial = t;
	f->n_in_vain++;
	restore(e, r);
	if (t.n / 2 > t.every)
		return try(e, t.from, t.every, t.n / 2);
	f->trial.every = 0;
	f->patience = t.from + FF_FOLD_BACK;
	return go_through(e, t.from, r->first + t.from * r->period);
}

uint32_t ff_fold_reach(struct ff_trial *e, uint32_t i)
{
	struct ff_folding *f = &e->fold;
	const struct ff_run *r = &e->order.run[f->next];
	uint32_t times = f->times, kept = f->kept < FF_FOLD_BACK ? f->kept : FF_FOLD_BACK;

	if (f->trial.every)
		return judge(e, i);
	for (uint32_t k = 1; k <= kept && times + k <= r->n; k++) {
		uint32_t n = (r->n - times) / k;

		if (!moved_on(e, r, times, slot_of(times - k)))
			continue;
		skip(e, r, times, slot_of(times - k), k, n);
		await(e, f->next + 1);
		return r->first + (times + n * k) * r->period;
	}
	for (uint32_t k = 1; 2 * k <= kept && times + 4 * k <= r->n && times >= f->patience; k++) {
		uint32_t then = slot_of(times - k);

		if (!all_go_on(e, r, times, then, then, slot_of(times - 2 * k)))
			continue;
		keep(e, r, times, slot_of(times));
		return try(e, times, k, (r->n - times) / k - 1);
	}
	return go_through(e, times, i);
}
