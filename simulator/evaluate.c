/* The evaluator: step times of strategies that differ in one operator.
 * Blocks and their prices come from the memo; a proposal swaps those it
 * touches, gathers the buckets anew and makes one longest-path pass over the
 * blocks in issue order.  The pass computes the same maxima and sums as
 * ff_simulate on ff_lower's schedule, so its figures are the same to the bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "memo.h"

/* Blocks held before the memo is emptied, so that long searches stay small. */
#define MEMO_BYTES ((size_t)512 << 20)

struct swap {
	uint32_t edge;
	const struct ff_memo_edge *was;
};

struct ff_evaluator {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *p;
	int64_t *limit; /* by device */
	int64_t bucket_bytes;
	struct ff_arena arena, scratch;
	struct ff_memo memo;
	uint32_t *order, *position, *first_edge;
	bool *first_use;

	const struct ff_memo_node **node;   /* by node, NULL for sources */
	const struct ff_node_block **block; /* the same, for the buckets */
	const struct ff_memo_edge **edge;
	struct ff_bucketing buckets;
	struct ff_strategy strategy; /* current; devices are kept in `devices` */
	uint16_t *devices;

	uint32_t changed; /* node of the proposal, or FF_NONE */
	const struct ff_memo_node *node_was;
	struct swap *swap;
	uint32_t n_swaps;

	double *lane;                 /* when it is free */
	double *finish[2], *ready[2]; /* by pass, by node * devices + part */
	double *synced;               /* by bucket */
	uint32_t *sync_lane;
	int64_t *held; /* by device: scratch of check_memory */
};

static int allocate(struct ff_evaluator *e, struct ff_error *err)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges, devices = e->m->n_devices;
	struct ff_arena *a = &e->arena;

	e->limit = ff_arena_array(a, devices, sizeof(*e->limit));
	e->order = ff_arena_array(a, nodes, sizeof(*e->order));
	e->position = ff_arena_array(a, nodes, sizeof(*e->position));
	e->first_edge = ff_arena_array(a, e->g->n_tensors, sizeof(*e->first_edge));
	e->first_use = ff_arena_array(a, edges, sizeof(*e->first_use));
	e->node = ff_arena_array(a, nodes, sizeof(*e->node));
	e->block = ff_arena_array(a, nodes, sizeof(*e->block));
	e->edge = ff_arena_array(a, edges, sizeof(*e->edge));
	e->devices = ff_arena_array(a, nodes * devices, sizeof(*e->devices));
	e->swap = ff_arena_array(a, edges, sizeof(*e->swap));
	e->lane = ff_arena_array(a, ff_lane_count(e->m), sizeof(*e->lane));
	e->synced = ff_arena_array(a, nodes * devices * FF_MAX_WEIGHTS, sizeof(*e->synced));
	e->sync_lane = ff_arena_array(a, 3 * devices, sizeof(*e->sync_lane));
	e->held = ff_arena_array(a, 2 * devices, sizeof(*e->held));
	for (int i = 0; i < 2; i++) {
		e->finish[i] = ff_arena_array(a, nodes * devices, sizeof(double));
		e->ready[i] = ff_arena_array(a, nodes * devices, sizeof(double));
		if (!e->finish[i] || !e->ready[i])
			return ff_fail_memory(err);
	}
	if (!e->limit || !e->order || !e->position || !e->first_edge || !e->first_use || !e->node ||
			!e->block || !e->edge || !e->devices || !e->swap || !e->lane ||
			!e->synced || !e->sync_lane || !e->held)
		return ff_fail_memory(err);
	return ff_bucketing_create(e->g->n_nodes, (uint32_t)(nodes * devices * FF_MAX_WEIGHTS), a,
			&e->buckets, err);
}

int ff_evaluator_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		int64_t memory_limit, int64_t bucket_bytes, struct ff_evaluator **ret,
		struct ff_error *err)
{
	struct ff_evaluator *e = calloc(1, sizeof(*e));
	int code;

	if (!e)
		return ff_fail_memory(err);
	e->g = g;
	e->m = m;
	e->p = p;
	e->bucket_bytes = bucket_bytes;
	e->changed = FF_NONE;
	ff_arena_init(&e->arena);
	ff_arena_init(&e->scratch);
	code = allocate(e, err);
	if (code == FF_OK)
		code = ff_strategy_create(g, &e->arena, &e->strategy, err);
	if (code == FF_OK)
		code = ff_memo_init(&e->memo, g, m, p, e->first_use, err);
	if (code < 0) {
		ff_evaluator_destroy(e);
		return code;
	}
	for (uint32_t d = 0; d < m->n_devices; d++)
		e->limit[d] = memory_limit > 0 ? memory_limit : ff_device_kind(m, d)->memory_bytes;
	*ret = e;
	return FF_OK;
}

void ff_evaluator_destroy(struct ff_evaluator *e)
{
	if (!e)
		return;
	ff_memo_finish(&e->memo);
	ff_arena_finish(&e->arena);
	ff_arena_finish(&e->scratch);
	free(e);
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

static void time_moves(struct ff_evaluator *e, const struct ff_memo_edge *me, enum ff_pass pass)
{
	const struct ff_edge *edge = &e->g->edges[me->edge];
	uint32_t devices = e->m->n_devices, from = ff_edge_source(e->g, me->edge);
	bool back = pass == FF_BACKWARD;
	const struct ff_redistribution *r = back ? &me->block.backward : &me->block.forward;
	const double *finish = e->finish[pass] + (size_t)(back ? edge->node : from) * devices;
	double *ready = e->ready[pass] + (size_t)(back ? from : edge->node) * devices;

	for (uint32_t i = 0; i < r->n_moves; i++) {
		const struct ff_memo_move *tm = &me->move[pass][i];
		const struct ff_move *mv = tm->move;
		double t = 0;

		for (uint32_t k = 0; k < tm->n_lanes; k++)
			t = later(t, e->lane[tm->lane[k]]);
		for (uint32_t k = 0; k < mv->n_sources; k++)
			t = later(t, finish[mv->source[k]]);
		if (mv->accumulate) {
			/* a first use that is aliased was written by compute; one that
			 * moved stands on the same lane */
			uint32_t first = e->first_edge[edge->tensor];
			const uint32_t *alias = e->edge[first]->block.backward.alias;
			const double *writer =
					e->finish[pass] + (size_t)e->g->edges[first].node * devices;

			for (uint32_t k = 0; k < mv->n_sinks; k++)
				if (alias[mv->sink[k]] != FF_NONE)
					t = later(t, writer[alias[mv->sink[k]]]);
		}
		t += tm->us;
		for (uint32_t k = 0; k < tm->n_lanes; k++)
			e->lane[tm->lane[k]] = t;
		for (uint32_t k = 0; k < mv->n_sinks; k++)
			ready[mv->sink[k]] = later(ready[mv->sink[k]], t);
	}
}

static void time_compute(struct ff_evaluator *e, uint32_t node, enum ff_pass pass)
{
	const struct ff_memo_node *mn = e->node[node];
	size_t first = (size_t)node * e->m->n_devices;
	double *finish = e->finish[pass] + first, *ready = e->ready[pass] + first;

	for (uint32_t p = 0; p < mn->block.n_parts; p++) {
		double *lane = &e->lane[ff_lane(e->m, FF_LANE_COMPUTE, mn->block.device[p])];

		*lane = finish[p] = later(*lane, ready[p]) + mn->us[pass][p];
	}
}

/* Gradients of a bucket are complete when the node that closes it is done. */
static void time_sync(struct ff_evaluator *e, uint32_t bucket)
{
	const struct ff_bucket_build *b = &e->buckets.bucket[bucket];
	const struct ff_memo_node *mn = e->node[b->close];
	const double *finish = e->finish[FF_BACKWARD] + (size_t)b->close * e->m->n_devices;
	uint32_t group = e->buckets.member[b->last].group, n;
	uint32_t w = mn->block.group[group].weight;
	double t = 0;

	if (b->n_devices < 2) {
		e->synced[bucket] = 0; /* same lane as the update */
		return;
	}
	n = ff_transfer_lanes(e->m, b->n_devices, b->device, e->sync_lane);
	for (uint32_t k = 0; k < n; k++)
		t = later(t, e->lane[e->sync_lane[k]]);
	for (uint32_t p = 0; p < mn->block.n_parts; p++)
		if (mn->block.weight_group[p * FF_MAX_WEIGHTS + w] == group)
			t = later(t, finish[p]);
	t += ff_price_sync(e->p, b->n_devices, b->device, b->bytes);
	for (uint32_t k = 0; k < n; k++)
		e->lane[e->sync_lane[k]] = t;
	e->synced[bucket] = t;
}

static void time_updates(struct ff_evaluator *e)
{
	for (uint32_t i = 0; i < e->buckets.n_buckets; i++) {
		const struct ff_bucket_build *b = &e->buckets.bucket[i];

		for (uint32_t d = 0; d < b->n_devices; d++) {
			double *lane = &e->lane[ff_lane(e->m, FF_LANE_COMPUTE, b->device[d])];

			*lane = later(*lane, e->synced[i]) +
				ff_price_update(e->p, b->device[d], b->bytes);
		}
	}
}

/* The longest-path pass. */
static double time_step(struct ff_evaluator *e)
{
	const struct ff_graph *g = e->g;
	size_t slots = (size_t)g->n_nodes * e->m->n_devices;
	double step = 0;

	memset(e->lane, 0, ff_lane_count(e->m) * sizeof(*e->lane));
	memset(e->ready[FF_FORWARD], 0, slots * sizeof(double));
	memset(e->ready[FF_BACKWARD], 0, slots * sizeof(double));
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[e->order[i]];
		const struct ff_tensor *t = &g->tensors[n->out];

		if (!e->node[e->order[i]])
			continue;
		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			if (!e->node[ff_edge_source(g, k)])
				time_moves(e, e->edge[k], FF_FORWARD);
		time_compute(e, e->order[i], FF_FORWARD);
		for (uint32_t u = 0; u < t->n_uses; u++)
			time_moves(e, e->edge[g->uses[t->first_use + u]], FF_FORWARD);
	}
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct ff_node *n = &g->nodes[e->order[i]];

		if (!e->node[e->order[i]] || !g->tensors[n->out].needs_grad)
			continue;
		time_compute(e, e->order[i], FF_BACKWARD);
		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			time_moves(e, e->edge[k], FF_BACKWARD);
		for (uint32_t b = e->buckets.first_at[e->order[i]]; b != FF_NONE;
				b = e->buckets.bucket[b].next_at)
			time_sync(e, b);
	}
	time_updates(e);
	for (uint32_t i = 0; i < ff_lane_count(e->m); i++)
		step = later(step, e->lane[i]);
	return step;
}

/* The strategy whose blocks stand in e->node, priorities as they are. */
static void view_strategy(
		const struct ff_evaluator *e, struct ff_strategy *s, struct ff_config *config)
{
	*s = e->strategy;
	s->config = config;
	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		config[i] = e->strategy.config[i];
		if (e->node[i])
			config[i] = e->node[i]->config;
	}
}

/* The plan itself: exact, and as slow as a whole lowering. */
static int check_plan(struct ff_evaluator *e, int64_t *over, struct ff_error *err)
{
	struct ff_lower_options opt = {.bucket_bytes = e->bucket_bytes,
			.workspace = ff_price_workspace,
			.ctx = e->p};
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	struct ff_config *config = ff_arena_array(&e->scratch, e->g->n_nodes, sizeof(*config));
	struct ff_strategy s;
	struct ff_schedule plan;
	int code;

	if (!config)
		return ff_fail_memory(err);
	view_strategy(e, &s, config);
	code = ff_lower(e->g, e->m, &s, &opt, &e->scratch, &plan, err);
	*over = 0;
	for (uint32_t d = 0; d < e->m->n_devices && code == FF_OK; d++)
		if (plan.memory_bytes[d] > e->limit[d])
			*over += plan.memory_bytes[d] - e->limit[d];
	ff_arena_rewind(&e->scratch, mark);
	return code;
}

/* Two bounds spare most plans: weights alone already too much, or everything
 * at once still not too much. */
static int check_memory(struct ff_evaluator *e, int64_t *over, struct ff_error *err)
{
	int64_t *weights = e->held, *all = e->held + e->m->n_devices;
	bool hopeless = false;

	memset(e->held, 0, 2 * (size_t)e->m->n_devices * sizeof(*e->held));
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		for (uint32_t p = 0; e->node[i] && p < e->node[i]->block.n_parts; p++) {
			weights[e->node[i]->block.device[p]] += e->node[i]->weight_bytes[p];
			all[e->node[i]->block.device[p]] += e->node[i]->bytes[p];
		}
	for (uint32_t i = 0; i < e->g->n_edges; i++)
		for (uint32_t k = 0; k < e->edge[i]->n_bytes; k++)
			all[e->edge[i]->bytes[k].device] += e->edge[i]->bytes[k].bytes;
	*over = 0;
	for (uint32_t d = 0; d < e->m->n_devices; d++) {
		hopeless |= weights[d] > e->limit[d];
		if (weights[d] + all[d] > e->limit[d])
			*over += weights[d] + all[d] - e->limit[d];
	}
	return *over == 0 || hopeless ? FF_OK : check_plan(e, over, err);
}

static int evaluate(struct ff_evaluator *e, struct ff_evaluation *ret, struct ff_error *err)
{
	struct ff_evaluation v;
	int code;

	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		e->block[i] = e->node[i] ? &e->node[i]->block : NULL;
	ff_bucketing_build(&e->buckets, e->g->n_nodes, e->order, e->block, e->bucket_bytes);
	v.step_us = time_step(e);
	code = check_memory(e, &v.over_bytes, err);
	v.fits = v.over_bytes == 0;
	if (code == FF_OK)
		*ret = v;
	return code;
}

static int find_edge(struct ff_evaluator *e, uint32_t edge, struct ff_error *err)
{
	return ff_memo_edge(&e->memo, edge, e->node[ff_edge_source(e->g, edge)],
			e->node[e->g->edges[edge].node], &e->edge[edge], err);
}

static int find_all(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < e->g->n_nodes && code == FF_OK; i++)
		if (s->config[i].n_parts)
			code = ff_memo_node(&e->memo, i, &s->config[i], &e->node[i], err);
	for (uint32_t i = 0; i < e->g->n_edges && code == FF_OK; i++)
		code = find_edge(e, i, err);
	return code;
}

static void keep_config(struct ff_evaluator *e, uint32_t node, const struct ff_config *c)
{
	uint16_t *device = e->devices + (size_t)node * e->m->n_devices;

	memmove(device, c->device, c->n_parts * sizeof(*device));
	e->strategy.config[node] = *c;
	e->strategy.config[node].device = device;
}

int ff_evaluator_set(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err)
{
	int code = ff_strategy_check(e->g, s, e->m->n_devices, err);

	if (code < 0)
		return code;
	ff_memo_clear(&e->memo);
	ff_arena_finish(&e->scratch);
	ff_arena_init(&e->scratch);
	code = ff_strategy_order(e->g, s, &e->scratch, e->order, err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		e->position[e->order[i]] = i;
	for (uint32_t i = 0; i < e->g->n_edges; i++) {
		e->first_use[i] = ff_edge_is_first_use(e->g, e->position, i);
		if (e->first_use[i])
			e->first_edge[e->g->edges[i].tensor] = i;
	}
	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		e->strategy.priority[i] = s->priority[i];
		if (s->config[i].n_parts)
			keep_config(e, i, &s->config[i]);
	}
	e->changed = FF_NONE;
	code = find_all(e, &e->strategy, err);
	return code == FF_OK ? evaluate(e, ret, err) : code;
}

static void restore(struct ff_evaluator *e)
{
	e->node[e->changed] = e->node_was;
	for (uint32_t i = 0; i < e->n_swaps; i++)
		e->edge[e->swap[i].edge] = e->swap[i].was;
	e->changed = FF_NONE;
}

static int swap_edge(struct ff_evaluator *e, uint32_t edge, struct ff_error *err)
{
	struct swap was = {edge, e->edge[edge]};

	e->swap[e->n_swaps++] = was;
	return find_edge(e, edge, err);
}

int ff_evaluator_propose(struct ff_evaluator *e, uint32_t node, const struct ff_config *config,
		struct ff_evaluation *ret, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[node];
	const struct ff_tensor *t = &e->g->tensors[n->out];
	int code = ff_config_check(n, config, e->m->n_devices, err);

	if (code < 0)
		return code;
	if (e->memo.arena.bytes > MEMO_BYTES) {
		ff_memo_clear(&e->memo);
		code = find_all(e, &e->strategy, err);
		if (code < 0)
			return code;
	}
	e->changed = node;
	e->node_was = e->node[node];
	e->n_swaps = 0;
	code = ff_memo_node(&e->memo, node, config, &e->node[node], err);
	for (uint32_t k = n->in; k < n->in + n->n_in && code == FF_OK; k++)
		code = swap_edge(e, k, err);
	for (uint32_t u = 0; u < t->n_uses && code == FF_OK; u++)
		code = swap_edge(e, e->g->uses[t->first_use + u], err);
	if (code == FF_OK)
		code = evaluate(e, ret, err);
	if (code < 0)
		restore(e);
	return code;
}

void ff_evaluator_keep(struct ff_evaluator *e)
{
	if (e->changed != FF_NONE)
		keep_config(e, e->changed, &e->node[e->changed]->config);
	e->changed = FF_NONE;
}

void ff_evaluator_drop(struct ff_evaluator *e)
{
	if (e->changed != FF_NONE)
		restore(e);
}

const struct ff_strategy *ff_evaluator_strategy(const struct ff_evaluator *e)
{
	return &e->strategy;
}
