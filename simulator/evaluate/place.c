/* Blocks in place.  A proposal puts others in the place of those it touches, and they
 * are put back when it is dropped.  What is moved at an edge that was never seen is
 * left unknown until the pass comes there: most proposals are given up before.
 * SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <string.h>

#include "ff/program_phases.h"
#include "ff/sharing.h"
#include "shortcuts/busy.h"

/* Moves are counted so many values behind where they are fetched from the host's memory. */
#define COUNT_BEHIND 4

/* ---- nodes ---- */

/* The number of the change of `node`, or FF_NONE. */
static uint32_t change_of(const struct ff_trial *e, uint32_t node)
{
	uint32_t k = e->proposal.changed_at[node];

	/* what is there of others is from other proposals */
	return k < e->proposal.n_changes && e->proposal.changes[k].node == node ? k : FF_NONE;
}

const struct ff_config *ff_place_config(const struct ff_trial *e, uint32_t i)
{
	uint32_t k;

	i = ff_node_leader(e->g, i);
	k = change_of(e, i);
	return k != FF_NONE ? &e->proposal.changes[k].config : &e->strategy.config[i];
}

static int place_node(struct ff_trial *e, uint32_t node, const struct ff_memo_wish *w,
		struct ff_error *err)
{
	struct ff_memo_node *new;
	int code = ff_memo_find(e->memo, node, ff_place_config(e, node), w, &new, err);

	return code == FF_OK ? ff_swap_node(e, node, new, err) : code;
}

/* Wishes for the blocks of all that a proposal changes: by number of the change that of the
 * node, unless it is a parameter that lies where it is read, and behind it of its prelude. */
static void wish_changes(struct ff_trial *e)
{
	struct ff_memo_wish *w = e->proposal.wish;

	for (uint32_t i = 0; i < e->proposal.n_changes; i++, w += 2) {
		uint32_t node = e->proposal.changes[i].node, prelude = ff_node_prelude(e->g, node);
		const struct ff_config *c = ff_place_config(e, node);

		if (c->n_parts)
			ff_memo_wish(e->memo, node, c, &w[0]);
		if (prelude != FF_NONE)
			ff_memo_wish(e->memo, prelude, c, &w[1]);
	}
	w = e->proposal.wish;
	for (uint32_t i = 0; i < e->proposal.n_changes; i++, w += 2) {
		uint32_t node = e->proposal.changes[i].node;

		if (ff_place_config(e, node)->n_parts)
			ff_memo_fetch(e->memo, &w[0]);
		if (ff_node_prelude(e->g, node) != FF_NONE)
			ff_memo_fetch(e->memo, &w[1]);
	}
}

/* ---- edges ---- */

/* The gradient at `edge` is sent and added as was found. */
static void put_sum(struct ff_trial *e, uint32_t edge)
{
	uint32_t sent = e->proposal.sums_next.sent[edge], added = e->proposal.sums_next.added[edge];
	int sums = (sent != FF_NONE) - (e->placed.sums.sent[edge] != FF_NONE);
	int adds = (added != FF_NONE) - (e->placed.sums.added[edge] != FF_NONE);

	e->proposal.reshares = e->proposal.reshares || sent != e->placed.sums.sent[edge] ||
			       added != e->placed.sums.added[edge];
	e->placed.sums.sent[edge] = sent;
	e->placed.sums.added[edge] = added;
	e->placed.n_added[e->ends[edge].to] += (uint32_t)adds;
	e->placed.n_sums += (uint32_t)sums;
	if (sums)
		ff_swap_set_state(e, edge, FF_BACKWARD);
}

/* Which gradients of `value` are added up before they are moved, and which is moved first. */
static void sum_uses(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];

	ff_place_find_sums(e, value);
	for (uint32_t u = 0; u < v->n_uses; u++)
		put_sum(e, ff_value_use(e->g, v, u));
}

void ff_place_find_sharing(struct ff_trial *e, uint32_t value)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);

	ff_sharing_find(&blocks, &e->order.program, value, e->proposal.shared_next);
}

/* Which uses of `value` are moved once, once all its readers are in place, and of an activation
 * who made it. */
static void share_uses(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];
	const uint32_t *uses = e->g->uses + v->first_use;

	if (v->n_uses == 1 || e->placed.synced[v->producer])
		return;
	for (uint32_t u = 0; u < v->n_uses; u++)
		e->placed.is_shared[uses[u]] = false;
	ff_place_find_sharing(e, value);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t was = e->placed.shared_from[uses[u]];
		uint32_t from = e->proposal.shared_next[uses[u]];

		e->placed.shared_from[uses[u]] = from;
		e->proposal.reshares = e->proposal.reshares || from != was;
		if (from != FF_NONE)
			e->placed.is_shared[from] = true;
		if ((was == FF_NONE) != (from == FF_NONE))
			ff_swap_set_state(e, uses[u], FF_FORWARD);
	}
	if (v->kind == FF_VALUE_ACTIVATION && v->needs_grad)
		sum_uses(e, value);
}

/* Wishes for the blocks of all edges that a proposal touches, but those of parameters, which
 * follow their readers. */
static void wish_edges(struct ff_trial *e)
{
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t i = 0; i < e->proposal.n_near; i++) {
			uint32_t edge = e->proposal.near[i];
			const struct ff_edge_ends *at = &e->ends[edge];
			uint64_t ends;

			if (at->parameter)
				continue;
			ends = ff_memo_ends(e->placed.node[at->from], e->placed.node[at->to]);
			if (ff_swap_has_ends(e, edge, ends))
				continue;
			if (turn == 0)
				ff_memo_edge_wish(e->memo, edge, ends);
			else
				ff_memo_edge_fetch(e->memo, edge, ends);
		}
}

static bool leaves(void *ctx, uint32_t edge)
{
	const struct ff_trial *e = ctx;

	return ff_memo_leaves(e->memo, edge, e->placed.node[e->ends[edge].from],
			e->placed.node[e->ends[edge].to]);
}

void ff_place_find_sums(struct ff_trial *e, uint32_t value)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);
	struct ff_sums next = e->proposal.sums_next;
	struct ff_leaving known = {leaves, e};

	next.first = e->order.first_use;
	ff_sums_find(&blocks, &known, value, &next, &e->order.first_edge[value]);
}

int ff_place_resolve(struct ff_trial *e, uint32_t edge, enum ff_pass pass, struct ff_error *err)
{
	int code;

	if (e->placed.state[pass][edge] != FF_EDGE_UNKNOWN)
		return FF_OK;
	code = ff_memo_build(e->memo, edge, pass, e->placed.node[e->ends[edge].from],
			e->placed.node[e->ends[edge].to], e->placed.edge[edge], err);
	if (code < 0)
		return code;
	ff_swap_set_state(e, edge, pass);
	ff_busy_add_edge(e, edge, pass);
	return FF_OK;
}

/* ---- parameters ---- */

/* Buckets are gathered of all parameters, and their readers' blocks lie far apart: what is asked of
 * those is noted.  Which of several readers it is depends on the order. */
static void note_shards(struct ff_trial *e, uint32_t param)
{
	const struct ff_value *v = &e->g->values[e->g->nodes[param].out];
	struct ff_shards *s = &e->placed.shards[param];
	uint32_t edge;

	s->n = 0;
	if (!e->placed.synced[param] || v->n_uses != 1)
		return;
	edge = e->g->uses[v->first_use];
	s->group = ff_node_block_groups(
			e->placed.block[e->ends[edge].to], e->g->edges[edge].slot, &s->n);
}

/* The block of one that is not synchronised, under `c`. */
static int find_param(struct ff_trial *e, uint32_t param, const struct ff_config *c,
		struct ff_memo_node **ret, struct ff_error *err)
{
	uint32_t change = change_of(e, param);

	if (c == &e->strategy.config[param] && e->placed.node[param]) {
		*ret = e->placed.node[param];
		return FF_OK;
	}
	if (change != FF_NONE && c == &e->proposal.changes[change].config)
		return ff_memo_find(
				e->memo, param, c, &e->proposal.wish[2 * (size_t)change], ret, err);
	return ff_memo_node(e->memo, param, c, ret, err);
}

/* What gathers weights, several times (`limited`) or once, is done where there are any, and so is
 * what sums gradients several times. */
static void activate_kind(struct ff_trial *e, enum ff_step_kind kind, bool limited, bool on)
{
	uint32_t end = limited ? e->order.program.n : e->order.program.gathers_end;

	for (uint32_t i = 0; i < end; i++) {
		const struct ff_step *s = &e->order.program.step[i];
		uint64_t bit = (uint64_t)1 << i % 64;

		if (s->kind == kind && s->limited == limited)
			e->order.active[i / 64] = on ? e->order.active[i / 64] | bit
						     : e->order.active[i / 64] & ~bit;
	}
}

static void set_flat(struct ff_trial *e, uint32_t param, enum ff_flat flat)
{
	uint32_t was = e->placed.n_flat, dropped = e->placed.n_dropped, summed = e->placed.n_summed;
	uint32_t less = e->placed.flat[param] != FF_FLAT_NOT, more = flat != FF_FLAT_NOT;
	bool recomputed = e->order.program.recomputed[param];

	e->placed.n_flat = e->placed.n_flat + more - less;
	if (recomputed)
		e->placed.n_dropped = e->placed.n_dropped + more - less;
	if (recomputed || e->order.program.scatters)
		e->placed.n_summed = e->placed.n_summed + more - less;
	e->placed.flat[param] = (uint8_t)flat;
	if ((was > 0) != (e->placed.n_flat > 0))
		activate_kind(e, FF_STEP_GATHER, false, e->placed.n_flat > 0);
	if ((dropped > 0) != (e->placed.n_dropped > 0))
		activate_kind(e, FF_STEP_GATHER, true, e->placed.n_dropped > 0);
	if ((summed > 0) != (e->placed.n_summed > 0))
		activate_kind(e, FF_STEP_SYNC, true, e->placed.n_summed > 0);
}

/* Once its readers are in place. */
static int place_param(struct ff_trial *e, uint32_t param, struct ff_error *err)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);
	const struct ff_value *v = &e->g->values[e->g->nodes[param].out];
	const struct ff_config *c = ff_place_config(e, param);
	struct ff_memo_node *new = NULL;
	uint16_t list[FF_MAX_DEVICES];
	struct ff_config follow;
	enum ff_flat flat;
	int code = FF_OK;

	/* one that is synchronised lies where its readers put it, and they change */
	e->proposal.rebuckets = e->proposal.rebuckets || e->placed.synced[param];
	e->placed.synced[param] =
			ff_param_is_synced(&blocks, param, c, !ff_price_codec(e->p), &flat);
	set_flat(e, param, ff_price_codec(e->p) ? FF_FLAT_NOT : flat);
	note_shards(e, param);
	if (!e->placed.synced[param] && !c->n_parts) {
		uint32_t edge = e->g->uses[v->first_use];

		ff_config_follow(e->g, edge, &e->placed.node[e->g->edges[edge].node]->rest->config,
				list, &follow);
		c = &follow;
	}
	if (!e->placed.synced[param])
		code = find_param(e, param, c, &new, err);
	e->proposal.rebuckets = e->proposal.rebuckets || e->placed.synced[param] ||
				e->placed.node[param] != new;
	if (code == FF_OK)
		code = ff_swap_node(e, param, new, err);
	for (uint32_t u = 0; u < v->n_uses && code == FF_OK; u++)
		code = ff_swap_edge(e, ff_value_use(e->g, v, u), err);
	return code;
}

/* ---- all, and those of a proposal ---- */

static bool is_active(const struct ff_trial *e, const struct ff_step *s)
{
	enum ff_pass pass = ff_phase_pass(s->phase);

	if (s->kind == FF_STEP_MOVES)
		return e->placed.state[pass][s->id] != FF_EDGE_STILL;
	if (s->kind == FF_STEP_GATHER && !s->limited)
		return e->placed.n_flat > 0;
	if (s->kind == FF_STEP_GATHER)
		return e->placed.n_dropped > 0;
	if (s->kind == FF_STEP_SYNC)
		return !s->limited || e->placed.n_summed > 0;
	return true;
}

void ff_place_activate(struct ff_trial *e)
{
	memset(e->order.active, 0, (e->order.program.n / 64 + 1) * sizeof(*e->order.active));
	for (uint32_t i = 0; i < e->order.program.n; i++) {
		const struct ff_step *s = &e->order.program.step[i];

		if (is_active(e, s))
			e->order.active[i / 64] |= (uint64_t)1 << i % 64;
	}
}

/* Nothing moves anywhere, and nothing is shared. */
static void reset_states(struct ff_trial *e)
{
	for (int pass = 0; pass < 2; pass++)
		memset(e->placed.state[pass], FF_EDGE_STILL,
				e->g->n_edges * sizeof(**e->placed.state));
	memset(e->placed.shared_from, 0xff, e->g->n_edges * sizeof(*e->placed.shared_from));
	memset(e->placed.is_shared, 0, e->g->n_edges * sizeof(*e->placed.is_shared));
	memset(e->placed.sums.sent, 0xff, e->g->n_edges * sizeof(*e->placed.sums.sent));
	memset(e->placed.sums.added, 0xff, e->g->n_edges * sizeof(*e->placed.sums.added));
	memset(e->placed.n_added, 0, e->g->n_nodes * sizeof(*e->placed.n_added));
	memset(e->placed.flat, 0, e->g->n_nodes * sizeof(*e->placed.flat));
	e->placed.n_flat = e->placed.n_dropped = e->placed.n_summed = 0;
	e->placed.n_sums = 0;
	ff_place_activate(e);
}

int ff_place_all(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	int code = FF_OK;

	e->proposal.n_changes = 0;
	memset(e->placed.edge, 0, g->n_edges * sizeof(*e->placed.edge));
	reset_states(e);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		ff_swap_put_node(e, i, NULL);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_computed(g, i)) {
			ff_memo_wish(e->memo, i, ff_place_config(e, i), e->proposal.wish);
			code = place_node(e, i, e->proposal.wish, err);
		}
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_parameter(g, i))
			code = place_param(e, i, err);
	for (uint32_t k = 0; k < g->n_values && code == FF_OK; k++)
		share_uses(e, k);
	for (uint32_t k = 0; k < g->n_edges && code == FF_OK; k++) {
		if (!e->ends[k].parameter)
			code = ff_swap_edge(e, k, err);
	}
	for (uint32_t k = 0; k < 2 * g->n_edges && code == FF_OK; k++)
		code = ff_place_resolve(e, k / 2, (enum ff_pass)(k % 2), err);
	e->proposal.n_swaps = 0;
	return code;
}

/* The edges of a value.  What is known to be moved there is fetched to be counted. */
static int place_uses(struct ff_trial *e, uint32_t value, struct ff_error *err)
{
	const struct ff_value *v = &e->g->values[value];
	bool param = v->kind == FF_VALUE_PARAMETER;
	int code = param ? place_param(e, v->producer, err) : FF_OK;

	if (code == FF_OK)
		share_uses(e, value);
	for (uint32_t u = 0; u < v->n_uses && code == FF_OK; u++) {
		uint32_t edge = ff_value_use(e->g, v, u);

		if (!param)
			code = ff_swap_edge(e, edge, err);
		ff_busy_fetch_edge(e, edge);
	}
	return code;
}

static void count_uses(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];

	for (uint32_t u = 0; u < v->n_uses; u++)
		for (int pass = 0; pass < 2; pass++)
			ff_busy_add_edge(e, ff_value_use(e->g, v, u), (enum ff_pass)pass);
}

/* Of all values that the proposal touches. */
static int place_edges(struct ff_trial *e, struct ff_error *err)
{
	int code = FF_OK;

	wish_edges(e);
	for (uint32_t i = 0; i < e->proposal.n_touched + COUNT_BEHIND && code == FF_OK &&
			     !ff_is_rejected(e);
			i++) {
		if (i < e->proposal.n_touched)
			code = place_uses(e, e->proposal.touched[i], err);
		if (code == FF_OK && i >= COUNT_BEHIND)
			count_uses(e, e->proposal.touched[i - COUNT_BEHIND]);
	}
	return code;
}

int ff_place_changes(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	const struct ff_memo_wish *w = e->proposal.wish;
	int code = FF_OK;

	wish_changes(e);
	for (uint32_t i = 0; i < e->proposal.n_changes && code == FF_OK && !ff_is_rejected(e);
			i++, w += 2) {
		uint32_t node = e->proposal.changes[i].node, prelude = ff_node_prelude(g, node);

		if (ff_node_is_computed(g, node))
			code = place_node(e, node, &w[0], err);
		if (code == FF_OK && prelude != FF_NONE)
			code = place_node(e, prelude, &w[1], err);
		if (code == FF_OK)
			ff_busy_add_node(e, node);
	}
	return code == FF_OK && !ff_is_rejected(e) ? place_edges(e, err) : code;
}

int ff_place_resolve_touched(struct ff_trial *e, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < e->proposal.n_near && code == FF_OK; i++)
		for (int pass = 0; pass < 2 && code == FF_OK; pass++)
			code = ff_place_resolve(e, e->proposal.near[i], (enum ff_pass)pass, err);
	return code;
}

static void exchange_flat(struct ff_trial *e, uint32_t param)
{
	uint8_t flat = e->placed.flat[param];

	set_flat(e, param, (enum ff_flat)e->proposal.flat_was[param]);
	e->proposal.flat_was[param] = flat;
}

void ff_place_exchange(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->proposal.n_swaps; i++) {
		struct ff_swap *s = &e->proposal.swap[i], was = *s;

		if (s->is_edge) {
			s->was.edge = e->placed.edge[s->id];
			ff_swap_put_edge(e, s->id, was.was.edge);
		} else {
			s->was.node = e->placed.node[s->id];
			ff_swap_put_node(e, s->id, was.was.node);
		}
	}
	for (uint32_t i = 0; i < e->proposal.n_touched; i++) {
		const struct ff_value *v = &e->g->values[e->proposal.touched[i]];

		if (v->kind != FF_VALUE_PARAMETER)
			continue;
		e->placed.synced[v->producer] = !e->placed.node[v->producer];
		exchange_flat(e, v->producer);
		note_shards(e, v->producer);
	}
	for (uint32_t i = 0; i < e->proposal.n_touched && e->proposal.reshares; i++)
		share_uses(e, e->proposal.touched[i]);
}
