/* Most proposals that a search accepts change how parameters are updated, and no operator.  Then a
 * pass differs from the current strategy's where parameters are gathered or brought, in the first
 * micro-batch, and where their gradients are, in the last.  Between them are most of its steps.  So
 * what a pass stands at is noted before them and behind them; one over other updates that stands
 * before them as the current strategy's did goes on behind them, as that did.
 *
 * It stands so if all that is still to be read is the same: when devices are free, what was
 * computed, and has not been moved, what has arrived, and has not been read; and when other lanes
 * are free.  What starts later waits for one of the devices, or for something that was computed.
 * So a lane that was free before the first of these delays nothing, nor does what had arrived. What
 * is there from the start waits for neither: so lanes must have been free for as long before as all
 * that is brought later takes.
 * How long devices were idle is no such time: they have been so for longer ever after.
 * SPDX-License-Identifier: Apache-2.0 */
#include "rejoin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "early.h"
#include "evaluate/lane_runs.h"
#include "ff/grow.h"
#include "ff/program_phases.h"
#include "fold.h"
#include "stretch.h"

#define LEAST_MICRO 3 /* batches: of fewer nothing lies between */

int ff_rejoin_create(struct ff_trial *e, struct ff_error *err)
{
	struct ff_rejoining *x = &e->rejoin;

	x->at = e->order.rejoin.at[FF_REJOIN_FROM] = FF_NONE;
	x->more = ff_arena_array(&e->arena, e->m->n_devices, sizeof(*x->more));
	for (int k = 0; k < FF_REJOIN_ENDS; k++) {
		ff_arena_init(&x->now[k].arena);
		ff_arena_init(&x->next[k].arena);
	}
	return x->more ? FF_OK : ff_fail_memory(err);
}

void ff_rejoin_finish(struct ff_trial *e)
{
	for (int k = 0; k < FF_REJOIN_ENDS; k++) {
		ff_arena_finish(&e->rejoin.now[k].arena);
		ff_arena_finish(&e->rejoin.next[k].arena);
		free(e->rejoin.now[k].saved);
		free(e->rejoin.next[k].saved);
	}
}

/* ---- where that is ---- */

/* The first mark behind all that reads what is gathered once; FF_NONE: there is none. */
static uint32_t begins(const struct ff_trial *e)
{
	const struct ff_program *p = &e->order.program;
	uint32_t behind = p->gathers_end, at = 0;

	for (uint32_t i = 0; i < p->n_nodes; i++) {
		uint32_t read = ff_program_compute(p, FF_PHASE_FORWARD, 0, i);

		behind = read != FF_NONE && read >= behind ? read + 1 : behind;
	}
	for (uint32_t k = 0; at < behind; k++)
		at = ff_early_mark_step(e, k);
	return at;
}

/* Whether something is done with gradients of parameters, once. */
static bool takes_gradients(const struct ff_trial *e, const struct ff_step *s)
{
	if (s->kind == FF_STEP_MOVES)
		return e->ends[s->id].parameter && ff_phase_pass(s->phase) == FF_BACKWARD;
	return s->kind == FF_STEP_UPDATE || (s->kind == FF_STEP_SYNC && !s->limited);
}

/* The first such step from `i` on. */
static uint32_t ends(const struct ff_trial *e, uint32_t i)
{
	while (!takes_gradients(e, &e->order.program.step[i]))
		i++;
	return i;
}

static int list_brings(struct ff_trial *e, uint32_t edge, struct ff_error *err)
{
	struct ff_rejoin_plan *x = &e->order.rejoin;
	struct ff_rejoin_brings *brings;

	for (uint32_t i = 0; i < x->n_brings; i++)
		if (x->brings[i].edge == edge) {
			x->brings[i].times++;
			return FF_OK;
		}
	brings = ff_grow_in(
			&e->order.arena, x->brings, x->n_brings, &x->cap_brings, sizeof(*brings));
	if (!brings)
		return ff_fail_memory(err);
	x->brings = brings;
	brings[x->n_brings++] = (struct ff_rejoin_brings){edge, 1};
	return FF_OK;
}

/* Step `step` may ask when `phase` has computed `node`. */
static int list(struct ff_trial *e, enum ff_rejoin_end end, uint32_t step, enum ff_phase phase,
		uint32_t micro, uint32_t node, struct ff_error *err)
{
	struct ff_rejoin_plan *x = &e->order.rejoin;
	uint32_t wrote = ff_program_compute(&e->order.program, phase, micro, node);
	struct ff_rejoin_read *read;

	if (wrote == FF_NONE || wrote >= x->at[end])
		return FF_OK;
	read = ff_grow_in(&e->order.arena, x->read[end], x->n_read[end], &x->cap_read[end],
			sizeof(*read));
	if (!read)
		return ff_fail_memory(err);
	x->read[end] = read;
	read[x->n_read[end]++] = (struct ff_rejoin_read){&e->times.node[phase][node], micro, step};
	return FF_OK;
}

static int list_moves(
		struct ff_trial *e, enum ff_rejoin_end end, uint32_t step, struct ff_error *err)
{
	const struct ff_step *s = &e->order.program.step[step];
	const struct ff_edge_ends *x = &e->ends[s->id];
	bool forward = ff_phase_pass(s->phase) == FF_FORWARD;
	/* what is moved of parameters may be something else in the pass that rejoins */
	uint32_t by = x->parameter ? e->order.program.n - 1 : step;
	int code = FF_OK;

	if (!x->computed && forward)
		code = end == FF_REJOIN_FROM ? list_brings(e, s->id, err) : FF_OK;
	else
		code = list(e, end, by, s->phase, s->micro, forward ? x->from : x->to, err);
	if (code == FF_OK && !forward) /* what it adds to */
		code = list(e, end, by, FF_PHASE_BACKWARD, s->micro,
				e->ends[e->order.first_edge[x->value]].to, err);
	return code;
}

/* What completes gradients of parameters is asked for where these are synchronised. */
static int list_params(struct ff_trial *e, enum ff_rejoin_end end, struct ff_error *err)
{
	const struct ff_program *p = &e->order.program;
	uint32_t micro = p->micro_batches - 1;
	int code = FF_OK;

	for (uint32_t k = 0; k < e->g->n_edges && code == FF_OK; k++)
		if (e->ends[k].parameter)
			code = list(e, end, p->n - 1, ff_edge_made_in(e->g, p, k), micro,
					e->ends[k].to, err);
	return code;
}

static int list_reads(struct ff_trial *e, enum ff_rejoin_end end, struct ff_error *err)
{
	int code = list_params(e, end, err);

	for (uint32_t i = e->order.rejoin.at[end]; i < e->order.program.n && code == FF_OK; i++)
		if (e->order.program.step[i].kind == FF_STEP_MOVES)
			code = list_moves(e, end, i, err);
	return code;
}

int ff_rejoin_plan(struct ff_trial *e, struct ff_error *err)
{
	struct ff_rejoin_plan *x = &e->order.rejoin;
	int code = FF_OK;

	*x = (struct ff_rejoin_plan){.at = {FF_NONE, FF_NONE}};
	if (e->fold.off || e->order.program.micro_batches < LEAST_MICRO)
		return FF_OK;
	x->at[FF_REJOIN_FROM] = begins(e);
	if (x->at[FF_REJOIN_FROM] == FF_NONE)
		return FF_OK;
	x->at[FF_REJOIN_TO] = ends(e, x->at[FF_REJOIN_FROM]);
	for (int k = 0; k < FF_REJOIN_ENDS && code == FF_OK; k++)
		code = list_reads(e, (enum ff_rejoin_end)k, err);
	return code;
}

/* ---- what a pass stands at ---- */

static bool save(struct ff_trial *e, struct ff_rejoin_state *s, struct ff_timed_node *node,
		uint32_t micro, bool ready)
{
	const double *times = ready ? ff_timed_ready(node, micro) : ff_time_finish(e, node, micro);
	double *copy = ff_arena_copy(&s->arena, times, node->n, sizeof(*copy));

	if (!copy || ff_grow(&s->saved, s->n_saved, &s->cap_saved, sizeof(*s->saved), NULL) < 0)
		return false;
	s->saved[s->n_saved++] = (struct ff_saved){node, micro, ready, copy};
	return true;
}

static bool is_active(const struct ff_trial *e, uint32_t step)
{
	return e->order.active[step / 64] >> step % 64 & 1;
}

static bool is_param(const struct ff_trial *e, const struct ff_timed_node *t)
{
	const struct ff_timed_node *first = e->times.node[FF_PHASE_BACKWARD];

	return t >= first && t < first + e->g->n_nodes &&
	       ff_node_is_parameter(e->g, (uint32_t)(t - first));
}

static uint32_t n_limited(const struct ff_trial *e)
{
	return FF_PREFETCH_DISTANCE * e->m->n_devices;
}

/* Of buckets that are gathered or summed in every micro-batch nothing is noted. */
static void take(struct ff_trial *e, enum ff_rejoin_end end, struct ff_rejoin_state *s)
{
	const struct ff_rejoin_plan *p = &e->order.rejoin;
	bool done;

	ff_arena_rewind(&s->arena, (struct ff_arena_mark){0});
	s->n_saved = 0;
	s->lane = ff_arena_copy(&s->arena, e->times.lane, ff_lane_count(e->m), sizeof(*s->lane));
	s->idle = ff_arena_copy(&s->arena, e->times.idle, e->m->n_devices, sizeof(*s->idle));
	s->limited = ff_arena_copy(&s->arena, e->times.limited, n_limited(e), sizeof(*s->limited));
	done = s->lane && s->idle && s->limited && !e->placed.n_dropped && !e->placed.n_summed;
	for (uint32_t i = 0; i < p->n_read[end] && done; i++)
		if (is_active(e, p->read[end][i].step))
			done = save(e, s, p->read[end][i].node, p->read[end][i].micro, false);
	for (uint32_t i = 0; i < e->times.n_arrivals && done; i++) {
		struct ff_arrival a = e->order.arrival[i];

		if (a.node->arrived[a.micro] && !is_param(e, a.node))
			done = save(e, s, a.node, a.micro, true);
	}
	s->taken = done;
}

/* The first time at which anything behind may begin. */
static double base_of(const struct ff_trial *e, const struct ff_rejoin_state *s)
{
	double base = s->lane[0];

	for (uint32_t d = 1; d < e->m->n_devices; d++)
		base = s->lane[d] < base ? s->lane[d] : base;
	for (uint32_t i = 0; i < s->n_saved; i++)
		for (uint32_t p = 0; p < s->saved[i].node->n && !s->saved[i].ready; p++)
			base = s->saved[i].times[p] < base ? s->saved[i].times[p] : base;
	return base;
}

/* Whether they are the same, but for those that are not behind `base`. */
static bool same_times(uint32_t n, const double *a, const double *b, double base)
{
	bool same = true;

	for (uint32_t i = 0; i < n && same; i++)
		same = a[i] == b[i] || (a[i] <= base && b[i] <= base);
	return same;
}

/* The next of those that delay something, from number `i` on. */
static uint32_t next_saved(const struct ff_rejoin_state *s, uint32_t i, double base)
{
	while (i < s->n_saved && s->saved[i].ready &&
			latest(s->saved[i].node->n, s->saved[i].times, 0) <= base)
		i++;
	return i;
}

/* How long all takes that is brought later. */
static double brought_us(const struct ff_trial *e)
{
	const struct ff_rejoin_plan *p = &e->order.rejoin;
	double us = 0;

	for (uint32_t i = 0; i < p->n_brings; i++) {
		const struct ff_rejoin_brings *b = &p->brings[i];
		uint8_t state = e->placed.state[FF_FORWARD][b->edge];
		const struct ff_memo_edge *me = e->placed.edge[b->edge];

		if (state == FF_EDGE_UNKNOWN ||
				(state == FF_EDGE_MOVES && e->ends[b->edge].parameter))
			return INFINITY;
		for (uint32_t k = 0; state == FF_EDGE_MOVES && k < me->n_moves[FF_FORWARD]; k++)
			us += b->times * me->move[FF_FORWARD][k].us;
	}
	return us;
}

/* Whether what goes on from `a` goes on as from `b`.  What has arrived did so in the same order. */
static bool same_states(const struct ff_trial *e, const struct ff_rejoin_state *a,
		const struct ff_rejoin_state *b)
{
	uint32_t lanes = ff_lane_count(e->m), devices = e->m->n_devices;
	double base = base_of(e, a) - brought_us(e);
	uint32_t i = next_saved(a, 0, base), k = next_saved(b, 0, base);
	bool same = same_times(devices, a->lane, b->lane, 0) &&
		    same_times(lanes - devices, a->lane + devices, b->lane + devices, base) &&
		    same_times(n_limited(e), a->limited, b->limited, base);

	while (i < a->n_saved && k < b->n_saved && same) {
		const struct ff_saved *x = &a->saved[i], *y = &b->saved[k];

		same = x->node == y->node && x->micro == y->micro && x->ready == y->ready &&
		       same_times(x->node->n, x->times, y->times, x->ready ? base : 0);
		i = next_saved(a, i + 1, base);
		k = next_saved(b, k + 1, base);
	}
	return same && i == a->n_saved && k == b->n_saved;
}

/* ---- the pass ---- */

/* Parameters that are brought several times are so between, too. */
static bool is_params(const struct ff_trial *e, const struct ff_swap *s)
{
	uint32_t from = s->is_edge ? e->ends[s->id].from : s->id;

	return ff_node_is_parameter(e->g, from) && !e->order.program.recomputed[from];
}

void ff_rejoin_touch(struct ff_trial *e)
{
	bool may = !e->proposal.reshares;

	for (uint32_t i = 0; i < e->proposal.n_swaps && may; i++)
		may = is_params(e, &e->proposal.swap[i]);
	e->rejoin.may = may;
}

void ff_rejoin_begin(struct ff_trial *e)
{
	struct ff_rejoining *x = &e->rejoin;

	for (int k = 0; k < FF_REJOIN_ENDS; k++)
		x->next[k].taken = false;
	x->end = FF_REJOIN_FROM;
	x->at = e->layers.off ? FF_NONE : e->order.rejoin.at[FF_REJOIN_FROM];
}

/* Whether backward adds to gradients as in the current strategy. */
static bool adds_alike(const struct ff_trial *e)
{
	const struct ff_gathered *a = e->placed.now, *b = ff_trial_gathered(e);
	size_t n = e->g->n_nodes;

	return a->holds_synced && b->holds_synced && !memcmp(a->adds, b->adds, n) &&
	       !memcmp(a->synced.scattered, b->synced.scattered, n);
}

static void note_idle(struct ff_trial *e, const double *was)
{
	for (uint32_t d = 0; d < e->m->n_devices; d++) {
		e->times.idle[d] = was[d] + e->rejoin.more[d];
		if (e->times.idle[d] + e->busy.known[d] > e->busy.most_us)
			e->busy.too_slow = true;
	}
}

/* Marks that lie between, until it is known to be too slow. */
static void pass_marks(struct ff_trial *e, uint32_t to)
{
	struct ff_early *early = &e->early;

	while (early->mark_at <= to && !ff_is_rejected(e)) {
		note_idle(e, early->marks.idle[early->marks_next.n]);
		if (!e->busy.too_slow)
			ff_early_mark(e, early->mark_at);
	}
}

/* All but what has arrived at parameters. */
static void forget_arrived(struct ff_trial *e)
{
	uint32_t n = e->times.n_arrivals;

	e->times.n_arrivals = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct ff_arrival a = e->order.arrival[i];

		if (!a.node->arrived[a.micro])
			continue;
		if (is_param(e, a.node))
			e->order.arrival[e->times.n_arrivals++] = a;
		else
			ff_time_forget(a.node, a.micro);
	}
}

static void restore(struct ff_trial *e, const struct ff_rejoin_state *s)
{
	memcpy(e->times.lane, s->lane, ff_lane_count(e->m) * sizeof(*s->lane));
	memcpy(e->times.limited, s->limited, n_limited(e) * sizeof(*s->limited));
	note_idle(e, s->idle);
	forget_arrived(e);
	for (uint32_t i = 0; i < s->n_saved; i++) {
		const struct ff_saved *v = &s->saved[i];
		double *times = v->ready ? ff_time_expect(e, v->node, v->micro)
					 : v->node->finish + (size_t)v->micro * v->node->n;

		if (!v->ready)
			v->node->stretched[v->micro].in = FF_NONE;
		memcpy(times, v->times, v->node->n * sizeof(*times));
	}
}

/* The marks of the current strategy that lie before `to` are known. */
static bool has_marks(const struct ff_trial *e, uint32_t to)
{
	uint32_t n = e->early.marks.n;

	return ff_early_mark_step(e, n) > to;
}

uint32_t ff_rejoin_reach(struct ff_trial *e, uint32_t i)
{
	struct ff_rejoining *x = &e->rejoin;
	const uint32_t *at = e->order.rejoin.at;
	enum ff_rejoin_end end = (enum ff_rejoin_end)x->end++;

	x->at = x->end < FF_REJOIN_ENDS ? at[x->end] : FF_NONE;
	if (!ff_is_rejected(e))
		take(e, end, &x->next[end]);
	if (end != FF_REJOIN_FROM || !x->may || !x->next[end].taken || !x->now[end].taken ||
			!x->now[FF_REJOIN_TO].taken || !has_marks(e, at[FF_REJOIN_TO]) ||
			!adds_alike(e) || !same_states(e, &x->now[end], &x->next[end]))
		return i;
	for (uint32_t d = 0; d < e->m->n_devices; d++)
		x->more[d] = x->next[end].idle[d] - x->now[end].idle[d];
	pass_marks(e, at[FF_REJOIN_TO]);
	if (ff_is_rejected(e))
		return i;
	restore(e, &x->now[FF_REJOIN_TO]);
	ff_fold_seek(e, at[FF_REJOIN_TO]);
	x->n_folded += at[FF_REJOIN_TO] - i;
	return at[FF_REJOIN_TO];
}

void ff_rejoin_keep(struct ff_trial *e)
{
	struct ff_rejoining *x = &e->rejoin;

	for (int k = 0; k < FF_REJOIN_ENDS; k++) {
		struct ff_rejoin_state was = x->now[k];

		x->now[k] = x->next[k];
		x->next[k] = was;
	}
}

void ff_rejoin_forget(struct ff_trial *e)
{
	for (int k = 0; k < FF_REJOIN_ENDS; k++)
		e->rejoin.now[k].taken = false;
}
