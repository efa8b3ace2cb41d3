/* The evaluator's pass: when every task starts and ends.  It takes the blocks in
 * the order of ff_lower's tasks and computes the same maxima and sums as
 * ff_simulate, so its figures are the same to the bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* One move: it starts when its lanes are free and its sources done. */
static double time_move(struct ff_evaluator *e, const struct ff_memo_move *tm, const double *finish,
		double at)
{
	const struct ff_move *mv = tm->move;

	for (uint32_t k = 0; k < tm->n_lanes; k++)
		at = later(at, e->lane[tm->lane[k]]);
	for (uint32_t k = 0; finish && k < mv->n_sources; k++)
		at = later(at, finish[mv->source[k]]);
	at += tm->us;
	for (uint32_t k = 0; k < tm->n_lanes; k++)
		e->lane[tm->lane[k]] = at;
	return at;
}

static void arrive(const struct ff_move *mv, double at, double *ready)
{
	for (uint32_t k = 0; k < mv->n_sinks; k++)
		ready[mv->sink[k]] = later(ready[mv->sink[k]], at);
}

static void forward_moves(struct ff_evaluator *e, uint32_t edge)
{
	const struct ff_memo_edge *me = e->edge[edge];
	uint32_t from;
	struct ff_memo_node *to;
	const double *finish = NULL;

	if (!me || !me->block.forward.n_moves)
		return;
	from = ff_edge_source(e->g, edge);
	to = e->node[e->g->edges[edge].node];
	if (ff_node_is_computed(e->g, from))
		finish = e->node[from]->finish[FF_FORWARD];
	to->moved[FF_FORWARD] = true;
	for (uint32_t i = 0; i < me->block.forward.n_moves; i++)
		arrive(me->move[FF_FORWARD][i].move,
				time_move(e, &me->move[FF_FORWARD][i], finish, 0),
				to->ready[FF_FORWARD]);
}

/* When what a move adds to was written: a first use that is aliased was written
 * by compute; one that moved stands on the same lane. */
static double first_written(const struct ff_evaluator *e, uint32_t value, const struct ff_move *mv)
{
	uint32_t first = e->first_edge[value];
	const struct ff_memo_edge *me = e->edge[first];
	const double *finish = e->node[e->g->edges[first].node]->finish[FF_BACKWARD];
	double at = 0;

	for (uint32_t k = 0; k < mv->n_sinks; k++) {
		uint32_t alias = me->block.backward.alias[mv->sink[k]];

		if (alias != FF_NONE)
			at = later(at, finish[alias]);
	}
	return at;
}

static void backward_moves(struct ff_evaluator *e, uint32_t edge)
{
	const struct ff_memo_edge *me = e->edge[edge];
	const struct ff_edge *x = &e->g->edges[edge];
	struct ff_memo_node *to;
	const double *finish;

	if (!me || !me->block.backward.n_moves)
		return;
	to = e->node[ff_edge_source(e->g, edge)];
	finish = e->node[x->node]->finish[FF_BACKWARD];
	to->moved[FF_BACKWARD] = true;
	for (uint32_t i = 0; i < me->block.backward.n_moves; i++) {
		const struct ff_memo_move *tm = &me->move[FF_BACKWARD][i];
		double at = tm->move->accumulate ? first_written(e, x->value, tm->move) : 0;

		arrive(tm->move, time_move(e, tm, finish, at), to->ready[FF_BACKWARD]);
	}
}

/* Times of `n` parts in turn on `n` lanes that follow each other. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static void run_in_line(
		uint32_t n, const double *us, double *lane, double *finish)
{
	for (uint32_t p = 0; p < n; p++)
		lane[p] = finish[p] = lane[p] + us[p];
}

static void time_compute(struct ff_evaluator *e, uint32_t node, enum ff_pass pass, const double *us)
{
	struct ff_memo_node *mn = e->node[node];
	double *finish = mn->finish[pass], *ready = mn->ready[pass];
	const uint16_t *device = mn->block.device;
	uint32_t n = mn->block.n_parts;

	/* compute lanes are numbered as the devices are */
	if (!mn->moved[pass] && mn->in_line) {
		run_in_line(n, us, e->lane + device[0], finish);
		return;
	}
	for (uint32_t p = 0; p < n; p++) {
		double *lane = &e->lane[device[p]];

		*lane = finish[p] = later(*lane, ready[p]) + us[p];
		ready[p] = 0;
	}
	mn->moved[pass] = false;
}

/* Backward of a part that adds to gradients takes longer by the adding. */
static int time_backward(struct ff_evaluator *e, uint32_t node, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[node];
	const struct ff_memo_node *mn = e->node[node];
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	double *us = NULL;

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		uint32_t edge = n->in + i;

		if (!ff_evaluator_accumulates(e, edge))
			continue;
		us = us ? us
			: ff_arena_array(&e->scratch, 2 * (size_t)mn->block.n_parts, sizeof(*us));
		if (!us)
			return ff_fail_memory(err);
		for (uint32_t p = 0; p < mn->block.n_parts; p++) {
			struct ff_region r;

			ff_placement_region(&mn->block.in[i], p, &r);
			/* whole numbers below 2^53: exact in any order */
			us[mn->block.n_parts + p] +=
					(double)(ff_region_volume(&r) * FF_ELEMENT_BYTES);
		}
	}
	for (uint32_t p = 0; us && p < mn->block.n_parts; p++)
		us[p] = mn->us[FF_BACKWARD][p] +
			ff_price_add(e->p, mn->block.device[p], (int64_t)us[mn->block.n_parts + p]);
	time_compute(e, node, FF_BACKWARD, us ? us : mn->us[FF_BACKWARD]);
	ff_arena_rewind(&e->scratch, mark);
	return FF_OK;
}

/* Gradients of a bucket are complete when the node that closes it is done. */
static void time_sync(struct ff_evaluator *e, uint32_t bucket)
{
	const struct ff_bucket_build *b = &e->buckets.bucket[bucket];
	const struct ff_weight_group *last = e->buckets.member[b->last].group;
	const double *finish = e->node[b->close]->finish[FF_BACKWARD];
	double t = 0;
	uint32_t n;

	e->synced_us[bucket] = 0; /* of one device: same lane as the update */
	if (!b->synced || b->n_devices < 2)
		return;
	n = ff_transfer_lanes(e->m, b->n_devices, b->device, e->sync_lane);
	for (uint32_t k = 0; k < n; k++)
		t = later(t, e->lane[e->sync_lane[k]]);
	for (uint32_t k = 0; k < last->n_devices; k++)
		t = later(t, finish[last->part[k]]);
	t += ff_price_sync(e->p, b->n_devices, b->device, b->bytes);
	for (uint32_t k = 0; k < n; k++)
		e->lane[e->sync_lane[k]] = t;
	e->synced_us[bucket] = t;
}

/* When the gradients of a bucket's members were brought to its device number `d`. */
static double brought_us(struct ff_evaluator *e, const struct ff_bucket_build *b, uint32_t d)
{
	double at = 0;

	for (uint32_t i = b->first; i != FF_NONE; i = e->buckets.member[i].next) {
		const struct ff_bucket_member *m = &e->buckets.member[i];
		struct ff_memo_node *mn = e->node[m->param];

		at = later(at, mn->ready[FF_BACKWARD][m->group->part[d]]);
		mn->ready[FF_BACKWARD][m->group->part[d]] = 0;
		mn->moved[FF_BACKWARD] = false;
	}
	return at;
}

static void time_updates(struct ff_evaluator *e)
{
	for (uint32_t i = 0; i < e->buckets.n_buckets; i++) {
		const struct ff_bucket_build *b = &e->buckets.bucket[i];

		for (uint32_t d = 0; d < b->n_devices; d++) {
			double *lane = &e->lane[b->device[d]];
			double at = b->synced ? e->synced_us[i] : brought_us(e, b, d);

			*lane = later(*lane, at) + ff_price_update(e->p, b->device[d], b->bytes);
		}
	}
}

/* The parameters that `node`, in reverse order, is the last to give gradients. */
static int complete_params(struct ff_evaluator *e, uint32_t node, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[node];
	int code = FF_OK;

	for (uint32_t i = n->n_data; i < n->n_in && code == FF_OK; i++) {
		uint32_t param = ff_edge_source(e->g, n->in + i), count;
		bool synced = e->synced[param];
		const struct ff_memo_node *owner = e->node[synced ? node : param];
		const struct ff_weight_group *group;

		if (!e->completes[n->in + i])
			continue;
		group = ff_node_block_groups(&owner->block, synced ? i : FF_NONE, &count);
		code = ff_bucketing_add(&e->buckets, node, param, group, count, synced, err);
	}
	return code;
}

static int gather_buckets(struct ff_evaluator *e, struct ff_error *err)
{
	int code = FF_OK;

	ff_bucketing_begin(&e->buckets);
	for (uint32_t i = e->g->n_nodes; i-- > 0 && code == FF_OK;)
		if (ff_node_is_computed(e->g, e->order[i]))
			code = complete_params(e, e->order[i], err);
	ff_bucketing_end(&e->buckets);
	if (code == FF_OK && e->buckets.n_buckets > e->synced_cap) {
		uint32_t cap = 2 * e->buckets.n_buckets;
		double *grown = realloc(e->synced_us, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		e->synced_us = grown;
		e->synced_cap = cap;
	}
	return code;
}

static void pass_forward(struct ff_evaluator *e)
{
	const struct ff_graph *g = e->g;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t node = e->order[i];
		const struct ff_node *n = &g->nodes[node];

		if (!ff_node_is_computed(g, node))
			continue;
		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			if (ff_edge_is_brought(g, k))
				forward_moves(e, k);
		time_compute(e, node, FF_FORWARD, e->node[node]->us[FF_FORWARD]);
		for (uint32_t k = n->out; k < n->out + n->n_out; k++)
			for (uint32_t u = 0; u < g->values[k].n_uses; u++)
				forward_moves(e, g->uses[g->values[k].first_use + u]);
	}
}

static int pass_backward(struct ff_evaluator *e, struct ff_error *err)
{
	const struct ff_graph *g = e->g;

	for (uint32_t i = g->n_nodes; i-- > 0;) {
		uint32_t node = e->order[i];
		const struct ff_node *n = &g->nodes[node];
		int code;

		if (!ff_node_is_computed(g, node) || !ff_node_needs_grad(g, node))
			continue;
		code = time_backward(e, node, err);
		if (code < 0)
			return code;
		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			backward_moves(e, k);
		for (uint32_t b = e->buckets.first_at[node]; b != FF_NONE;
				b = e->buckets.bucket[b].next_at)
			time_sync(e, b);
	}
	return FF_OK;
}

int ff_evaluator_time(struct ff_evaluator *e, double *step_us, struct ff_error *err)
{
	double step = 0;
	int code = gather_buckets(e, err);

	if (code < 0)
		return code;
	memset(e->lane, 0, ff_lane_count(e->m) * sizeof(*e->lane));
	pass_forward(e);
	code = pass_backward(e, err);
	if (code < 0)
		return code;
	time_updates(e);
	for (uint32_t i = 0; i < ff_lane_count(e->m); i++)
		step = later(step, e->lane[i]);
	*step_us = step;
	return FF_OK;
}
