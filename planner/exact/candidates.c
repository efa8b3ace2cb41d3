/* Candidates: the configs of an operator that elimination chooses from, and what they
 * and the edges between them cost.  SPDX-License-Identifier: Apache-2.0 */
#include "candidates.h"
#include "ff/backward.h"
#include "space/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ESTIMATE_PARTS 16 /* looked at */
/* What is really moved takes so many times the bytes that one device lacks: both ways,
 * packed, and others use the link too. */
#define ESTIMATE_TIMES 4
#define ESTIMATE_US 20 /* both ways packed and unpacked */
#define MOST_DRAFTS 1024

/* ---- drafts ---- */

static void add_draft(const struct ff_additive *a, const struct ff_node *n, const uint32_t *split,
		const uint16_t *by, uint32_t n_split, struct ff_config *draft, uint32_t *count)
{
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view view = {0};
	uint32_t stride = 1;

	for (uint32_t d = 0; d < n->n_dims; d++)
		degree[d] = 1;
	for (uint32_t i = n_split; i-- > 0; stride *= by[i]) {
		if (by[i] < 2 || n->dim[split[i]].extent < (int32_t)by[i])
			return;
		degree[split[i]] = by[i];
		view.stride[split[i]] = stride;
	}
	if (*count < MOST_DRAFTS && stride <= a->space->n_devices)
		ff_view_config(n->n_dims, degree, &view, &draft[(*count)++]);
}

/* Two dims that are worth splitting together. */
static bool is_pair(const struct ff_node *n, uint32_t d, uint32_t e)
{
	enum ff_label x = n->dim[d].label, y = n->dim[e].label;

	return x == FF_DIM_SAMPLE || y == FF_DIM_SAMPLE ||
	       (x != FF_DIM_ATTRIBUTE && y != FF_DIM_ATTRIBUTE);
}

/* Views in line from device 0 on: whole, one dim split by each divisor of the
 * devices, two dims over all devices with either inside.  Other devices are left to
 * the walk: a sum does not see what runs side by side. */
static uint32_t draft(const struct ff_additive *a, const struct ff_node *n, struct ff_config *ret)
{
	const struct ff_space *s = a->space;
	uint32_t count = 0;

	for (uint32_t d = 0; d < n->n_dims; d++)
		add_draft(a, n, &d, (const uint16_t[]){(uint16_t)s->n_devices}, 1, ret, &count);
	for (uint32_t d = 0; d < n->n_dims; d++)
		for (uint32_t e = 0; e < n->n_dims; e++)
			for (uint32_t k = 1; e != d && is_pair(n, d, e) && k + 1 < s->n_divisors;
					k++)
				add_draft(a, n, (const uint32_t[]){d, e},
						(const uint16_t[]){(uint16_t)s->divisor[k],
								(uint16_t)(s->n_devices /
										s->divisor[k])},
						2, ret, &count);
	for (uint32_t k = s->n_divisors; k-- > 1;)
		for (uint32_t d = 0; d < n->n_dims && k + 1 < s->n_divisors; d++)
			add_draft(a, n, &d, (const uint16_t[]){(uint16_t)s->divisor[k]}, 1, ret,
					&count);
	add_draft(a, n, NULL, NULL, 0, ret, &count);
	return count;
}

/* Those that limits of the space admit; one that is made so where none is. */
static uint32_t draft_admitted(const struct ff_additive *a, uint32_t node, struct ff_config *ret)
{
	uint32_t n = draft(a, &a->g->nodes[node], ret), kept = 0;

	for (uint32_t i = 0; i < n; i++)
		if (ff_space_admits(a->space, node, &ret[i]))
			ret[kept++] = ret[i];
	if (kept)
		return kept;
	ret[0] = (struct ff_config){.n_parts = a->space->n_devices, .replicas = 1};
	ff_space_fit(a->space, node, &ret[0]);
	return 1;
}

/* ---- what an operator costs ---- */

static int price_parts(struct ff_additive *a, uint32_t node, const struct ff_config *config,
		double *most_us, struct ff_error *err)
{
	const struct ff_node *n = &a->g->nodes[node];
	bool back = ff_node_needs_grad(a->g, node);
	int code = FF_OK;

	*most_us = 0;
	for (uint32_t p = 0; p < config->n_parts && code == FF_OK; p++) {
		struct ff_region box;
		struct ff_work w;
		double sum = 0, us;

		/* of one kind of device the first and the last stand for all */
		if (p > 0 && a->m->n_kinds == 1)
			p = config->n_parts - 1;
		ff_config_box(n, config, p, &box);
		for (int pass = FF_FORWARD; pass <= (back ? FF_BACKWARD : FF_FORWARD); pass++) {
			ff_work_fill(a->g, node, &box, (enum ff_pass)pass, &w);
			code = ff_price_work(a->p, &w, ff_config_device(n, config, p), &us, err);
			if (code < 0)
				return code;
			sum += us;
		}
		*most_us = fmax(*most_us, sum);
	}
	/* they may run beside others, which a sum does not see */
	if (n->n_carried)
		*most_us *= config->degree[n->carried_dim];
	return code;
}

/* Adds `us` to the first `n` of a->lane, which a transfer holds; returns the busiest one's sum. */
static double hold_lanes(struct ff_additive *a, uint32_t n, double us)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++)
		most = fmax(most, a->lane_us[a->lane[i]] += us);
	return most;
}

static void clear_lanes(struct ff_additive *a)
{
	memset(a->lane_us, 0, ff_lane_count(a->m) * sizeof(*a->lane_us));
}

/* Synchronising and updating what `node` trains; of a parameter that several nodes
 * read, its share.  Small ones go together with others, so what counts is their share
 * of a bucket. */
static void price_weights(struct ff_additive *a, uint32_t node, struct ff_candidate *c)
{
	const struct ff_node *n = &a->g->nodes[node];
	const struct ff_optimizer *o = ff_price_optimizer(a->p);
	double sync_us = 0, update_us = 0, bytes = 0;

	clear_lanes(a);
	for (uint32_t i = 0; i < c->block.n_groups; i++) {
		const struct ff_weight_group *w = &c->block.group[i];
		const struct ff_value *v = &a->g->values[a->g->edges[n->in + w->slot].value];
		int64_t whole = w->bytes > a->bucket_bytes ? w->bytes : a->bucket_bytes;
		double share = (double)w->bytes / (double)whole / v->n_uses;
		double us = ff_price_bucket(a->p, w->n_devices, w->device, whole);

		sync_us = fmax(sync_us, hold_lanes(a,
							ff_transfer_lanes(a->m, w->n_devices,
									w->device, a->lane),
							share * us));
		/* one device has at most one shard of each slot */
		if (i > 0 && c->block.group[i - 1].slot == w->slot)
			continue;
		if (w->sparse_rows && o->sparse)
			share *= (double)w->sparse_rows / ff_region_size(&w->region, 0);
		update_us += share * ff_price_update(a->p, w->device[0], whole);
		bytes += (double)ff_optimizer_bytes(o, a->g->dtype, w->bytes) / v->n_uses;
	}
	c->sync_us = sync_us + update_us;
	c->bytes = bytes;
}

/* What the largest part writes, and as much for its gradient. */
static double bytes_written(const struct ff_node *n, const struct ff_node_block *b)
{
	double sum = 0;

	for (uint32_t k = 0; k < n->n_out; k++) {
		double bytes = (double)ff_placement_bytes(&b->out[k], 0);

		sum += (k < n->n_out - n->n_saved ? 2.0 : 1.0) * bytes;
	}
	return sum;
}

/* Of sizes alone; what stays goes to `to`. */
static struct ff_edge_builder edge_builder(
		struct ff_additive *a, const struct ff_codec *codec, struct ff_arena *to)
{
	return (struct ff_edge_builder){.g = a->g,
			.codec = codec,
			.move = {.m = a->m, .a = to, .scratch = &a->inner}};
}

int ff_additive_price_edge(struct ff_additive *a, uint32_t edge, const struct ff_node_block *from,
		const struct ff_node_block *to, double *us, double *bytes, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&a->scratch);
	const struct ff_edge *x = &a->g->edges[edge];
	bool first = ff_edge_is_first_use(a->g, a->position, edge);
	struct ff_edge_block b;
	const struct ff_edge_builder with = edge_builder(a, ff_price_codec(a->p), &a->scratch);
	const struct ff_edge_cut cut = {edge, first, from, to};
	int code = ff_edge_block_build(&with, &cut, &b, err);

	if (code < 0)
		return code;
	*us = 0;
	for (int pass = 0; pass < 2; pass++) {
		const struct ff_redistribution *d = pass ? &b.backward : &b.forward;
		double most = 0;

		clear_lanes(a);
		for (uint32_t i = 0; i < d->n_moves; i++)
			most = fmax(most, hold_lanes(a,
							  ff_move_lanes(a->g, a->m, edge,
									  &d->move[i], a->lane),
							  ff_price_move(a->p, a->g, &d->move[i])));
		*us += most;
	}
	*bytes = b.forward.n_moves ? (double)ff_placement_bytes(&to->in[x->slot], 0) : 0;
	ff_arena_rewind(&a->scratch, mark);
	return FF_OK;
}

/* Adds what the prelude of `node` takes, and the exchange behind it. */
static int price_prelude(struct ff_additive *a, uint32_t node, struct ff_candidate *c,
		struct ff_arena *to, struct ff_error *err)
{
	const struct ff_node *n = &a->g->nodes[node];
	uint32_t prelude = ff_node_prelude(a->g, node);
	struct ff_arena_mark mark = ff_arena_mark(to);
	struct ff_node_block b;
	double us, bytes;
	int code;

	if (prelude == FF_NONE)
		return FF_OK;
	code = ff_node_block_build(a->g, prelude, &c->config, to, &b, err);
	if (code == FF_OK)
		code = price_parts(a, prelude, &c->config, &us, err);
	if (code == FF_OK) {
		c->compute_us += us;
		c->bytes += bytes_written(&a->g->nodes[prelude], &b);
	}
	for (uint32_t i = n->n_data - n->n_prelude; i < n->n_data && code == FF_OK; i++) {
		code = ff_additive_price_edge(a, n->in + i, &b, &c->block, &us, &bytes, err);
		if (code == FF_OK) {
			c->compute_us += us;
			c->bytes += bytes;
		}
	}
	ff_arena_rewind(to, mark);
	return code;
}

/* What goes from turn to turn: all wait for a message each time. */
static int price_carried(struct ff_additive *a, uint32_t node, struct ff_candidate *c,
		struct ff_arena *to, struct ff_error *err)
{
	const struct ff_edge_builder with = edge_builder(a, NULL, to);
	const struct ff_node *n = &a->g->nodes[node];
	struct ff_arena_mark mark = ff_arena_mark(to);
	int code = FF_OK;

	for (uint32_t i = n->n_data - n->n_carried; i < n->n_data && code == FF_OK; i++)
		for (int pass = 0; pass < 2 && code == FF_OK; pass++) {
			struct ff_redistribution r;

			code = ff_edge_block_build_pass(&with,
					&(struct ff_edge_cut){
							n->in + i, true, &c->block, &c->block},
					(enum ff_pass)pass, &r, err);
			if (code == FF_OK && r.n_moves)
				c->compute_us += (c->block.turns.n - 1) *
						 ff_price_move(a->p, a->g, &r.move[0]);
		}
	ff_arena_rewind(to, mark);
	return code;
}

/* Beside what its parts compute; `to` is for its block. */
static int price_candidate(struct ff_additive *a, uint32_t node, struct ff_candidate *c,
		struct ff_arena *to, struct ff_error *err)
{
	const struct ff_node *n = &a->g->nodes[node];
	int code = ff_node_block_build(a->g, node, &c->config, to, &c->block, err);

	if (code < 0)
		return code;
	c->part_on = ff_arena_array(to, a->m->n_devices, sizeof(*c->part_on));
	if (!c->part_on)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < c->config.n_parts; p++)
		c->part_on[c->block.device[p]] = (uint16_t)(p + 1);
	price_weights(a, node, c);
	c->bytes += bytes_written(n, &c->block);
	for (uint32_t i = 0; i < n->n_data && code == FF_OK; i++) {
		double us = 0, bytes = 0;

		if (!ff_edge_is_brought(a->g, n->in + i))
			continue;
		code = ff_additive_price_edge(a, n->in + i, NULL, &c->block, &us, &bytes, err);
		c->compute_us += us;
		c->bytes += bytes;
	}
	if (code == FF_OK)
		code = price_carried(a, node, c, to, err);
	return code == FF_OK ? price_prelude(a, node, c, to, err) : code;
}

/* How many intervals of `other` one of `own` meets, where all are about as long. */
static uint32_t meets(
		const struct ff_grid_axis *own, const struct ff_grid_axis *other, int32_t size)
{
	int64_t reach = (int64_t)(own->hi[0] - own->lo[0]) * other->n;
	uint32_t n = (uint32_t)((reach + size - 1) / size);

	return n < 1 ? 1 : n > other->n ? other->n : n;
}

/* Messages that the busiest device sends or receives, about. */
static uint32_t count_rounds(const struct ff_operand *o, const struct ff_placement *out,
		const struct ff_placement *in)
{
	uint32_t sent = in->n_copies * in->replicas, received = out->n_copies;

	for (uint32_t i = 0; i < o->rank; i++) {
		received *= meets(&in->axis[i], &out->axis[i], o->shape[i]);
		sent *= meets(&out->axis[i], &in->axis[i], o->shape[i]);
	}
	return sent > received ? sent : received;
}

/* Elements that a part needs and does not have: anywhere; in its node. */
struct lack {
	int64_t own, node;
};

/* Takes what the producer's part on `device` has of `wanted` from what is lacking. */
static int64_t found_on(const struct ff_candidate *from, const struct ff_placement *out,
		const struct ff_region *wanted, uint32_t device)
{
	struct ff_region own, both;

	if (!from->part_on[device])
		return 0;
	ff_placement_region(out, from->part_on[device] - 1u, &own);
	return ff_region_intersect(wanted, &own, &both);
}

/* What part `p` of the consumer lacks.  Partial sums are nowhere whole. */
static struct lack find_lack(const struct ff_additive *a, const struct ff_candidate *from,
		const struct ff_placement *out, const struct ff_candidate *to,
		const struct ff_placement *in, uint32_t p)
{
	uint32_t device = to->block.device[p];
	const struct ff_machine_node *node = &a->m->nodes[a->m->node_of[device]];
	struct ff_region wanted;
	struct lack l;

	ff_placement_region(in, p, &wanted);
	l.own = l.node = ff_region_volume(&wanted);
	if (out->n_copies > 1)
		return l;
	l.own -= found_on(from, out, &wanted, device);
	for (uint32_t i = 0; i < node->count && l.own > 0 && a->m->n_nodes > 1; i++)
		l.node -= found_on(from, out, &wanted, node->first + i);
	l.node = l.own > 0 && a->m->n_nodes > 1 && l.node > 0 ? l.node : 0;
	return l;
}

double ff_additive_estimate(const struct ff_additive *a, const struct ff_link_table *l,
		const struct ff_candidate *from, const struct ff_candidate *to)
{
	const struct ff_placement *in = &to->block.in[l->slot], *out = &from->block.out[l->port];
	uint32_t parts = to->config.n_parts, step = 1 + (parts - 1) / ESTIMATE_PARTS;
	int64_t bytes = ff_dtype_bytes(out->type);
	struct lack most = {0, 0};
	double us, latency_us;

	/* not all of them first in some dim */
	for (uint32_t k = 0; k * step < parts; k++) {
		uint32_t p = k * step + (5 * k + 1) % step;
		struct lack at;

		if (p >= parts)
			break;
		at = find_lack(a, from, out, to, in, p);
		most.own = at.own > most.own ? at.own : most.own;
		most.node = at.node > most.node ? at.node : most.node;
	}
	if (!most.own)
		return 0;
	us = fmax((double)(most.own * bytes) / a->inside_bytes_per_us,
			(double)(most.node * bytes) / a->link_bytes_per_us);
	latency_us = most.node ? a->latency_us : a->inside_latency_us;
	return ESTIMATE_TIMES * us + ESTIMATE_US +
	       2 * latency_us * count_rounds(&a->g->nodes[l->to].in_map[l->slot], out, in);
}

/* ---- all of a class ---- */

static int by_cost(const void *x, const void *y)
{
	const struct ff_candidate *a = x, *b = y;
	double u = a->compute_us + a->sync_us, v = b->compute_us + b->sync_us;

	if (u == v)
		return (a->draft > b->draft) - (a->draft < b->draft);
	return u > v ? 1 : -1;
}

int ff_additive_add_kind(struct ff_additive *a, uint32_t node, struct ff_error *err)
{
	struct ff_config drafts[MOST_DRAFTS];
	struct ff_kind *k = ff_arena_alloc(&a->arena, sizeof(*k));
	int code = FF_OK;

	if (!k)
		return ff_fail_memory(err);
	k->node = node;
	k->n = draft_admitted(a, node, drafts);
	k->candidate = ff_arena_array(&a->arena, k->n, sizeof(*k->candidate));
	if (!k->candidate)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < k->n && code == FF_OK; i++) {
		k->candidate[i].config = drafts[i];
		k->candidate[i].draft = i;
		code = price_parts(a, node, &drafts[i], &k->candidate[i].compute_us, err);
	}
	qsort(k->candidate, k->n, sizeof(*k->candidate), by_cost);
	a->kind[node] = k;
	return code;
}

/* Keeps the `most` cheapest of `n` that compute no longer than `most_us`, and of all the
 * first draft (one dim, usually the samples, over all devices): chains of operators
 * need something in common. */
static uint32_t keep_candidates(struct ff_kind *k, uint32_t n, uint32_t most, double most_us)
{
	uint32_t first = 0, kept = 0;

	while (k->candidate[first].draft > 0)
		first++;
	for (uint32_t i = 0; i < k->n; i++) {
		bool cheap = i < n && k->candidate[i].compute_us <= most_us;

		if (i == first || (cheap && kept < most - (first >= i)))
			k->candidate[kept++] = k->candidate[i];
	}
	return kept;
}

int ff_additive_price_kind(struct ff_additive *a, struct ff_kind *k, double slack_us, uint32_t most,
		struct ff_error *err)
{
	double least = INFINITY;
	int code = FF_OK;
	uint32_t n = 0;

	/* in the order of what they compute: what computes too long now, always does */
	while (n < k->n && k->candidate[n].compute_us <= least + slack_us && code == FF_OK) {
		struct ff_arena_mark mark = ff_arena_mark(&a->drafts);
		struct ff_candidate *c = &k->candidate[n++];

		code = price_candidate(a, k->node, c, &a->drafts, err);
		least = fmin(least, c->compute_us + c->sync_us);
		ff_arena_rewind(&a->drafts, mark);
	}
	qsort(k->candidate, n, sizeof(*k->candidate), by_cost);
	k->n = keep_candidates(k, n, most, least + slack_us);
	for (uint32_t i = 0; i < k->n && code == FF_OK; i++) {
		struct ff_candidate *c = &k->candidate[i];

		code = price_parts(a, k->node, &c->config, &c->compute_us, err);
		if (code == FF_OK)
			code = price_candidate(a, k->node, c, &a->arena, err);
	}
	return code;
}
