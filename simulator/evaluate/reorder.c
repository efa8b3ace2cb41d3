/* Another order as a proposal (ordered.c has what depends on it).
 * SPDX-License-Identifier: Apache-2.0 */
#include "reorder.h"

#include <math.h>
#include <string.h>

#include "evaluate.h"
#include "ff/sharing.h"
#include "ordered.h"
#include "place.h"
#include "shortcuts/busy.h"
#include "shortcuts/early.h"

static bool use_differs(const struct ff_trial *e, uint32_t edge)
{
	return e->order.first_use[edge] != e->other->first_use[edge] ||
	       e->proposal.sums_next.sent[edge] != e->placed.sums.sent[edge] ||
	       e->proposal.sums_next.added[edge] != e->placed.sums.added[edge] ||
	       (!e->placed.synced[e->ends[edge].from] &&
			       e->placed.shared_from[edge] != e->proposal.shared_next[edge]);
}

/* Gradients of values are added up in another order: blocks of such edges are others.  And it is
 * another use that brings, or takes away, what several share. */
static void touch_uses(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->g->n_values; i++) {
		const struct ff_value *v = &e->g->values[i];
		bool differs = false;

		if (v->n_uses == 1)
			continue;
		ff_place_find_sums(e, i);
		ff_place_find_sharing(e, i);
		for (uint32_t u = 0; u < v->n_uses && !differs; u++)
			differs = use_differs(e, ff_value_use(e->g, v, u));
		if (differs)
			ff_trial_touch(e, i);
	}
}

/* The first step that is another one, or how many there are. */
static uint32_t first_other(const struct ff_trial *e)
{
	const struct ff_program *p = &e->order.program, *q = &e->other->program;
	uint32_t i = 0;

	while (i < p->n && i < q->n && p->step[i].kind == q->step[i].kind &&
			p->step[i].phase == q->step[i].phase &&
			p->step[i].micro == q->step[i].micro && p->step[i].id == q->step[i].id)
		i++;
	return i;
}

/* Blocks in place and times, as of any proposal: all behind the first step that differs comes at
 * other times. */
static int time_order(struct ff_trial *e, double limit_us, double *step_us, struct ff_error *err)
{
	uint32_t first = first_other(e);
	int code;

	ff_place_activate(e);
	/* the last step before which all is equal; flat buckets are others from the first on */
	e->proposal.first_changed = first && !e->placed.n_flat ? first - 1 : 0;
	e->proposal.n_changes = 0;
	ff_trial_begin(e);
	touch_uses(e);
	e->proposal.rebuckets = true;
	ff_busy_begin(e, limit_us);
	ff_early_begin(e, limit_us, FF_EARLY_ORDER);
	code = ff_place_changes(e, err);
	if (code == FF_OK && !ff_is_rejected(e))
		code = ff_trial_time(e, e->proposal.first_changed, FF_NONE, step_us, err);
	e->busy.too_slow = e->busy.too_slow || *step_us > limit_us;
	if (code == FF_OK && !ff_is_rejected(e))
		code = ff_place_resolve_touched(e, err);
	return code;
}

/* ---- the account ---- */

static void find_dirty_nodes(struct ff_trial *e)
{
	const struct ff_program *p = &e->order.program, *q = &e->other->program;

	memset(e->proposal.node_dirty, 0, e->g->n_nodes * sizeof(*e->proposal.node_dirty));
	for (int k = 0; k < FF_PHASE_COUNT; k++)
		for (uint32_t i = 0; i < e->g->n_nodes; i++)
			e->proposal.node_dirty[i] |= p->compute[k][i] != q->compute[k][i];
}

static bool use_is_dirty(const struct ff_trial *e, uint32_t edge)
{
	const struct ff_program *p = &e->order.program, *q = &e->other->program;
	uint32_t to = e->ends[edge].to;
	bool dirty = e->proposal.node_dirty[to] ||
		     e->proposal.node_dirty[ff_node_leader(e->g, to)] ||
		     e->proposal.node_dirty[e->ends[ff_edge_last(e->g, edge)].to];

	for (int k = 0; k < FF_PHASE_COUNT; k++)
		dirty = dirty || p->moves[k][edge] != q->moves[k][edge];
	return dirty;
}

/* Whether a buffer of `value` comes or goes in another step. */
static bool is_dirty(const struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];
	uint32_t prelude = ff_node_prelude(e->g, v->producer);
	bool dirty = e->proposal.node_dirty[v->producer] ||
		     (prelude != FF_NONE && e->proposal.node_dirty[prelude]);

	for (uint32_t u = 0; u < v->n_uses && !dirty; u++)
		dirty = use_is_dirty(e, ff_value_use(e->g, v, u));
	return dirty;
}

/* The current strategy's account becomes the proposal's: what comes or goes in another step is
 * taken out where it was and put in where it is.  Steps are as many, and each has its row. */
static void move_account(struct ff_trial *e)
{
	find_dirty_nodes(e);
	e->proposal.n_dirty = 0;
	for (uint32_t i = 0; i < e->g->n_values; i++)
		if (is_dirty(e, i))
			e->proposal.dirty[e->proposal.n_dirty++] = i;
	ff_reorder_exchange(e);
	ff_place_exchange(e);
	ff_reorder_recount(e, -1);
	ff_reorder_exchange(e);
	ff_place_exchange(e);
	ff_reorder_exchange_accounts(e);
	ff_reorder_recount(e, 1);
	e->proposal.recounted = true;
}

static int account(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_program *p = &e->order.program, *q = &e->other->program;

	if (p->micro_batches > 1 || p->n != q->n || ff_trial_gathered(e)->synced.n_scattered)
		return ff_trial_account(e, err);
	move_account(e);
	return e->order.account.failed ? ff_fail_memory(err) : FF_OK;
}

/* ---- proposals ---- */

int ff_trial_reorder(struct ff_trial *e, const int32_t *priority, double limit_us, bool *slower,
		struct ff_evaluation *ret, struct ff_error *err)
{
	struct ff_strategy s = e->strategy;
	double step_us = 0;
	int code;

	memcpy(e->proposal.priority, priority, e->g->n_nodes * sizeof(*priority));
	s.priority = e->proposal.priority;
	ff_reorder_exchange(e);
	code = ff_reorder_plan(e, &s, err);
	if (code < 0) {
		ff_reorder_exchange(e);
		return code;
	}
	code = time_order(e, limit_us, &step_us, err);
	*slower = code == FF_OK && ff_is_rejected(e);
	e->proposal.reordered = true;
	e->proposal.recounted = false;
	if (code == FF_OK && !*slower)
		code = account(e, err);
	if (code < 0 || *slower) {
		ff_early_end(e, false);
		ff_reorder_drop(e);
		return code;
	}
	e->proposal.accounted = e->proposal.timed = true;
	ff_trial_conclude(e, step_us, ret);
	ff_early_end(e, ret->fits);
	return FF_OK;
}
