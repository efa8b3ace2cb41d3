/* The order in which operators are issued: its program, and orders that are proposed.  Blocks
 * know which use of a value is the first, and nothing else of it; so another order leaves nearly
 * all of them in place.  What depends on it is there twice, and changes places with the
 * current strategy's while a proposal is looked at.  SPDX-License-Identifier: Apache-2.0 */
#include "ordered.h"

#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "fold.h"
#include "place.h"

static int allocate(struct ff_trial *e, struct ff_ordered *o, struct ff_error *err)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges;
	struct ff_arena *a = &e->arena;

	o->order = ff_arena_array(a, nodes, sizeof(*o->order));
	o->position = ff_arena_array(a, nodes, sizeof(*o->position));
	o->first_edge = ff_arena_array(a, e->g->n_values, sizeof(*o->first_edge));
	o->first_use = ff_arena_array(a, edges, sizeof(*o->first_use));
	o->completes = ff_arena_array(a, edges, sizeof(*o->completes));
	o->completing = ff_arena_array(a, edges, sizeof(*o->completing));
	o->adding = ff_arena_array(a, edges, sizeof(*o->adding));
	o->completes_at = ff_arena_array(a, nodes, sizeof(*o->completes_at));
	if (!o->order || !o->position || !o->first_edge || !o->first_use || !o->completes ||
			!o->completing || !o->adding || !o->completes_at)
		return ff_fail_memory(err);
	return FF_OK;
}

static void swap(void *a, void *b, size_t size)
{
	char held[sizeof(struct ff_run) * FF_RUNS];

	memcpy(held, a, size);
	memcpy(a, b, size);
	memcpy(b, held, size);
}

void ff_reorder_exchange_accounts(struct ff_trial *e)
{
	swap(&e->account, &e->other->account, sizeof(e->account));
}

void ff_reorder_exchange(struct ff_trial *e)
{
	struct ff_ordered *o = e->other;

	swap(&e->order, &o->order, sizeof(o->order));
	swap(&e->position, &o->position, sizeof(o->position));
	swap(&e->first_edge, &o->first_edge, sizeof(o->first_edge));
	swap(&e->first_use, &o->first_use, sizeof(o->first_use));
	swap(&e->completes, &o->completes, sizeof(o->completes));
	swap(&e->completing, &o->completing, sizeof(o->completing));
	swap(&e->adding, &o->adding, sizeof(o->adding));
	swap(&e->completes_at, &o->completes_at, sizeof(o->completes_at));
	swap(&e->n_completing, &o->n_completing, sizeof(o->n_completing));
	swap(&e->n_adding, &o->n_adding, sizeof(o->n_adding));
	swap(&e->program, &o->program, sizeof(o->program));
	swap(&e->order_arena, &o->arena, sizeof(o->arena));
	swap(&e->arrival, &o->arrival, sizeof(o->arrival));
	swap(&e->active, &o->active, sizeof(o->active));
	swap(&e->begins, &o->begins, sizeof(o->begins));
	swap(e->fold.run, o->run, sizeof(o->run));
	swap(&e->fold.n_runs, &o->n_runs, sizeof(o->n_runs));
	ff_reorder_exchange_accounts(e);
	if (e->memo)
		e->memo->first_use = e->first_use;
}

int ff_reorder_create(struct ff_trial *e, struct ff_error *err)
{
	int code;

	e->other = ff_arena_alloc(&e->arena, sizeof(*e->other));
	if (!e->other)
		return ff_fail_memory(err);
	*e->other = (struct ff_ordered){0};
	e->other->priority = ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*e->other->priority));
	if (!e->other->priority)
		return ff_fail_memory(err);
	ff_arena_init(&e->order_arena);
	ff_arena_init(&e->other->arena);
	ff_arena_init(&e->account.arena);
	ff_arena_init(&e->other->account.arena);
	for (int i = 0; i < 2; i++) {
		code = allocate(e, e->other, err);
		if (code < 0)
			return code;
		ff_reorder_exchange(e);
	}
	return FF_OK;
}

void ff_reorder_finish(struct ff_trial *e)
{
	if (!e->other)
		return;
	ff_arena_finish(&e->order_arena);
	ff_arena_finish(&e->other->arena);
	ff_arena_finish(&e->account.arena);
	ff_arena_finish(&e->other->account.arena);
}

/* ---- programs ---- */

static void list_params(struct ff_trial *e, uint32_t node)
{
	const struct ff_node *n = &e->g->nodes[node];

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		uint32_t edge = n->in + i;
		struct ff_param_use use = {node, i, ff_edge_source(e->g, edge)};

		if (e->completes[edge]) {
			e->completes_at[use.param] = e->n_completing;
			e->completing[e->n_completing++] = use;
		}
		if (!e->first_use[edge])
			e->adding[e->n_adding++] = use;
	}
}

/* By edge: see struct ff_trial. */
static void find_begins(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->g->n_values; i++) {
		const struct ff_value *v = &e->g->values[i];
		const uint32_t *uses = e->g->uses + v->first_use;
		uint32_t first = FF_NONE;

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t step = ff_program_moves(&e->program, FF_PHASE_FORWARD, 0, uses[u]);

			first = step < first ? step : first;
		}
		for (uint32_t u = 0; u < v->n_uses; u++)
			e->begins[uses[u]] = first;
	}
}

/* What closes buckets, and room for all that may arrive in a pass. */
static int list_steps(struct ff_trial *e, struct ff_error *err)
{
	size_t most = FF_PHASE_COUNT * (size_t)e->g->n_nodes * e->program.micro_batches;

	e->arrival = ff_arena_array(&e->order_arena, most, sizeof(*e->arrival));
	e->active = ff_arena_array(&e->order_arena, e->program.n / 64 + 1, sizeof(*e->active));
	e->begins = ff_arena_array(&e->order_arena, e->g->n_edges, sizeof(*e->begins));
	e->n_arrivals = e->n_completing = e->n_adding = 0;
	for (uint32_t i = 0; i < e->program.n; i++)
		if (e->program.step[i].kind == FF_STEP_SYNC)
			list_params(e, e->program.step[i].id);
	if (!e->arrival || !e->active || !e->begins)
		return ff_fail_memory(err);
	find_begins(e);
	return FF_OK;
}

/* Which uses of values are the first in the order, and which the last. */
static void find_uses(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		e->position[e->order[i]] = i;
	for (uint32_t i = 0; i < e->g->n_edges; i++) {
		e->first_use[i] = ff_edge_is_first_use(e->g, e->position, i);
		e->completes[i] = ff_edge_completes(e->g, e->position, i);
		if (e->first_use[i])
			e->first_edge[e->g->edges[i].value] = i;
	}
}

static int find_order(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	size_t size = e->g->n_nodes * sizeof(*e->order);
	uint32_t *order = ff_arena_alloc(&e->scratch, size);
	int code = order ? ff_strategy_order(e->g, s, &e->scratch, order, err)
			 : ff_fail_memory(err);

	if (code == FF_OK)
		memcpy(e->order, order, size);
	ff_arena_rewind(&e->scratch, mark);
	return code;
}

int ff_reorder_plan(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err)
{
	int code = find_order(e, s, err);

	ff_arena_rewind(&e->order_arena, (struct ff_arena_mark){0});
	if (code == FF_OK)
		code = ff_program_build(e->g, s, e->order, &e->order_arena, &e->program, err);
	if (code < 0)
		return code;
	find_uses(e);
	code = ff_fold_plan(e, err);
	return code < 0 ? code : list_steps(e, err);
}

void ff_reorder_recount(struct ff_trial *e, int64_t sign)
{
	for (uint32_t i = 0; i < e->n_shifted; i++)
		ff_account_value(e, e->shifted[i], sign);
}

void ff_reorder_keep(struct ff_trial *e)
{
	memcpy(e->strategy.priority, e->other->priority,
			e->g->n_nodes * sizeof(*e->strategy.priority));
	e->planned = false;
}

void ff_reorder_drop(struct ff_trial *e)
{
	if (e->recounted)
		ff_reorder_recount(e, -1);
	ff_reorder_exchange(e);
	ff_place_exchange(e);
	if (e->recounted) {
		ff_reorder_exchange_accounts(e);
		ff_reorder_recount(e, 1);
	}
	e->n_swaps = 0;
	e->rebuckets = e->proposed = e->reordered = e->recounted = false;
}
