/* The evaluator: step times of strategies that differ in a few operators.  Blocks
 * and their prices come from the memo; a proposal swaps those it touches, moves
 * their buffers in the account of memory and makes one pass (time.c).
 * SPDX-License-Identifier: Apache-2.0 */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/micro.h"

/* Blocks held before the memo is emptied, so that long searches stay small; more
 * where the current strategy alone takes as much. */
#define MEMO_BYTES ((size_t)96 << 20)

static int allocate(struct ff_evaluator *e, struct ff_error *err)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges, devices = e->m->n_devices;
	struct ff_arena *a = &e->arena;

	e->limit = ff_arena_array(a, devices, sizeof(*e->limit));
	e->order = ff_arena_array(a, nodes, sizeof(*e->order));
	e->position = ff_arena_array(a, nodes, sizeof(*e->position));
	e->first_edge = ff_arena_array(a, e->g->n_values, sizeof(*e->first_edge));
	e->first_use = ff_arena_array(a, edges, sizeof(*e->first_use));
	e->completes = ff_arena_array(a, edges, sizeof(*e->completes));
	e->node = ff_arena_array(a, nodes, sizeof(*e->node));
	e->synced = ff_arena_array(a, nodes, sizeof(*e->synced));
	e->edge = ff_arena_array(a, edges, sizeof(*e->edge));
	e->mark = ff_arena_array(a, e->g->n_values, sizeof(*e->mark));
	e->touched = ff_arena_array(a, e->g->n_values, sizeof(*e->touched));
	e->block = ff_arena_array(a, nodes, sizeof(*e->block));
	e->adds = ff_arena_array(a, nodes, sizeof(*e->adds));
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		e->timed[k] = ff_arena_array(a, nodes, sizeof(**e->timed));
		if (!e->timed[k])
			return ff_fail_memory(err);
	}
	for (int pass = 0; pass < 2; pass++) {
		e->moves[pass] = ff_arena_array(a, edges, sizeof(**e->moves));
		if (!e->moves[pass])
			return ff_fail_memory(err);
	}
	e->lane = ff_arena_array(a, ff_lane_count(e->m), sizeof(*e->lane));
	e->paced = ff_arena_array(a, FF_PACE * devices, sizeof(*e->paced));
	e->sync_lane = ff_arena_array(a, 3 * devices, sizeof(*e->sync_lane));
	e->busy = ff_arena_array(a, ff_lane_count(e->m), sizeof(*e->busy));
	e->busy_next = ff_arena_array(a, ff_lane_count(e->m), sizeof(*e->busy));
	if (!e->limit || !e->order || !e->position || !e->first_edge || !e->first_use ||
			!e->completes || !e->node || !e->block || !e->synced || !e->edge ||
			!e->mark || !e->touched || !e->lane || !e->paced || !e->sync_lane ||
			!e->adds || !e->busy || !e->busy_next)
		return ff_fail_memory(err);
	return ff_account_create(e, err);
}

int ff_evaluator_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		int64_t memory_limit, int64_t bucket_bytes, struct ff_evaluator **ret,
		struct ff_error *err)
{
	struct ff_evaluator *e = calloc(1, sizeof(*e));
	int code;

	if (!e)
		return ff_fail_memory(err);
	e->g = e->whole = g;
	e->m = m;
	e->p = p;
	e->bucket_bytes = bucket_bytes;
	e->memo_limit = MEMO_BYTES;
	ff_arena_init(&e->arena);
	ff_arena_init(&e->scratch);
	ff_arena_init(&e->order_arena);
	code = allocate(e, err);
	if (code == FF_OK)
		code = ff_strategy_create(g, &e->arena, &e->strategy, err);
	if (code == FF_OK)
		code = ff_memo_init(&e->memo, g, m, p, e->first_use, err);
	if (code == FF_OK)
		code = ff_bucketing_init(&e->buckets, g->n_nodes, bucket_bytes, err);
	if (code < 0) {
		ff_evaluator_destroy(e);
		return code;
	}
	for (uint32_t i = 0; i < g->n_values; i++)
		e->has_scratch = e->has_scratch || (g->values[i].kind == FF_VALUE_PARAMETER &&
								   g->values[i].n_uses > 1);
	for (uint32_t d = 0; d < m->n_devices; d++)
		e->limit[d] = memory_limit > 0 ? memory_limit : ff_device_kind(m, d)->memory_bytes;
	*ret = e;
	return FF_OK;
}

void ff_evaluator_destroy(struct ff_evaluator *e)
{
	if (!e)
		return;
	ff_time_finish(e);
	ff_memo_finish(&e->memo);
	ff_bucketing_finish(&e->buckets);
	ff_arena_finish(&e->arena);
	ff_arena_finish(&e->scratch);
	ff_arena_finish(&e->order_arena);
	free(e->changes);
	free(e->swap);
	free(e->timed_bucket);
	free(e);
}

/* `step_us` was the time; the account is up to date. */
static void conclude(struct ff_evaluator *e, double step_us, struct ff_evaluation *ret)
{
	ret->step_us = step_us;
	ret->over_bytes = ff_account_over(e, &ret->tight);
	ret->fits = ret->over_bytes == 0;
}

/* ---- blocks in place, and what they replaced ---- */

static int note_swap(struct ff_evaluator *e, struct ff_swap s, struct ff_error *err)
{
	if (e->n_swaps == e->cap_swaps) {
		uint32_t cap = e->cap_swaps ? 2 * e->cap_swaps : 64;
		struct ff_swap *grown = realloc(e->swap, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		e->swap = grown;
		e->cap_swaps = cap;
	}
	e->swap[e->n_swaps++] = s;
	return FF_OK;
}

static void put_node(struct ff_evaluator *e, uint32_t node, struct ff_memo_node *new)
{
	e->node[node] = new;
	e->block[node] = new ? &new->block : NULL;
}

static int swap_node(struct ff_evaluator *e, uint32_t node, struct ff_memo_node *new,
		struct ff_error *err)
{
	struct ff_swap s = {.id = node, .was.node = e->node[node]};
	int code = new == e->node[node] ? FF_OK : note_swap(e, s, err);

	if (code == FF_OK)
		put_node(e, node, new);
	return code;
}

static int swap_edge(struct ff_evaluator *e, uint32_t edge, struct ff_error *err)
{
	struct ff_swap s = {.is_edge = true, .id = edge, .was.edge = e->edge[edge]};
	uint32_t from = ff_edge_source(e->g, edge);
	const struct ff_memo_edge *new = NULL;
	int code = FF_OK;

	if (!e->synced[from])
		code = ff_memo_edge(&e->memo, edge, e->node[from], e->node[e->g->edges[edge].node],
				&new, err);
	if (code == FF_OK && new != e->edge[edge])
		code = note_swap(e, s, err);
	if (code == FF_OK)
		e->edge[edge] = new;
	return code;
}

/* The config of node `i` under the proposal; a prelude has its leader's. */
static const struct ff_config *config_of(const struct ff_evaluator *e, uint32_t i)
{
	i = ff_node_leader(e->g, i);
	for (uint32_t k = 0; k < e->n_changes; k++)
		if (e->changes[k].node == i)
			return &e->changes[k].config;
	return &e->strategy.config[i];
}

/* Once its readers are in place. */
static int place_param(struct ff_evaluator *e, uint32_t param, struct ff_error *err)
{
	const struct ff_value *v = &e->g->values[e->g->nodes[param].out];
	const struct ff_config *c = config_of(e, param);
	struct ff_memo_node *new = NULL;
	uint16_t list[FF_MAX_DEVICES];
	struct ff_config follow;
	int code = FF_OK;

	e->synced[param] = ff_param_is_synced(e->g, param, c, e->block);
	if (!e->synced[param] && !c->n_parts) {
		uint32_t edge = e->g->uses[v->first_use];

		ff_config_follow(e->g, edge, &e->node[e->g->edges[edge].node]->config, list,
				&follow);
		c = &follow;
	}
	if (!e->synced[param])
		code = ff_memo_node(&e->memo, param, c, &new, err);
	if (code == FF_OK)
		code = swap_node(e, param, new, err);
	for (uint32_t u = 0; u < v->n_uses && code == FF_OK; u++)
		code = swap_edge(e, e->g->uses[v->first_use + u], err);
	return code;
}

static int place_node(struct ff_evaluator *e, uint32_t node, struct ff_error *err)
{
	struct ff_memo_node *new;
	int code = ff_memo_node(&e->memo, node, config_of(e, node), &new, err);

	return code == FF_OK ? swap_node(e, node, new, err) : code;
}

/* Puts the blocks of all nodes in place anew. */
static int place_all(struct ff_evaluator *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	size_t before = ff_arena_used(&e->memo.arena), used;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_computed(g, i))
			code = place_node(e, i, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_parameter(g, i))
			code = place_param(e, i, err);
	for (uint32_t k = 0; k < g->n_edges && code == FF_OK; k++)
		if (!ff_node_is_parameter(g, ff_edge_source(g, k)))
			code = swap_edge(e, k, err);
	e->n_swaps = 0;
	used = ff_arena_used(&e->memo.arena) - before;
	if (e->memo_limit < 4 * used)
		e->memo_limit = 4 * used;
	return code;
}

static int refresh_all(struct ff_evaluator *e, struct ff_error *err)
{
	int code = FF_OK;

	e->buckets_hold = false;
	ff_busy_reset(e);
	for (uint32_t k = 0; k < e->g->n_edges; k++)
		ff_time_refresh_edge(e, k);
	for (uint32_t i = 0; i < e->g->n_nodes && code == FF_OK; i++)
		if (e->node[i])
			code = ff_time_refresh_node(e, i, err);
	return code;
}

/* ---- strategies ---- */

/* A copy that owns its list.  Searches have views; lists are for what was written
 * by hand, so those of dropped proposals are left to the arena. */
static int copy_config(struct ff_evaluator *e, const struct ff_config *c, struct ff_config *ret,
		struct ff_error *err)
{
	*ret = *c;
	if (!c->list)
		return FF_OK;
	ret->list = ff_arena_copy(&e->arena, c->list, c->n_parts, sizeof(*c->list));
	return ret->list ? FF_OK : ff_fail_memory(err);
}

/* What blocks say holds as long as graph and order do. */
static int set_order(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	size_t size = e->g->n_nodes * sizeof(*e->order);
	uint32_t *order = ff_arena_alloc(&e->scratch, size);
	int code = order ? ff_strategy_order(e->g, s, &e->scratch, order, err)
			 : ff_fail_memory(err);

	if (code == FF_OK && (e->memo.g != e->g || memcmp(order, e->order, size) != 0)) {
		ff_memo_clear(&e->memo);
		e->memo.g = e->g;
		memcpy(e->order, order, size);
	}
	ff_arena_rewind(&e->scratch, mark);
	ff_arena_rewind(&e->order_arena, (struct ff_arena_mark){0});
	if (code == FF_OK)
		code = ff_program_build(e->g, s, e->order, &e->order_arena, &e->program, err);
	if (code == FF_OK)
		code = ff_account_reset(e, err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		e->position[e->order[i]] = i;
	for (uint32_t i = 0; i < e->g->n_edges; i++) {
		e->first_use[i] = ff_edge_is_first_use(e->g, e->position, i);
		e->completes[i] = ff_edge_completes(e->g, e->position, i);
		if (e->first_use[i])
			e->first_edge[e->g->edges[i].value] = i;
	}
	return FF_OK;
}

/* The graph of one of so many micro-batches becomes the one that is evaluated. */
static int set_graph(struct ff_evaluator *e, uint32_t micro_batches, struct ff_error *err)
{
	struct ff_micro *found = e->micro;
	struct ff_graph *g;
	int code;

	while (found && found->micro_batches != micro_batches)
		found = (struct ff_micro *)found->next;
	if (!found) {
		found = ff_arena_alloc(&e->arena, sizeof(*found));
		g = ff_arena_alloc(&e->arena, sizeof(*g));
		if (!found || !g)
			return ff_fail_memory(err);
		code = ff_graph_micro(e->whole, micro_batches, &e->arena, g, err);
		if (code < 0)
			return code;
		*found = (struct ff_micro){micro_batches, g, e->micro};
		e->micro = found;
	}
	e->g = found->g;
	return FF_OK;
}

int ff_evaluator_set(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err)
{
	int code = set_graph(e, s->micro_batches, err);
	double step_us;

	if (code == FF_OK)
		code = ff_strategy_check(e->g, s, e->m->n_devices, err);
	if (code == FF_OK)
		code = set_order(e, s, err);
	if (code < 0)
		return code;
	if (ff_arena_used(&e->memo.arena) > e->memo_limit)
		ff_memo_clear(&e->memo);
	memset(e->node, 0, e->g->n_nodes * sizeof(*e->node));
	memset(e->edge, 0, e->g->n_edges * sizeof(*e->edge));
	e->n_changes = e->n_swaps = 0;
	e->proposed = false;
	ff_strategy_copy(&e->strategy, s);
	for (uint32_t i = 0; i < e->g->n_nodes && code == FF_OK; i++)
		code = copy_config(e, &s->config[i], &e->strategy.config[i], err);
	if (code == FF_OK)
		code = place_all(e, err);
	if (code == FF_OK)
		code = refresh_all(e, err);
	if (code < 0)
		return code;
	for (uint32_t k = 0; k < e->g->n_values; k++)
		ff_account_value(e, k, 1);
	code = ff_evaluator_time(e, &step_us, err);
	if (code == FF_OK)
		conclude(e, step_us, ret);
	return code;
}

/* ---- proposals ---- */

static void touch(struct ff_evaluator *e, uint32_t value)
{
	if (e->mark[value] == e->stamp)
		return;
	e->mark[value] = e->stamp;
	e->touched[e->n_touched++] = value;
}

/* Values whose buffers the proposal may change: all that its nodes read or write. */
static void list_touched(struct ff_evaluator *e)
{
	e->stamp++;
	e->n_touched = 0;
	for (uint32_t i = 0; i < e->n_changes; i++) {
		const struct ff_node *n = &e->g->nodes[e->changes[i].node];

		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			touch(e, e->g->edges[k].value);
		for (uint32_t k = n->out; k < n->out + n->n_out; k++)
			touch(e, k);
	}
}

/* The records of the edges of what was touched and of the nodes at their ends. */
static int refresh_touched(struct ff_evaluator *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	int code = FF_OK;

	for (uint32_t i = 0; i < e->n_touched; i++) {
		const struct ff_value *v = &g->values[e->touched[i]];

		e->buckets_hold = e->buckets_hold && v->kind != FF_VALUE_PARAMETER;
		for (uint32_t u = 0; u < v->n_uses; u++)
			ff_time_refresh_edge(e, g->uses[v->first_use + u]);
	}
	for (uint32_t i = 0; i < e->n_touched && code == FF_OK; i++) {
		const struct ff_value *v = &g->values[e->touched[i]];

		if (e->node[v->producer])
			code = ff_time_refresh_node(e, v->producer, err);
		for (uint32_t u = 0; u < v->n_uses && code == FF_OK; u++)
			code = ff_time_refresh_node(
					e, g->edges[g->uses[v->first_use + u]].node, err);
	}
	return code;
}

static void account_touched(struct ff_evaluator *e, int64_t sign)
{
	for (uint32_t i = 0; i < e->n_touched; i++)
		ff_account_value(e, e->touched[i], sign);
}

/* Blocks of the nodes, then of the parameters they read and of the edges between them
 * and others, unless it turns out to be too slow. */
static int place_changes(struct ff_evaluator *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	int code = FF_OK;

	for (uint32_t i = 0; i < e->n_changes && code == FF_OK && !e->too_slow; i++) {
		uint32_t node = e->changes[i].node, prelude = ff_node_prelude(g, node);

		if (ff_node_is_computed(g, node))
			code = place_node(e, node, err);
		if (code == FF_OK && prelude != FF_NONE)
			code = place_node(e, prelude, err);
		if (code == FF_OK)
			ff_busy_add_node(e, node);
	}
	for (uint32_t i = 0; i < e->n_touched && code == FF_OK && !e->too_slow; i++) {
		const struct ff_value *v = &g->values[e->touched[i]];

		if (v->kind == FF_VALUE_PARAMETER)
			code = place_param(e, v->producer, err);
		for (uint32_t u = 0;
				u < v->n_uses && v->kind != FF_VALUE_PARAMETER && code == FF_OK;
				u++)
			code = swap_edge(e, g->uses[v->first_use + u], err);
		if (code == FF_OK)
			ff_busy_add_uses(e, e->touched[i]);
	}
	return code;
}

/* Puts back what was there; another time, what the proposal brought. */
static void exchange(struct ff_evaluator *e)
{
	for (uint32_t i = 0; i < e->n_swaps; i++) {
		struct ff_swap *s = &e->swap[i], was = *s;

		if (s->is_edge) {
			s->was.edge = e->edge[s->id];
			e->edge[s->id] = was.was.edge;
		} else {
			s->was.node = e->node[s->id];
			put_node(e, s->id, was.was.node);
		}
	}
	for (uint32_t i = 0; i < e->n_touched; i++) {
		const struct ff_value *v = &e->g->values[e->touched[i]];

		if (v->kind == FF_VALUE_PARAMETER)
			e->synced[v->producer] = !e->node[v->producer];
	}
}

static void restore(struct ff_evaluator *e)
{
	account_touched(e, -1);
	exchange(e);
	e->n_changes = e->n_swaps = 0;
	(void)refresh_touched(e, NULL); /* there was room for it before */
	account_touched(e, 1);
	e->proposed = false;
}

static int copy_changes(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		struct ff_error *err)
{
	int code = FF_OK;

	if (n > e->cap_changes) {
		struct ff_change *grown = realloc(e->changes, n * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		e->changes = grown;
		e->cap_changes = n;
	}
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		const struct ff_node *node = &e->g->nodes[change[i].node];

		e->changes[i].node = change[i].node;
		code = copy_config(e, &change[i].config, &e->changes[i].config, err);
		if (code == FF_OK && change[i].config.n_parts)
			code = ff_config_check(node, &change[i].config, e->m->n_devices, err);
	}
	e->n_changes = code == FF_OK ? n : 0;
	return code;
}

/* A long search has seen many blocks that it will not see again. */
static int trim_memo(struct ff_evaluator *e, struct ff_error *err)
{
	int code;

	if (ff_arena_used(&e->memo.arena) <= e->memo_limit)
		return FF_OK;
	ff_memo_clear(&e->memo);
	memset(e->node, 0, e->g->n_nodes * sizeof(*e->node));
	memset(e->edge, 0, e->g->n_edges * sizeof(*e->edge));
	e->n_changes = 0;
	code = place_all(e, err);
	return code == FF_OK ? refresh_all(e, err) : code;
}

static int time_changes(
		struct ff_evaluator *e, double limit_us, double *step_us, struct ff_error *err)
{
	int code = refresh_touched(e, err);

	e->refreshed = true;
	if (code == FF_OK)
		code = ff_evaluator_time(e, step_us, err);
	e->too_slow = code == FF_OK && *step_us > limit_us;
	return code;
}

int ff_evaluator_propose(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		struct ff_evaluation *ret, struct ff_error *err)
{
	bool slower;

	return ff_evaluator_propose_within(e, change, n, INFINITY, &slower, ret, err);
}

int ff_evaluator_propose_within(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		double limit_us, bool *slower, struct ff_evaluation *ret, struct ff_error *err)
{
	int code = trim_memo(e, err);
	double step_us = 0;

	if (code == FF_OK)
		code = copy_changes(e, change, n, err);
	if (code < 0)
		return code;
	e->n_swaps = 0;
	e->refreshed = false;
	list_touched(e);
	ff_busy_begin(e, limit_us);
	code = place_changes(e, err);
	if (code == FF_OK && !e->too_slow)
		code = time_changes(e, limit_us, &step_us, err);
	*slower = code == FF_OK && e->too_slow;
	exchange(e);
	if (code < 0 || *slower) {
		if (e->refreshed)
			(void)refresh_touched(e, NULL);
		e->n_changes = 0;
		return code;
	}
	account_touched(e, -1);
	exchange(e);
	account_touched(e, 1);
	e->proposed = true;
	conclude(e, step_us, ret);
	return FF_OK;
}

void ff_evaluator_keep(struct ff_evaluator *e)
{
	for (uint32_t i = 0; i < e->n_changes && e->proposed; i++)
		e->strategy.config[e->changes[i].node] = e->changes[i].config;
	if (e->proposed)
		ff_busy_keep(e);
	e->n_changes = 0;
	e->proposed = false;
}

void ff_evaluator_drop(struct ff_evaluator *e)
{
	if (e->proposed)
		restore(e);
}

const struct ff_strategy *ff_evaluator_strategy(const struct ff_evaluator *e)
{
	return &e->strategy;
}

int ff_evaluator_layout(struct ff_evaluator *e, int64_t *over_bytes, struct ff_error *err)
{
	struct ff_lower_options opt = {.bucket_bytes = e->bucket_bytes,
			.optimizer = ff_price_optimizer(e->p),
			.workspace = ff_price_workspace,
			.ctx = e->p};
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	struct ff_schedule plan;
	int64_t over = 0;
	int code = ff_lower(e->whole, e->m, &e->strategy, &opt, &e->scratch, &plan, err);

	for (uint32_t d = 0; d < e->m->n_devices && code == FF_OK; d++)
		if (plan.memory_bytes[d] > e->limit[d])
			over += plan.memory_bytes[d] - e->limit[d];
	ff_arena_rewind(&e->scratch, mark);
	if (code == FF_OK)
		*over_bytes = over;
	return code;
}
