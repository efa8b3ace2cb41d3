/* The evaluator's account of memory: how many bytes of shards and stages live on
 * each device in each step of the order.  A buffer adds its bytes at the first
 * step that uses it and takes them away behind the last; a proposal takes the
 * buffers of the values it touches out and puts them back as they are then; a
 * running sum over the steps tells the peaks.  ff_lower counts the same.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "evaluate.h"

int ff_account_create(struct ff_evaluator *e, struct ff_error *err)
{
	size_t nodes = e->g->n_nodes, edges = e->g->n_edges, devices = e->m->n_devices;
	struct ff_arena *a = &e->arena;

	e->n_steps = ff_program_bound(e->g);
	e->forward_step = ff_arena_array(a, nodes, sizeof(*e->forward_step));
	e->backward_step = ff_arena_array(a, nodes, sizeof(*e->backward_step));
	e->move_step[0] = ff_arena_array(a, edges, sizeof(**e->move_step));
	e->move_step[1] = ff_arena_array(a, edges, sizeof(**e->move_step));
	e->change_bytes = ff_arena_array(
			a, ((size_t)e->n_steps + 1) * devices, sizeof(*e->change_bytes));
	e->pinned = ff_arena_array(a, devices, sizeof(*e->pinned));
	e->live = ff_arena_array(a, devices, sizeof(*e->live));
	e->peak = ff_arena_array(a, devices, sizeof(*e->peak));
	return e->forward_step && e->backward_step && e->move_step[0] && e->move_step[1] &&
					       e->change_bytes && e->pinned && e->live && e->peak
			       ? FF_OK
			       : ff_fail_memory(err);
}

void ff_account_reset(struct ff_evaluator *e)
{
	for (uint32_t i = 0; i < e->program.n; i++) {
		const struct ff_step *s = &e->program.step[i];

		if (s->kind == FF_STEP_MOVES)
			e->move_step[s->pass][s->id] = i;
		else if (s->kind == FF_STEP_COMPUTE)
			(s->pass == FF_FORWARD ? e->forward_step : e->backward_step)[s->id] = i;
	}
	e->n_steps = e->program.n;
	memset(e->change_bytes, 0,
			((size_t)e->n_steps + 1) * e->m->n_devices * sizeof(*e->change_bytes));
}

static void count(struct ff_evaluator *e, uint32_t device, int64_t bytes, uint32_t first,
		uint32_t last)
{
	e->change_bytes[(size_t)first * e->m->n_devices + device] += bytes;
	e->change_bytes[((size_t)last + 1) * e->m->n_devices + device] -= bytes;
}

static void count_stages(struct ff_evaluator *e, const struct ff_redistribution *r, uint32_t step,
		int64_t sign)
{
	for (uint32_t i = 0; i < r->n_moves; i++) {
		const struct ff_move *mv = r->move[i].n_devices ? &r->move[i] : NULL;

		for (uint32_t k = 0; mv && k < mv->n_devices; k++)
			if (mv->stage_bytes[k])
				count(e, mv->device[k], sign * mv->stage_bytes[k], step, step);
	}
}

/* The last step in which a part of the consumer reads what it has at `edge`. */
static uint32_t last_read(const struct ff_evaluator *e, uint32_t edge)
{
	const struct ff_edge *x = &e->g->edges[edge];
	uint32_t flags = ff_op_flags_of(e->g, x->node);
	bool again = x->slot >= e->g->nodes[x->node].n_data || (flags & FF_OP_BACKWARD_IN);

	/* the node behind a prelude reads the same, later */
	if (flags & FF_OP_PRELUDE)
		return last_read(e, e->g->nodes[ff_node_leader(e->g, x->node)].in + x->slot);
	return again && ff_node_needs_grad(e->g, x->node) ? e->backward_step[x->node]
							  : e->forward_step[x->node];
}

/* Shards that were moved to the consumer, and stages. */
static void count_moved(struct ff_evaluator *e, uint32_t edge, int64_t sign)
{
	const struct ff_edge *x = &e->g->edges[edge];
	const struct ff_redistribution *r = &e->edge[edge]->block.forward;
	const struct ff_memo_node *to = e->node[x->node];
	uint32_t first = e->move_step[FF_FORWARD][edge], last = last_read(e, edge);

	if (x->shared != FF_NONE)
		return;
	for (uint32_t i = 0; i < r->n_moves; i++)
		for (uint32_t k = 0; k < r->move[i].n_sinks; k++) {
			uint32_t p = r->move[i].sink[k];

			count(e, to->block.device[p], sign * to->shape->in_bytes[x->slot][p], first,
					last);
		}
	count_stages(e, r, first, sign);
}

/* The last step that reads the producer's shards, by part. */
static void last_uses(const struct ff_evaluator *e, uint32_t value, uint32_t *last)
{
	const struct ff_graph *g = e->g;
	const struct ff_value *v = &g->values[value];
	const struct ff_memo_node *mn = e->node[v->producer];
	bool again = v->kind == FF_VALUE_SAVED ||
		     (ff_op_flags_of(g, v->producer) & FF_OP_BACKWARD_OUT);
	uint32_t own = again && ff_node_needs_grad(g, v->producer) ? e->backward_step[v->producer]
								   : e->forward_step[v->producer];

	for (uint32_t p = 0; p < mn->block.n_parts; p++)
		last[p] = v->producer == g->loss ? e->n_steps - 1 : own;
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = g->uses[v->first_use + u];
		const struct ff_redistribution *r = &e->edge[edge]->block.forward;
		uint32_t parts = e->node[g->edges[edge].node]->block.n_parts;
		uint32_t read = last_read(e, edge), moved = e->move_step[FF_FORWARD][edge];

		for (uint32_t p = 0; p < parts; p++)
			if (r->alias[p] != FF_NONE && last[r->alias[p]] < read)
				last[r->alias[p]] = read;
		for (uint32_t i = 0; i < r->n_moves && g->edges[edge].shared == FF_NONE; i++)
			for (uint32_t k = 0; k < r->move[i].n_sources; k++)
				if (last[r->move[i].source[k]] < moved)
					last[r->move[i].source[k]] = moved;
	}
}

/* Gradients at one edge: the consumer's own shards until they are moved, and, of
 * parts of the producer in `first`, the step in which their gradient begins. */
static void count_gradient(struct ff_evaluator *e, uint32_t edge, int64_t sign, uint32_t *first,
		uint32_t *scratch)
{
	const struct ff_edge *x = &e->g->edges[edge];
	const struct ff_redistribution *r = &e->edge[edge]->block.backward;
	const struct ff_memo_node *to = e->node[x->node];
	const struct ff_memo_node *from = e->node[ff_edge_source(e->g, edge)];
	uint32_t made = e->backward_step[x->node], moved = e->move_step[FF_BACKWARD][edge];

	for (uint32_t p = 0; p < to->block.n_parts; p++)
		scratch[p] = made;
	for (uint32_t i = 0; i < r->n_moves; i++) {
		for (uint32_t k = 0; k < r->move[i].n_sources; k++)
			scratch[r->move[i].source[k]] = moved;
		for (uint32_t k = 0; first && k < r->move[i].n_sinks; k++)
			if (first[r->move[i].sink[k]] > moved)
				first[r->move[i].sink[k]] = moved;
	}
	for (uint32_t k = 0; k < from->block.n_parts; k++) {
		if (r->alias[k] == FF_NONE)
			continue;
		scratch[r->alias[k]] = FF_NONE; /* it is the producer's */
		if (first)
			first[k] = made;
	}
	for (uint32_t p = 0; p < to->block.n_parts; p++)
		if (scratch[p] != FF_NONE)
			count(e, to->block.device[p], sign * to->shape->in_bytes[x->slot][p], made,
					scratch[p]);
	count_stages(e, r, moved, sign);
}

/* What the producer has: shards, and their gradients from the first that is
 * written until its backward. */
static void count_own(struct ff_evaluator *e, uint32_t value, int64_t sign, const uint32_t *last,
		const uint32_t *first_gradient)
{
	const struct ff_value *v = &e->g->values[value];
	const struct ff_memo_node *mn = e->node[v->producer];
	const int64_t *bytes = mn->shape->out_bytes[v->port];

	for (uint32_t p = 0; p < mn->block.n_parts; p++) {
		uint32_t device = mn->block.device[p];

		if (!bytes[p])
			continue;
		count(e, device, sign * bytes[p], e->forward_step[v->producer], last[p]);
		if (first_gradient[p] != FF_NONE)
			count(e, device, sign * bytes[p], first_gradient[p],
					e->backward_step[v->producer]);
	}
}

void ff_account_value(struct ff_evaluator *e, uint32_t value, int64_t sign)
{
	const struct ff_graph *g = e->g;
	const struct ff_value *v = &g->values[value];
	uint32_t last[FF_MAX_DEVICES], first[FF_MAX_DEVICES], scratch[FF_MAX_DEVICES];
	bool computed = ff_node_is_computed(g, v->producer);

	if (e->synced[v->producer])
		return; /* all of it lies in buckets */
	if (computed) {
		last_uses(e, value, last);
		memset(first, 0xff, e->node[v->producer]->block.n_parts * sizeof(*first));
	}
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = g->uses[v->first_use + u];

		count_moved(e, edge, sign);
		if (ff_edge_needs_grad(g, edge))
			count_gradient(e, edge, sign, computed ? first : NULL, scratch);
	}
	if (computed)
		count_own(e, value, sign, last, first);
}

/* Scratch of a part's backward: the kernel's, and of gradients to be added. */
static int64_t backward_scratch(const struct ff_evaluator *e, uint32_t node, uint32_t p)
{
	const struct ff_node *n = &e->g->nodes[node];
	const struct ff_memo_node *mn = e->node[node];
	int64_t bytes = mn->shape->workspace[FF_BACKWARD][p];

	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if (ff_evaluator_accumulates(e, n->in + i))
			bytes += mn->shape->in_bytes[i][p];
	return bytes;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Weights, gradients and momentum, and the scratch of the largest kernel. */
static void count_pinned(struct ff_evaluator *e)
{
	memset(e->pinned, 0, e->m->n_devices * sizeof(*e->pinned));
	for (uint32_t i = 0; i < e->g->n_nodes && (e->has_scratch || e->memo.has_workspace); i++) {
		const struct ff_memo_node *mn = e->node[i];

		for (uint32_t p = 0; mn && p < mn->block.n_parts; p++) {
			int64_t *most = &e->pinned[mn->block.device[p]];

			*most = larger(*most, mn->shape->workspace[FF_FORWARD][p]);
			*most = larger(*most, backward_scratch(e, i, p));
		}
	}
	for (uint32_t i = 0; i < e->buckets.n_buckets; i++) {
		const struct ff_bucket_build *b = &e->buckets.bucket[i];

		for (uint32_t d = 0; d < b->n_devices; d++)
			e->pinned[b->device[d]] += 3 * b->bytes;
	}
}

/* Running sums and their largest, all devices side by side. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static void sum_steps(uint32_t devices,
		uint32_t steps, const int64_t *change, int64_t *restrict live,
		int64_t *restrict peak)
{
	for (uint32_t s = 0; s < steps; s++, change += devices)
		for (uint32_t d = 0; d < devices; d++) {
			live[d] += change[d];
			peak[d] = live[d] > peak[d] ? live[d] : peak[d];
		}
}

int64_t ff_account_over(struct ff_evaluator *e, bool *tight)
{
	uint32_t n = e->m->n_devices;
	int64_t over = 0;

	count_pinned(e);
	memset(e->live, 0, n * sizeof(*e->live));
	memset(e->peak, 0, n * sizeof(*e->peak));
	sum_steps(n, e->n_steps, e->change_bytes, e->live, e->peak);
	*tight = false;
	for (uint32_t d = 0; d < n; d++) {
		int64_t most = e->pinned[d] + e->peak[d];

		over += most > e->limit[d] ? most - e->limit[d] : 0;
		*tight = *tight || most > e->limit[d] / 2;
	}
	return over;
}
