/* Blocks in place.  A proposal puts others in the place of those it touches, and they
 * are put back when it is dropped.  What is moved at an edge that was never seen is
 * left unknown until the pass comes there: most proposals are given up before.
 * SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "busy.h"
#include "ff/grow.h"
#include "ff/sharing.h"

/* Moves are counted so many values behind where they are fetched from the host's memory. */
#define COUNT_BEHIND 4

static int note_swap(struct ff_trial *e, struct ff_swap s, struct ff_error *err)
{
	int code = ff_grow(&e->swap, e->n_swaps, &e->cap_swaps, sizeof(*e->swap), err);

	if (code == FF_OK)
		e->swap[e->n_swaps++] = s;
	return code;
}

/* ---- nodes ---- */

/* Room for the times of as many parts in every micro-batch; it never shrinks. */
static int reserve_times(struct ff_timed_node *t, uint32_t n, struct ff_error *err)
{
	char *room;

	if (n <= t->cap)
		return FF_OK;
	room = calloc(n, 2 * sizeof(double) + sizeof(bool));
	if (!room)
		return ff_fail_memory(err);
	free(t->finish);
	t->finish = (double *)(void *)room;
	t->ready = t->finish + n;
	t->arrived = (bool *)(t->ready + n);
	t->cap = n;
	return FF_OK;
}

static int reserve_node(struct ff_trial *e, uint32_t node, uint32_t n_parts, struct ff_error *err)
{
	int code = FF_OK;

	for (int k = 0; k < FF_PHASE_COUNT && code == FF_OK; k++)
		if (k != FF_PHASE_RECOMPUTE || e->program.again[node])
			code = reserve_times(&e->timed[k][node], n_parts * e->program.micro_batches,
					err);
	return code;
}

/* There is room for it. */
static void put_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new)
{
	e->node[node] = new;
	e->block[node] = new ? new->block : NULL;
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		struct ff_timed_node *t = &e->timed[k][node];
		enum ff_pass pass = ff_phase_pass((enum ff_phase)k);

		t->n = 0;
		if (!new)
			continue;
		t->us = new->us[pass];
		t->each_us = new->each_us[pass];
		t->device = new->device;
		t->n = new->n_parts;
		t->first = new->first;
		t->in_line = new->in_line;
		t->uniform = new->uniform[pass];
	}
}

static int swap_node(
		struct ff_trial *e, uint32_t node, struct ff_memo_node *new, struct ff_error *err)
{
	struct ff_swap s = {.id = node, .was.node = e->node[node]};
	int code = FF_OK;

	if (new == e->node[node])
		return FF_OK;
	if (new)
		code = reserve_node(e, node, new->n_parts, err);
	if (code == FF_OK)
		code = note_swap(e, s, err);
	if (code == FF_OK)
		put_node(e, node, new);
	return code;
}

/* The number of the change of `node`, or FF_NONE. */
static uint32_t change_of(const struct ff_trial *e, uint32_t node)
{
	uint32_t k = e->changed_at[node];

	/* what is there of others is from other proposals */
	return k < e->n_changes && e->changes[k].node == node ? k : FF_NONE;
}

/* The config of node `i` under the proposal; a prelude has its leader's. */
static const struct ff_config *config_of(const struct ff_trial *e, uint32_t i)
{
	uint32_t k;

	i = ff_node_leader(e->g, i);
	k = change_of(e, i);
	return k != FF_NONE ? &e->changes[k].config : &e->strategy.config[i];
}

static int place_node(struct ff_trial *e, uint32_t node, const struct ff_memo_wish *w,
		struct ff_error *err)
{
	struct ff_memo_node *new;
	int code = ff_memo_find(e->memo, node, config_of(e, node), w, &new, err);

	return code == FF_OK ? swap_node(e, node, new, err) : code;
}

/* Wishes for the blocks of all that a proposal changes: by number of the change that of the
 * node, unless it is a parameter that lies where it is read, and behind it of its prelude. */
static void wish_changes(struct ff_trial *e)
{
	struct ff_memo_wish *w = e->wish;

	for (uint32_t i = 0; i < e->n_changes; i++, w += 2) {
		uint32_t node = e->changes[i].node, prelude = ff_node_prelude(e->g, node);
		const struct ff_config *c = config_of(e, node);

		if (c->n_parts)
			ff_memo_wish(e->memo, node, c, &w[0]);
		if (prelude != FF_NONE)
			ff_memo_wish(e->memo, prelude, c, &w[1]);
	}
	w = e->wish;
	for (uint32_t i = 0; i < e->n_changes; i++, w += 2) {
		uint32_t node = e->changes[i].node;

		if (config_of(e, node)->n_parts)
			ff_memo_fetch(e->memo, &w[0]);
		if (ff_node_prelude(e->g, node) != FF_NONE)
			ff_memo_fetch(e->memo, &w[1]);
	}
}

/* ---- edges ---- */

static enum ff_edge_state state_of(const struct ff_trial *e, uint32_t edge, int pass)
{
	const struct ff_memo_edge *me = e->edge[edge];

	if (!me || (pass == FF_FORWARD ? e->shared_from[edge] != FF_NONE
				       : ff_trial_sent(e, edge) != edge))
		return FF_EDGE_STILL;
	if (!me->built[pass])
		return FF_EDGE_UNKNOWN;
	return me->n_moves[pass] > 0 ? FF_EDGE_MOVES : FF_EDGE_STILL;
}

static void activate(struct ff_trial *e, enum ff_phase phase, uint32_t edge, bool on)
{
	for (uint32_t micro = 0; micro < e->program.micro_batches; micro++) {
		uint32_t step = ff_program_moves(&e->program, phase, micro, edge);
		uint64_t bit = (uint64_t)1 << step % 64;

		/* what is carried moves while its operator is computed */
		if (step != FF_NONE && e->program.step[step].kind == FF_STEP_MOVES)
			e->active[step / 64] = on ? e->active[step / 64] | bit
						  : e->active[step / 64] & ~bit;
	}
}

static void set_state(struct ff_trial *e, uint32_t edge, enum ff_pass pass)
{
	uint8_t was = e->state[pass][edge], is = (uint8_t)state_of(e, edge, pass);

	e->state[pass][edge] = is;
	if ((was == FF_EDGE_STILL) == (is == FF_EDGE_STILL))
		return;
	activate(e, pass == FF_FORWARD ? FF_PHASE_FORWARD : FF_PHASE_BACKWARD, edge,
			is != FF_EDGE_STILL);
	if (pass == FF_FORWARD)
		activate(e, FF_PHASE_RECOMPUTE, edge, is != FF_EDGE_STILL);
}

static void put_edge(struct ff_trial *e, uint32_t edge, struct ff_memo_edge *new)
{
	e->edge[edge] = new;
	set_state(e, edge, FF_FORWARD);
	set_state(e, edge, FF_BACKWARD);
}

/* The gradient at `edge` is sent and added as was found. */
static void put_sum(struct ff_trial *e, uint32_t edge)
{
	uint32_t sent = e->sums_next.sent[edge], added = e->sums_next.added[edge];
	int sums = (sent != FF_NONE) - (e->sums.sent[edge] != FF_NONE);
	int adds = (added != FF_NONE) - (e->sums.added[edge] != FF_NONE);

	e->reshares = e->reshares || sent != e->sums.sent[edge] || added != e->sums.added[edge];
	e->sums.sent[edge] = sent;
	e->sums.added[edge] = added;
	e->n_added[e->ends[edge].to] += (uint32_t)adds;
	e->n_sums += (uint32_t)sums;
	if (sums)
		set_state(e, edge, FF_BACKWARD);
}

/* Which gradients of `value` are added up before they are moved, and which is moved first. */
static void sum_uses(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];

	ff_place_find_sums(e, value);
	for (uint32_t u = 0; u < v->n_uses; u++)
		put_sum(e, e->g->uses[v->first_use + u]);
}

/* Which uses of `value` are moved once, once all its readers are in place, and of an activation
 * who made it. */
static void share_uses(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];
	const uint32_t *uses = e->g->uses + v->first_use;

	if (v->n_uses == 1 || e->synced[v->producer])
		return;
	for (uint32_t u = 0; u < v->n_uses; u++)
		e->is_shared[uses[u]] = false;
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t was = e->shared_from[uses[u]],
			 from = ff_edge_shared_from(
					 e->g, &e->program, e->position, e->block, uses[u]);

		e->shared_from[uses[u]] = from;
		e->reshares = e->reshares || from != was;
		if (from != FF_NONE)
			e->is_shared[from] = true;
		if ((was == FF_NONE) != (from == FF_NONE))
			set_state(e, uses[u], FF_FORWARD);
	}
	if (v->kind == FF_VALUE_ACTIVATION && v->needs_grad)
		sum_uses(e, value);
}

/* Whether the block of `edge` is for these ends already, and for its turn among the uses. */
static bool has_ends(const struct ff_trial *e, uint32_t edge, uint64_t ends)
{
	const struct ff_memo_edge *me = e->edge[edge];

	return me && me->ends == ends && me->first_use == e->first_use[edge];
}

/* Wishes for the blocks of all edges that a proposal touches, but those of parameters, which
 * follow their readers. */
static void wish_edges(struct ff_trial *e)
{
	for (int turn = 0; turn < 2; turn++)
		for (uint32_t i = 0; i < e->n_near; i++) {
			uint32_t edge = e->near[i];
			const struct ff_ends *at = &e->ends[edge];
			uint64_t ends;

			if (at->parameter)
				continue;
			ends = ff_memo_ends(e->node[at->from], e->node[at->to]);
			if (has_ends(e, edge, ends))
				continue;
			if (turn == 0)
				ff_memo_edge_wish(e->memo, edge, ends);
			else
				ff_memo_edge_fetch(e->memo, edge, ends);
		}
}

static int swap_edge(struct ff_trial *e, uint32_t edge, struct ff_error *err)
{
	struct ff_swap s = {.is_edge = true, .id = edge, .was.edge = e->edge[edge]};
	uint32_t from = e->ends[edge].from, to = e->ends[edge].to;
	struct ff_memo_edge *new = NULL;
	int code = FF_OK;

	if (!e->synced[from] && has_ends(e, edge, ff_memo_ends(e->node[from], e->node[to])))
		return FF_OK;
	if (!e->synced[from])
		code = ff_memo_edge(e->memo, edge, e->node[from], e->node[to], &new, err);
	if (code == FF_OK && new != e->edge[edge])
		code = note_swap(e, s, err);
	if (code == FF_OK)
		put_edge(e, edge, new);
	return code;
}

void ff_place_find_sums(struct ff_trial *e, uint32_t value)
{
	struct ff_sums next = e->sums_next;

	next.first = e->first_use;
	ff_sums_find(e->g, e->position, e->block, value, &next, &e->first_edge[value]);
}

int ff_place_resolve(struct ff_trial *e, uint32_t edge, enum ff_pass pass, struct ff_error *err)
{
	int code;

	if (e->state[pass][edge] != FF_EDGE_UNKNOWN)
		return FF_OK;
	code = ff_memo_build(e->memo, edge, pass, e->node[e->ends[edge].from],
			e->node[e->ends[edge].to], e->edge[edge], err);
	if (code < 0)
		return code;
	set_state(e, edge, pass);
	ff_busy_add_edge(e, edge, pass);
	return FF_OK;
}

/* ---- parameters ---- */

/* Buckets are gathered of all parameters, and their readers' blocks lie far apart: what is asked of
 * those is noted.  Which of several readers it is depends on the order. */
static void note_shards(struct ff_trial *e, uint32_t param)
{
	const struct ff_value *v = &e->g->values[e->g->nodes[param].out];
	struct ff_shards *s = &e->shards[param];
	uint32_t edge;

	s->n = 0;
	if (!e->synced[param] || v->n_uses != 1)
		return;
	edge = e->g->uses[v->first_use];
	s->group = ff_node_block_groups(e->block[e->ends[edge].to], e->g->edges[edge].slot, &s->n);
}

/* The block of one that is not synchronised, under `c`. */
static int find_param(struct ff_trial *e, uint32_t param, const struct ff_config *c,
		struct ff_memo_node **ret, struct ff_error *err)
{
	uint32_t change = change_of(e, param);

	if (c == &e->strategy.config[param] && e->node[param]) {
		*ret = e->node[param];
		return FF_OK;
	}
	if (change != FF_NONE && c == &e->changes[change].config)
		return ff_memo_find(e->memo, param, c, &e->wish[2 * (size_t)change], ret, err);
	return ff_memo_node(e->memo, param, c, ret, err);
}

/* What gathers weights, several times (`limited`) or once, is done where there are any. */
static void activate_gathers(struct ff_trial *e, bool limited, bool on)
{
	uint32_t end = limited ? e->program.n : e->program.gathers_end;

	for (uint32_t i = 0; i < end; i++) {
		const struct ff_step *s = &e->program.step[i];
		uint64_t bit = (uint64_t)1 << i % 64;

		if (s->kind == FF_STEP_GATHER && s->limited == limited)
			e->active[i / 64] = on ? e->active[i / 64] | bit : e->active[i / 64] & ~bit;
	}
}

static void set_flat(struct ff_trial *e, uint32_t param, bool flat)
{
	uint32_t was = e->n_flat, dropped = e->n_dropped;

	e->n_flat = e->n_flat + flat - e->flat[param];
	if (e->program.again[param])
		e->n_dropped = e->n_dropped + flat - e->flat[param];
	e->flat[param] = flat;
	if ((was > 0) != (e->n_flat > 0))
		activate_gathers(e, false, e->n_flat > 0);
	if ((dropped > 0) != (e->n_dropped > 0))
		activate_gathers(e, true, e->n_dropped > 0);
}

/* Once its readers are in place. */
static int place_param(struct ff_trial *e, uint32_t param, struct ff_error *err)
{
	const struct ff_value *v = &e->g->values[e->g->nodes[param].out];
	const struct ff_config *c = config_of(e, param);
	struct ff_memo_node *new = NULL;
	uint16_t list[FF_MAX_DEVICES];
	struct ff_config follow;
	int code = FF_OK;

	/* one that is synchronised lies where its readers put it, and they change */
	e->rebuckets = e->rebuckets || e->synced[param];
	e->synced[param] = ff_param_is_synced(e->g, param, c, e->block);
	set_flat(e, param, c->flat && e->synced[param] && !ff_price_codec(e->p));
	note_shards(e, param);
	if (!e->synced[param] && !c->n_parts) {
		uint32_t edge = e->g->uses[v->first_use];

		ff_config_follow(e->g, edge, &e->node[e->g->edges[edge].node]->rest->config, list,
				&follow);
		c = &follow;
	}
	if (!e->synced[param])
		code = find_param(e, param, c, &new, err);
	e->rebuckets = e->rebuckets || e->synced[param] || e->node[param] != new;
	if (code == FF_OK)
		code = swap_node(e, param, new, err);
	for (uint32_t u = 0; u < v->n_uses && code == FF_OK; u++)
		code = swap_edge(e, e->g->uses[v->first_use + u], err);
	return code;
}

/* ---- all, and those of a proposal ---- */

static bool is_active(const struct ff_trial *e, const struct ff_step *s)
{
	int pass = s->phase == FF_PHASE_BACKWARD ? FF_BACKWARD : FF_FORWARD;

	if (s->kind == FF_STEP_MOVES)
		return e->state[pass][s->id] != FF_EDGE_STILL;
	if (s->kind == FF_STEP_GATHER)
		return s->limited ? e->n_dropped > 0 : e->n_flat > 0;
	return true;
}

void ff_place_activate(struct ff_trial *e)
{
	memset(e->active, 0, (e->program.n / 64 + 1) * sizeof(*e->active));
	for (uint32_t i = 0; i < e->program.n; i++) {
		const struct ff_step *s = &e->program.step[i];

		if (is_active(e, s))
			e->active[i / 64] |= (uint64_t)1 << i % 64;
	}
}

/* Nothing moves anywhere, and nothing is shared. */
static void reset_states(struct ff_trial *e)
{
	for (int pass = 0; pass < 2; pass++)
		memset(e->state[pass], FF_EDGE_STILL, e->g->n_edges * sizeof(**e->state));
	memset(e->shared_from, 0xff, e->g->n_edges * sizeof(*e->shared_from));
	memset(e->is_shared, 0, e->g->n_edges * sizeof(*e->is_shared));
	memset(e->sums.sent, 0xff, e->g->n_edges * sizeof(*e->sums.sent));
	memset(e->sums.added, 0xff, e->g->n_edges * sizeof(*e->sums.added));
	memset(e->n_added, 0, e->g->n_nodes * sizeof(*e->n_added));
	memset(e->flat, 0, e->g->n_nodes * sizeof(*e->flat));
	e->n_flat = e->n_dropped = 0;
	e->n_sums = 0;
	ff_place_activate(e);
}

int ff_place_all(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	int code = FF_OK;

	e->n_changes = 0;
	memset(e->edge, 0, g->n_edges * sizeof(*e->edge));
	reset_states(e);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		put_node(e, i, NULL);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_computed(g, i)) {
			ff_memo_wish(e->memo, i, config_of(e, i), e->wish);
			code = place_node(e, i, e->wish, err);
		}
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_parameter(g, i))
			code = place_param(e, i, err);
	for (uint32_t k = 0; k < g->n_values && code == FF_OK; k++)
		share_uses(e, k);
	for (uint32_t k = 0; k < g->n_edges && code == FF_OK; k++) {
		if (!e->ends[k].parameter)
			code = swap_edge(e, k, err);
	}
	for (uint32_t k = 0; k < 2 * g->n_edges && code == FF_OK; k++)
		code = ff_place_resolve(e, k / 2, (enum ff_pass)(k % 2), err);
	e->n_swaps = 0;
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
		uint32_t edge = e->g->uses[v->first_use + u];

		if (!param)
			code = swap_edge(e, edge, err);
		ff_busy_fetch_edge(e, edge);
	}
	return code;
}

static void count_uses(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];

	for (uint32_t u = 0; u < v->n_uses; u++)
		for (int pass = 0; pass < 2; pass++)
			ff_busy_add_edge(e, e->g->uses[v->first_use + u], (enum ff_pass)pass);
}

/* Of all values that the proposal touches. */
static int place_edges(struct ff_trial *e, struct ff_error *err)
{
	int code = FF_OK;

	wish_edges(e);
	for (uint32_t i = 0; i < e->n_touched + COUNT_BEHIND && code == FF_OK && !ff_is_rejected(e);
			i++) {
		if (i < e->n_touched)
			code = place_uses(e, e->touched[i], err);
		if (code == FF_OK && i >= COUNT_BEHIND)
			count_uses(e, e->touched[i - COUNT_BEHIND]);
	}
	return code;
}

int ff_place_changes(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	const struct ff_memo_wish *w = e->wish;
	int code = FF_OK;

	wish_changes(e);
	for (uint32_t i = 0; i < e->n_changes && code == FF_OK && !ff_is_rejected(e); i++, w += 2) {
		uint32_t node = e->changes[i].node, prelude = ff_node_prelude(g, node);

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

	for (uint32_t i = 0; i < e->n_near && code == FF_OK; i++)
		for (int pass = 0; pass < 2 && code == FF_OK; pass++)
			code = ff_place_resolve(e, e->near[i], (enum ff_pass)pass, err);
	return code;
}

static void exchange_flat(struct ff_trial *e, uint32_t param)
{
	bool flat = e->flat[param];

	set_flat(e, param, e->flat_was[param]);
	e->flat_was[param] = flat;
}

void ff_place_exchange(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->n_swaps; i++) {
		struct ff_swap *s = &e->swap[i], was = *s;

		if (s->is_edge) {
			s->was.edge = e->edge[s->id];
			put_edge(e, s->id, was.was.edge);
		} else {
			s->was.node = e->node[s->id];
			put_node(e, s->id, was.was.node);
		}
	}
	for (uint32_t i = 0; i < e->n_touched; i++) {
		const struct ff_value *v = &e->g->values[e->touched[i]];

		if (v->kind != FF_VALUE_PARAMETER)
			continue;
		e->synced[v->producer] = !e->node[v->producer];
		exchange_flat(e, v->producer);
		note_shards(e, v->producer);
	}
	for (uint32_t i = 0; i < e->n_touched && e->reshares; i++)
		share_uses(e, e->touched[i]);
}
