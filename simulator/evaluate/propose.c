/* Proposals, which differ from the current strategy in a few operators.  What one touches is
 * swapped (place.c); one pass times it (run_pass.c), from where it differs; its buffers are moved
 * in the account of memory.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "bytes/account.h"
#include "bytes/columns.h"
#include "bytes/dropped.h"
#include "evaluate.h"
#include "home.h"
#include "memos.h"
#include "ordered.h"
#include "place.h"
#include "shortcuts/busy.h"
#include "shortcuts/early.h"
#include "shortcuts/pipe_slots.h"
#include "shortcuts/rejoin.h"

#define RECORD_AFTER 4 /* proposals, before snapshots are worth the pass they take */
#define REMEMBER 64u   /* proposals whose bytes were counted, before they count half */

void ff_trial_touch(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];

	if (e->proposal.mark[value] == e->proposal.stamp)
		return;
	e->proposal.mark[value] = e->proposal.stamp;
	e->proposal.flat_was[v->producer] = e->placed.flat[v->producer];
	e->proposal.touched[e->proposal.n_touched++] = value;
	for (uint32_t u = 0; u < v->n_uses; u++)
		e->proposal.near[e->proposal.n_near++] = ff_value_use(e->g, v, u);
}

void ff_trial_begin(struct ff_trial *e)
{
	e->proposal.stamp++;
	e->proposal.n_touched = e->proposal.n_near = e->proposal.n_swaps = 0;
	e->proposal.rebuckets = e->proposal.reshares = false;
	e->proposal.n_flat_was = e->placed.n_flat;
	ff_gathered_forget(e->placed.next);
}

/* Values whose buffers the proposal may change: all that its nodes read or write. */
static void list_touched(struct ff_trial *e)
{
	ff_trial_begin(e);
	for (uint32_t i = 0; i < e->proposal.n_changes; i++) {
		const struct ff_node *n = &e->g->nodes[e->proposal.changes[i].node];

		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			ff_trial_touch(e, e->g->edges[k].value);
		for (uint32_t k = n->out; k < n->out + n->n_out; k++)
			ff_trial_touch(e, k);
	}
}

/* Takes out what is in place of what the proposal touches, or puts it in. */
static void account_touched(struct ff_trial *e, int64_t sign)
{
	/* what is taken out is the current strategy's, unless it is put back */
	bool next = e->proposal.accounted ? sign < 0 : sign > 0;

	for (uint32_t i = 0; i < e->proposal.n_touched; i++)
		ff_account_value(e, e->proposal.touched[i], sign);
	if (e->proposal.rebuckets)
		ff_dropped_count(e, next ? &e->placed.next->synced : &e->placed.now->synced,
				next ? &e->placed.now->synced : &e->placed.next->synced, sign);
}

static void restore(struct ff_trial *e)
{
	bool undone = ff_columns_undo(e);

	if (!undone)
		account_touched(e, -1);
	ff_place_exchange(e);
	ff_pipe_slots_drop(e);
	e->proposal.n_changes = e->proposal.n_swaps = 0;
	if (!undone)
		account_touched(e, 1);
	e->proposal.rebuckets = e->proposal.accounted = false;
}

static int copy_changes(struct ff_trial *e, const struct ff_change *change, uint32_t n,
		struct ff_error *err)
{
	int code = FF_OK;

	if (n > e->proposal.cap_changes) {
		struct ff_change *grown = realloc(e->proposal.changes, n * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		e->proposal.changes = grown;
		e->proposal.cap_changes = n;
	}
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		const struct ff_node *node = &e->g->nodes[change[i].node];

		e->proposal.changes[i].node = change[i].node;
		e->proposal.changed_at[change[i].node] = i;
		code = ff_trial_copy_config(
				e, &change[i].config, &e->proposal.changes[i].config, err);
		if (code == FF_OK && change[i].config.n_parts)
			code = ff_config_check(node, &change[i].config, e->m->n_devices, err);
	}
	e->proposal.n_changes = code == FF_OK ? n : 0;
	return code;
}

/* The first and the last step of forward in which something of the proposal is done;
 * FF_NONE and 0: none is.  Flat buckets are gathered from the first step on. */
static void find_steps(const struct ff_trial *e, uint32_t *first, uint32_t *last)
{
	bool gathers = e->proposal.rebuckets && (e->placed.n_flat || e->proposal.n_flat_was);

	*first = gathers ? 0 : FF_NONE;
	*last = gathers ? FF_NONE : 0;
	for (uint32_t i = 0; i < e->proposal.n_swaps; i++) {
		const struct ff_swap *s = &e->proposal.swap[i];
		uint32_t step = s->is_edge ? ff_program_moves(&e->order.program, FF_PHASE_FORWARD,
							     0, s->id)
					   : ff_program_compute(&e->order.program, FF_PHASE_FORWARD,
							     0, s->id);
		uint32_t begins = s->is_edge ? e->order.begins[s->id] : step;

		*first = begins < *first ? begins : *first;
		*last = step != FF_NONE && step > *last ? step : *last;
	}
}

/* What lacks bytes that count, while the step does not, is not timed. */
static int time_changes(struct ff_trial *e, struct ff_most most, struct ff_evaluation *ret,
		struct ff_error *err)
{
	uint32_t last;
	int code;

	find_steps(e, &e->proposal.first_changed, &last);
	ret->step_us = INFINITY;
	if (isinf(most.step_us) && e->proposal.accounted && !ret->fits)
		return FF_OK;
	ff_pipe_slots_touch(e);
	ff_rejoin_touch(e);
	code = ff_trial_time(e, e->proposal.first_changed, last, &ret->step_us, err);
	e->rejoin.may = false;
	e->busy.too_slow = e->busy.too_slow || ret->step_us > most.step_us;
	if (code < 0 || ff_is_rejected(e))
		return code;
	e->proposal.timed = true;
	e->early.next_us = ret->step_us;
	return ff_place_resolve_touched(e, err);
}

/* Before the proposal: takes snapshots where that is worth while. */
static int prepare(struct ff_trial *e, struct ff_most most, struct ff_error *err)
{
	bool is_timed = !isinf(most.step_us) || most.over_bytes == INT64_MAX;
	struct ff_gathered *b;
	int code = ff_evaluator_trim(e->home) ? ff_trial_place_anew(e, err) : FF_OK;

	if (code == FF_OK) /* what the proposal takes out of the account must be known */
		code = ff_trial_gather(e, false, &b, err);
	if (code == FF_OK && is_timed && !e->snapshots.recorded &&
			e->snapshots.since++ >= RECORD_AFTER)
		code = ff_trial_record(e, err);
	return code;
}

/* The proposal, which is in place, is moved in the account. */
static int account_proposal(struct ff_trial *e, struct ff_most most, struct ff_evaluation *ret,
		struct ff_error *err)
{
	ff_place_exchange(e);
	ff_columns_note(e, true);
	account_touched(e, -1);
	ff_place_exchange(e);
	account_touched(e, 1);
	ff_columns_note(e, false);
	e->proposal.accounted = true;
	if (e->order.account.failed)
		return ff_fail_memory(err);
	ff_account_over(e, most.over_bytes, ret);
	return FF_OK;
}

/* Whether it lacks more than it may; it is in the account. */
static bool lacks_more(struct ff_trial *e, struct ff_most most, const struct ff_evaluation *at)
{
	struct ff_tally *t = &e->tally;
	bool more = at->over_bytes > most.over_bytes;

	if (most.over_bytes == INT64_MAX)
		return false;
	t->n_counted++;
	t->n_lacking += more;
	if (t->n_counted >= REMEMBER) {
		t->n_counted /= 2;
		t->n_lacking /= 2;
	}
	return more;
}

/* Whether memory is looked at before time: where the step may be any, and where a pass takes long,
 * as of several micro-batches, and most lack more than they may. */
static bool is_memory_first(const struct ff_trial *e, struct ff_most most)
{
	if (most.over_bytes == INT64_MAX)
		return false;
	return isinf(most.step_us) ||
	       (e->order.program.micro_batches > 1 && 2 * e->tally.n_lacking > e->tally.n_counted);
}

static int check_memory(struct ff_trial *e, struct ff_most most, bool *lacks,
		struct ff_evaluation *ret, struct ff_error *err)
{
	struct ff_gathered *b;
	int code = ff_place_resolve_touched(e, err);

	if (code == FF_OK)
		code = ff_trial_gather(e, false, &b, err);
	if (code == FF_OK)
		code = ff_updates_find(e, err);
	if (code < 0)
		return code;
	code = account_proposal(e, most, ret, err);
	*lacks = code == FF_OK && lacks_more(e, most, ret);
	return code;
}

/* Puts what is proposed in place, as far as it is not rejected, times it and counts its bytes. */
static int look_at(struct ff_trial *e, struct ff_most most, bool *lacks, struct ff_evaluation *ret,
		struct ff_error *err)
{
	int code;

	*lacks = e->proposal.timed = false;
	list_touched(e);
	ff_busy_begin(e, most.step_us);
	ff_early_begin(e, most.step_us, FF_EARLY_BEHIND);
	code = ff_place_changes(e, err);
	if (code == FF_OK && !ff_is_rejected(e))
		code = ff_early_check_sync(e, err);
	if (code == FF_OK && !ff_is_rejected(e) && is_memory_first(e, most))
		code = check_memory(e, most, lacks, ret, err);
	if (code < 0 || ff_is_rejected(e) || *lacks)
		return code;
	code = time_changes(e, most, ret, err);
	if (code == FF_OK && !ff_is_rejected(e) && !e->proposal.accounted) {
		code = account_proposal(e, most, ret, err);
		*lacks = code == FF_OK && lacks_more(e, most, ret);
	}
	return code;
}

/* What is in place of it is taken out again. */
static void forget_proposal(struct ff_trial *e)
{
	ff_early_end(e, false);
	if (e->proposal.accounted) {
		restore(e);
		return;
	}
	ff_place_exchange(e);
	ff_pipe_slots_drop(e);
	e->proposal.n_changes = 0;
	e->proposal.rebuckets = false;
}

int ff_trial_propose(struct ff_trial *e, const struct ff_change *change, uint32_t n,
		struct ff_most most, bool *worse, struct ff_evaluation *ret, struct ff_error *err)
{
	struct ff_evaluation found;
	bool lacks;
	int code = prepare(e, most, err);

	if (code == FF_OK)
		code = copy_changes(e, change, n, err);
	if (code < 0)
		return code;
	code = look_at(e, most, &lacks, &found, err);
	*worse = code == FF_OK && (lacks || ff_is_rejected(e));
	if (code < 0 || *worse) {
		forget_proposal(e);
		return code;
	}
	*ret = found;
	ff_early_end(e, ret->fits);
	return FF_OK;
}

/* The proposal's buckets become the current strategy's. */
static void keep_buckets(struct ff_trial *e)
{
	struct ff_gathered *was = e->placed.now;

	if (!e->proposal.rebuckets)
		return;
	e->placed.now = e->placed.next;
	e->placed.next = was;
	e->proposal.rebuckets = false;
}

void ff_trial_keep(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->proposal.n_changes && e->proposal.accounted; i++)
		e->strategy.config[e->proposal.changes[i].node] = e->proposal.changes[i].config;
	if (e->proposal.accounted) {
		ff_busy_keep(e);
		if (e->proposal.timed)
			ff_early_keep(e);
		if (e->proposal.timed && !e->proposal.reordered)
			ff_rejoin_keep(e);
		else
			ff_rejoin_forget(e);
		keep_buckets(e);
		ff_snapshots_keep(e, e->proposal.first_changed);
		e->snapshots.since = 0;
	}
	if (e->proposal.reordered)
		ff_reorder_keep(e);
	else if (e->proposal.accounted)
		ff_pipe_slots_keep(e);
	e->proposal.n_changes = 0;
	e->proposal.accounted = e->proposal.reordered = false;
}

void ff_trial_drop(struct ff_trial *e)
{
	if (e->proposal.reordered)
		ff_reorder_drop(e);
	else if (e->proposal.accounted)
		restore(e);
}
