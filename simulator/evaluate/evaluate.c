/* A trial: made for a graph, set to a strategy.  Blocks and their prices come from the memo, and
 * are put in place (place.c); one pass times them (run_pass.c), and the account counts their bytes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "bytes/account.h"
#include "bytes/dropped.h"
#include "home.h"
#include "memos.h"
#include "ordered.h"
#include "place.h"
#include "shortcuts/busy.h"
#include "shortcuts/early.h"
#include "shortcuts/fold.h"
#include "shortcuts/layers.h"
#include "shortcuts/pipe_slots.h"
#include "shortcuts/rejoin.h"
#include "shortcuts/stretch.h"

/* An array of the trial's; *ok: false where there is no memory for it. */
static void *take(struct ff_trial *e, size_t n, size_t bytes, bool *ok)
{
	void *array = ff_arena_array(&e->arena, n, bytes);

	*ok = *ok && array;
	return array;
}

static bool allocate_placed(struct ff_trial *e)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges;
	struct ff_placed *p = &e->placed;
	bool ok = true;

	p->node = take(e, nodes, sizeof(*p->node), &ok);
	p->block = take(e, nodes, sizeof(*p->block), &ok);
	p->synced = take(e, nodes, sizeof(*p->synced), &ok);
	p->flat = take(e, nodes, sizeof(*p->flat), &ok);
	p->shards = take(e, nodes, sizeof(*p->shards), &ok);
	p->n_added = take(e, nodes, sizeof(*p->n_added), &ok);
	p->edge = take(e, edges, sizeof(*p->edge), &ok);
	p->shared_from = take(e, edges, sizeof(*p->shared_from), &ok);
	p->is_shared = take(e, edges, sizeof(*p->is_shared), &ok);
	p->sums.sent = take(e, edges, sizeof(*p->sums.sent), &ok);
	p->sums.added = take(e, edges, sizeof(*p->sums.added), &ok);
	for (int pass = 0; pass < 2; pass++)
		p->state[pass] = take(e, edges, sizeof(**p->state), &ok);
	return ok;
}

static bool allocate_proposal(struct ff_trial *e)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges, values = e->g->n_values;
	struct ff_proposal *p = &e->proposal;
	bool ok = true;

	p->flat_was = take(e, nodes, sizeof(*p->flat_was), &ok);
	p->changed_at = take(e, nodes, sizeof(*p->changed_at), &ok);
	p->wish = take(e, 2 * nodes, sizeof(*p->wish), &ok);
	p->node_dirty = take(e, nodes, sizeof(*p->node_dirty), &ok);
	p->near = take(e, edges, sizeof(*p->near), &ok);
	p->sums_next.sent = take(e, edges, sizeof(*p->sums_next.sent), &ok);
	p->sums_next.added = take(e, edges, sizeof(*p->sums_next.added), &ok);
	p->shared_next = take(e, edges, sizeof(*p->shared_next), &ok);
	p->mark = take(e, values, sizeof(*p->mark), &ok);
	p->touched = take(e, values, sizeof(*p->touched), &ok);
	p->dirty = take(e, values, sizeof(*p->dirty), &ok);
	return ok;
}

static bool allocate_times(struct ff_trial *e)
{
	size_t devices = e->m->n_devices, lanes = ff_lane_count(e->m);
	struct ff_times *t = &e->times;
	struct ff_busy *b = &e->busy;
	bool ok = true;

	e->ends = take(e, e->g->n_edges, sizeof(*e->ends), &ok);
	for (int k = 0; k < FF_PHASE_COUNT; k++)
		t->node[k] = take(e, e->g->n_nodes, sizeof(**t->node), &ok);
	t->lane = take(e, lanes, sizeof(*t->lane), &ok);
	t->idle = take(e, lanes, sizeof(*t->idle), &ok);
	t->limited = take(e, FF_PREFETCH_DISTANCE * devices, sizeof(*t->limited), &ok);
	t->each = take(e, devices, sizeof(*t->each), &ok);
	t->sync_lane = take(e, 3 * devices, sizeof(*t->sync_lane), &ok);
	b->now = take(e, lanes, sizeof(*b->now), &ok);
	b->next = take(e, lanes, sizeof(*b->next), &ok);
	b->slowed_now = take(e, devices, sizeof(*b->slowed_now), &ok);
	b->slowed_next = take(e, devices, sizeof(*b->slowed_next), &ok);
	b->known = take(e, devices, sizeof(*b->known), &ok);
	return ok;
}

static int allocate(struct ff_trial *e, struct ff_error *err)
{
	int code;

	if (!allocate_placed(e) || !allocate_proposal(e) || !allocate_times(e))
		return ff_fail_memory(err);
	code = ff_reorder_create(e, err);
	if (code == FF_OK)
		code = ff_updates_create(e, err);
	if (code == FF_OK)
		code = ff_early_create(e, err);
	if (code == FF_OK)
		code = ff_fold_create(e, err);
	if (code == FF_OK)
		code = ff_layers_create(e, err);
	if (code == FF_OK)
		code = ff_pipe_slots_create(e, err);
	if (code == FF_OK)
		code = ff_rejoin_create(e, err);
	return code < 0 ? code : ff_account_create(e, err);
}

int ff_trial_create(struct ff_evaluator *home, struct ff_trial **ret, struct ff_error *err)
{
	const struct ff_graph *g = home->g;
	struct ff_trial *e = calloc(1, sizeof(*e));
	int code;

	if (!e)
		return ff_fail_memory(err);
	e->home = home;
	e->g = g;
	e->m = home->m;
	e->p = home->p;
	e->limit = home->limit;
	ff_arena_init(&e->arena);
	ff_arena_init(&e->scratch);
	ff_arena_init(&e->snapshots.plan_arena);
	ff_arena_init(&e->snapshots.arena);
	e->placed.now = &e->placed.gathered[0];
	e->placed.next = &e->placed.gathered[1];
	code = allocate(e, err);
	if (code == FF_OK)
		code = ff_strategy_create(g, &e->arena, &e->strategy, err);
	for (int k = 0; k < 2 && code == FF_OK; k++)
		code = ff_gathered_init(&e->placed.gathered[k], g, home->m, home->bucket_bytes,
				&e->arena, err);
	if (code < 0) {
		ff_trial_destroy(e);
		return code;
	}
	for (uint32_t k = 0; k < g->n_edges; k++)
		e->ends[k] = ff_edge_ends(g, k);
	for (uint32_t i = 0; i < g->n_values; i++)
		e->tally.has_scratch =
				e->tally.has_scratch || (g->values[i].kind == FF_VALUE_PARAMETER &&
									g->values[i].n_uses > 1);
	*ret = e;
	return FF_OK;
}

void ff_trial_destroy(struct ff_trial *e)
{
	if (!e)
		return;
	for (int k = 0; k < FF_PHASE_COUNT; k++)
		for (uint32_t i = 0; i < e->home->g->n_nodes && e->times.node[k]; i++) {
			free(e->times.node[k][i].finish);
			free(e->times.node[k][i].stretched);
		}
	ff_stretch_finish(&e->times.stretches);
	ff_pipe_slots_finish(e);
	ff_rejoin_finish(e);
	ff_reorder_finish(e);
	ff_gathered_finish(&e->placed.gathered[0]);
	ff_gathered_finish(&e->placed.gathered[1]);
	ff_arena_finish(&e->arena);
	ff_arena_finish(&e->scratch);
	ff_arena_finish(&e->snapshots.plan_arena);
	ff_arena_finish(&e->snapshots.arena);
	free(e->times.updates.single);
	free(e->proposal.changes);
	free(e->proposal.swap);
	free(e);
}

/* `step_us` was the time; the account is up to date. */
void ff_trial_conclude(struct ff_trial *e, double step_us, struct ff_evaluation *ret)
{
	ret->step_us = e->early.next_us = step_us;
	ff_account_over(e, INT64_MAX, ret);
}

/* ---- strategies ---- */

/* Searches have views; lists are for what was written by hand, so those of dropped proposals are
 * left to the arena. */
int ff_trial_copy_config(struct ff_trial *e, const struct ff_config *c, struct ff_config *ret,
		struct ff_error *err)
{
	*ret = *c;
	if (!c->list)
		return FF_OK;
	ret->list = ff_arena_copy(&e->arena, c->list, c->n_parts, sizeof(*c->list));
	return ret->list ? FF_OK : ff_fail_memory(err);
}

int ff_trial_place_anew(struct ff_trial *e, struct ff_error *err)
{
	size_t before;
	int code;

	ff_evaluator_empty(e->home, e);
	before = ff_evaluator_held(e->home);
	code = ff_place_all(e, err);
	ff_evaluator_needs(e->home, ff_evaluator_held(e->home) - before);
	ff_gathered_forget(e->placed.now);
	ff_gathered_forget(e->placed.next);
	e->proposal.rebuckets = false;
	ff_snapshots_keep(e, 0);
	e->snapshots.since = 0;
	ff_pipe_slots_forget(e);
	ff_rejoin_forget(e);
	if (code == FF_OK)
		ff_busy_reset(e);
	return code;
}

int ff_trial_account(struct ff_trial *e, struct ff_error *err)
{
	struct ff_gathered *b;
	int code = ff_account_reset(e, err);

	for (uint32_t k = 0; k < e->g->n_values && code == FF_OK; k++)
		ff_account_value(e, k, 1);
	if (code == FF_OK)
		code = ff_trial_gather(e, false, &b, err);
	if (code == FF_OK)
		ff_dropped_count(e, &b->synced, NULL, 1);
	if (code == FF_OK && e->order.account.failed)
		code = ff_fail_memory(err);
	return code;
}

/* Times what is in place; *slower where it is longer than `limit_us`. */
static int time_all(struct ff_trial *e, double limit_us, bool *slower, double *step_us,
		struct ff_error *err)
{
	int code = FF_OK;

	ff_busy_limit(e, limit_us);
	ff_early_begin(e, INFINITY, FF_EARLY_BEHIND);
	if (!e->busy.too_slow)
		code = ff_trial_time(e, 0, FF_NONE, step_us, err);
	*slower = code == FF_OK && (e->busy.too_slow || *step_us > limit_us);
	return code;
}

int ff_trial_set(struct ff_trial *e, struct ff_micro *micro, const struct ff_strategy *s,
		double limit_us, bool *slower, struct ff_evaluation *ret, struct ff_error *err)
{
	double step_us = 0;
	int code;

	e->g = micro->g;
	e->memo = &micro->memo;
	e->memo->first_use = e->order.first_use;
	code = ff_reorder_plan(e, s, err);
	if (code < 0)
		return code;
	e->proposal.n_changes = e->proposal.n_swaps = 0;
	e->snapshots.n = e->snapshots.n_taken = 0;
	e->snapshots.planned = e->proposal.accounted = e->proposal.reordered = false;
	ff_strategy_copy(&e->strategy, s);
	for (int k = 0; k < 2; k++)
		ff_gathered_limit(&e->placed.gathered[k],
				s->bucket_bytes ? s->bucket_bytes : e->home->bucket_bytes);
	for (uint32_t i = 0; i < e->g->n_nodes && code == FF_OK; i++)
		code = ff_trial_copy_config(e, &s->config[i], &e->strategy.config[i], err);
	if (code == FF_OK)
		code = ff_trial_place_anew(e, err);
	if (code == FF_OK)
		code = time_all(e, limit_us, slower, &step_us, err);
	if (code < 0 || *slower)
		return code;
	code = ff_trial_account(e, err);
	if (code < 0)
		return code;
	ff_trial_conclude(e, step_us, ret);
	ff_early_keep(e);
	ff_rejoin_keep(e);
	return FF_OK;
}

/* ---- when each node was done ---- */

/* When the last part of a node was done with the first micro-batch. */
static double node_done(const struct ff_trial *e, int phase, uint32_t node)
{
	const struct ff_timed_node *t = &e->times.node[phase][node];
	const double *finish;
	double at = 0;

	if (ff_program_compute(&e->order.program, (enum ff_phase)phase, 0, node) == FF_NONE)
		return 0;
	finish = ff_time_finish(e, t, 0);
	for (uint32_t p = 0; p < t->n; p++)
		at = fmax(at, finish[p]);
	return at;
}

int ff_trial_done(struct ff_trial *e, double *const us[2], struct ff_error *err)
{
	double step_us;
	int code;

	e->busy.most_us = INFINITY;
	e->busy.too_slow = false;
	ff_early_begin(e, INFINITY, FF_EARLY_BEHIND);
	e->layers.off = true; /* of each node is asked when it was done */
	code = ff_trial_time(e, 0, FF_NONE, &step_us, err);
	e->layers.off = false;
	for (uint32_t i = 0; i < e->g->n_nodes && code == FF_OK; i++)
		for (int phase = FF_PHASE_FORWARD; phase <= FF_PHASE_BACKWARD; phase++)
			us[phase][i] = node_done(e, phase, i);
	return code;
}
