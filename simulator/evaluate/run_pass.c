/* The evaluator's pass over the steps of a strategy (time.c).  It begins where the proposal differs
 * from the current strategy (snapshot.c), ends where it is known to be too slow, and goes through
 * equal micro-batches once (fold.c), and through equal layers (layers.c).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "lane_runs.h"
#include "shortcuts/busy.h"
#include "shortcuts/early.h"
#include "shortcuts/fold.h"
#include "shortcuts/layers.h"
#include "shortcuts/pipe_slots.h"
#include "shortcuts/rejoin.h"
#include "shortcuts/stretch.h"
#include "trial.h"

static void start(struct ff_trial *e)
{
	memset(e->times.lane, 0, ff_lane_count(e->m) * sizeof(*e->times.lane));
	memset(e->times.idle, 0, ff_lane_count(e->m) * sizeof(*e->times.idle));
	memset(e->times.limited, 0,
			FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices * sizeof(*e->times.limited));
}

/* The first step before which the pass looks at something else than that step. */
static uint32_t looks_at(const struct ff_trial *e, const struct ff_snapshot *s)
{
	uint32_t at = e->fold.at < e->early.mark_at ? e->fold.at : e->early.mark_at;

	at = e->rejoin.at < at ? e->rejoin.at : at;
	return s && s->step < at ? s->step : at;
}

/* Layers end with the slot that is noted. */
static uint32_t layers_to(const struct ff_trial *e, const struct ff_snapshot *s)
{
	uint32_t at = looks_at(e, s);

	return e->slots.open != FF_NONE && e->slots.at < at ? e->slots.at : at;
}

/* Goes on from step `i`, or from where equal steps that begin there end. */
static uint32_t fold_at(struct ff_trial *e, uint32_t i, const struct ff_snapshot *s)
{
	uint32_t from = i;

	if (i >= e->rejoin.at)
		i = ff_rejoin_reach(e, i);
	while (i >= e->fold.at)
		i = ff_active_from(&e->order, ff_fold_reach(e, i));
	if (i != from) {
		ff_layers_seek(e, i);
		ff_pipe_slots_seek(e, i);
	}
	from = i;
	if (i >= e->slots.at)
		i = ff_pipe_slots_reach(e, i, looks_at(e, s));
	if (i != from)
		ff_layers_seek(e, i);
	else if (i >= e->layers.at)
		i = ff_active_from(&e->order, ff_layers_reach(e, i, layers_to(e, s)));
	return i;
}

static uint32_t stretches_to(const struct ff_trial *e, const struct ff_snapshot *s)
{
	uint32_t at = looks_at(e, s);

	at = e->slots.at < at ? e->slots.at : at;
	return e->layers.at < at ? e->layers.at : at;
}

static void forget_all(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->times.n_arrivals; i++)
		if (e->order.arrival[i].node->arrived[e->order.arrival[i].micro])
			ff_time_forget(e->order.arrival[i].node, e->order.arrival[i].micro);
	e->times.n_arrivals = 0;
}

int ff_trial_time(struct ff_trial *e, uint32_t first, uint32_t last, double *step_us,
		struct ff_error *err)
{
	const struct ff_snapshot *s = ff_snapshot_behind(e, last);
	struct ff_gathered *g;
	uint32_t i, next;
	int code = ff_trial_gather(e, false, &g, err);

	if (code < 0)
		return code;
	ff_busy_know(e, g);
	if (ff_is_rejected(e))
		return FF_OK;
	ff_stretch_begin(e);
	i = ff_snapshots_resume(e, first);
	if (i == 0)
		start(e);
	ff_fold_begin(e);
	ff_early_pass(e);
	ff_rejoin_begin(e);
	i = ff_active_from(&e->order, i);
	ff_layers_begin(e);
	ff_layers_seek(e, i);
	ff_pipe_slots_seek(e, i);
	for (; i < e->order.program.n && code == FF_OK && !ff_is_rejected(e); i = next) {
		if (s && i >= s->step) {
			ff_early_check_idle(e, s);
			s = NULL;
		}
		if (i >= e->early.mark_at)
			ff_early_mark(e, i);
		next = fold_at(e, i, s);
		if (next == i)
			next = ff_stretch_compute(e, i, stretches_to(e, s));
		if (next != i)
			continue;
		code = ff_time_step(e, &e->order.program.step[i], err);
		next = ff_active_from(&e->order, i + 1);
	}
	forget_all(e);
	if (code == FF_OK)
		*step_us = latest(ff_lane_count(e->m), e->times.lane, 0);
	return code;
}

int ff_trial_record(struct ff_trial *e, struct ff_error *err)
{
	int code = e->snapshots.planned ? FF_OK : ff_snapshots_plan(e, err);
	uint32_t i;

	if (code < 0)
		return code;
	e->busy.most_us = INFINITY;
	ff_stretch_begin(e);
	i = ff_snapshots_resume(e, FF_NONE);
	if (i == 0)
		start(e);
	for (i = ff_active_from(&e->order, i); code == FF_OK;
			i = ff_active_from(&e->order, i + 1)) {
		while (e->snapshots.n_taken < e->snapshots.n &&
				i >= e->snapshots.at[e->snapshots.n_taken].step && code == FF_OK)
			code = ff_snapshot_take(e, &e->snapshots.at[e->snapshots.n_taken], err);
		if (e->snapshots.n_taken == e->snapshots.n || code < 0)
			break;
		code = ff_time_step(e, &e->order.program.step[i], err);
	}
	forget_all(e);
	e->snapshots.recorded = code == FF_OK;
	return code;
}
