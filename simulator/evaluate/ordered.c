/* The order in which operators are issued: its program, and orders that are proposed.  Blocks
 * know which use of a value is the first, and nothing else of it; so another order leaves nearly
 * all of them in place.  What depends on it is there twice, and changes places with the
 * current strategy's while a proposal is looked at.  SPDX-License-Identifier: Apache-2.0 */
#include "ordered.h"

#include <stdlib.h>
#include <string.h>

#include "bytes/account.h"
#include "place.h"
#include "shortcuts/fold.h"
#include "shortcuts/layer_runs.h"
#include "shortcuts/pipe_slot_list.h"
#include "shortcuts/rejoin.h"

static int allocate(struct ff_trial *e, struct ff_order *o, struct ff_error *err)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges;
	struct ff_arena *a = &e->arena;

	o->nodes = ff_arena_array(a, nodes, sizeof(*o->nodes));
	o->position = ff_arena_array(a, nodes, sizeof(*o->position));
	o->first_edge = ff_arena_array(a, e->g->n_values, sizeof(*o->first_edge));
	o->first_use = ff_arena_array(a, edges, sizeof(*o->first_use));
	o->completes = ff_arena_array(a, edges, sizeof(*o->completes));
	o->completing = ff_arena_array(a, edges, sizeof(*o->completing));
	o->adding = ff_arena_array(a, edges, sizeof(*o->adding));
	o->completes_at = ff_arena_array(a, nodes, sizeof(*o->completes_at));
	if (!o->nodes || !o->position || !o->first_edge || !o->first_use || !o->completes ||
			!o->completing || !o->adding || !o->completes_at)
		return ff_fail_memory(err);
	return FF_OK;
}

void ff_reorder_exchange_accounts(struct ff_trial *e)
{
	struct ff_account was = e->order.account;

	e->order.account = e->other->account;
	e->other->account = was;
}

void ff_reorder_exchange(struct ff_trial *e)
{
	struct ff_order was = e->order;

	e->order = *e->other;
	*e->other = was;
	if (e->memo)
		e->memo->first_use = e->order.first_use;
}

int ff_reorder_create(struct ff_trial *e, struct ff_error *err)
{
	int code;

	e->other = ff_arena_alloc(&e->arena, sizeof(*e->other));
	if (!e->other)
		return ff_fail_memory(err);
	*e->other = (struct ff_order){0};
	e->proposal.priority =
			ff_arena_array(&e->arena, e->g->n_nodes, sizeof(*e->proposal.priority));
	if (!e->proposal.priority)
		return ff_fail_memory(err);
	ff_arena_init(&e->order.arena);
	ff_arena_init(&e->other->arena);
	ff_arena_init(&e->order.account.arena);
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
	ff_arena_finish(&e->order.arena);
	ff_arena_finish(&e->other->arena);
	ff_arena_finish(&e->order.account.arena);
	ff_arena_finish(&e->other->account.arena);
	free(e->order.account.change_bytes);
	free(e->other->account.change_bytes);
}

/* ---- programs ---- */

static void list_params(struct ff_trial *e, uint32_t node)
{
	const struct ff_node *n = &e->g->nodes[node];

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		uint32_t edge = n->in + i;
		struct ff_param_use use = {node, i, ff_edge_source(e->g, edge)};

		if (e->order.completes[edge]) {
			e->order.completes_at[use.param] = e->order.n_completing;
			e->order.completing[e->order.n_completing++] = use;
		}
		if (!e->order.first_use[edge])
			e->order.adding[e->order.n_adding++] = use;
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
			uint32_t step = ff_program_moves(
					&e->order.program, FF_PHASE_FORWARD, 0, uses[u]);

			first = step < first ? step : first;
		}
		for (uint32_t u = 0; u < v->n_uses; u++)
			e->order.begins[uses[u]] = first;
	}
}

/* What closes buckets, and room for all that may arrive in a pass. */
static int list_steps(struct ff_trial *e, struct ff_error *err)
{
	size_t most = FF_PHASE_COUNT * (size_t)e->g->n_nodes * e->order.program.micro_batches;

	e->order.arrival = ff_arena_array(&e->order.arena, most, sizeof(*e->order.arrival));
	e->order.active = ff_arena_array(
			&e->order.arena, e->order.program.n / 64 + 1, sizeof(*e->order.active));
	e->order.begins = ff_arena_array(&e->order.arena, e->g->n_edges, sizeof(*e->order.begins));
	e->times.n_arrivals = e->order.n_completing = e->order.n_adding = 0;
	/* as ff_lower fills buckets: not the order in which they are synchronised */
	for (uint32_t i = e->g->n_nodes; i-- > 0;)
		if (ff_node_needs_grad(e->g, e->order.nodes[i]))
			list_params(e, e->order.nodes[i]);
	if (!e->order.arrival || !e->order.active || !e->order.begins)
		return ff_fail_memory(err);
	find_begins(e);
	return FF_OK;
}

/* Which use of `value` backward visits first, of those that have a gradient, and which last:
 * ff_edge_is_first_use and ff_edge_completes for all of them, of which there may be thousands. */
static void find_uses_of(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];
	const uint32_t *position = e->order.position;
	uint32_t first = FF_NONE, last = FF_NONE;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(e->g, v, u), node = e->g->edges[edge].node;

		e->order.first_use[edge] = e->order.completes[edge] = false;
		if (ff_edge_needs_grad(e->g, edge) &&
				(first == FF_NONE ||
						position[node] > position[e->g->edges[first].node]))
			first = edge;
		if (last == FF_NONE || position[node] <= position[e->g->edges[last].node])
			last = edge;
	}
	if (first != FF_NONE) {
		e->order.first_use[first] = true;
		e->order.first_edge[value] = first;
	}
	if (last != FF_NONE)
		e->order.completes[last] = true;
}

static void find_uses(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		e->order.position[e->order.nodes[i]] = i;
	for (uint32_t i = 0; i < e->g->n_values; i++)
		find_uses_of(e, i);
}

static int find_order(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	size_t size = e->g->n_nodes * sizeof(*e->order.nodes);
	uint32_t *order = ff_arena_alloc(&e->scratch, size);
	int code = order ? ff_strategy_order(e->g, s, &e->scratch, order, err)
			 : ff_fail_memory(err);

	if (code == FF_OK)
		memcpy(e->order.nodes, order, size);
	ff_arena_rewind(&e->scratch, mark);
	return code;
}

int ff_reorder_plan(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err)
{
	int code = find_order(e, s, err);

	ff_pipe_slots_free(&e->order);
	ff_arena_rewind(&e->order.arena, (struct ff_arena_mark){0});
	if (code == FF_OK)
		code = ff_program_build(
				e->g, s, e->order.nodes, &e->order.arena, &e->order.program, err);
	if (code < 0)
		return code;
	find_uses(e);
	code = ff_fold_plan(e, err);
	if (code == FF_OK)
		code = ff_layer_runs_find(e, err);
	if (code == FF_OK)
		code = ff_pipe_slots_find(e, s, err);
	if (code == FF_OK)
		code = ff_rejoin_plan(e, err);
	return code < 0 ? code : list_steps(e, err);
}

void ff_reorder_recount(struct ff_trial *e, int64_t sign)
{
	for (uint32_t i = 0; i < e->proposal.n_dirty; i++)
		ff_account_value(e, e->proposal.dirty[i], sign);
}

void ff_reorder_keep(struct ff_trial *e)
{
	memcpy(e->strategy.priority, e->proposal.priority,
			e->g->n_nodes * sizeof(*e->strategy.priority));
	e->snapshots.planned = false;
}

void ff_reorder_drop(struct ff_trial *e)
{
	if (e->proposal.recounted)
		ff_reorder_recount(e, -1);
	ff_reorder_exchange(e);
	ff_place_exchange(e);
	if (e->proposal.recounted) {
		ff_reorder_exchange_accounts(e);
		ff_reorder_recount(e, 1);
	}
	e->proposal.n_swaps = 0;
	e->proposal.rebuckets = e->proposal.accounted = e->proposal.reordered =
			e->proposal.recounted = false;
}
