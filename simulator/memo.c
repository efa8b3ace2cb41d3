/* Blocks built and priced once.  SPDX-License-Identifier: Apache-2.0 */
#include "memo.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h, uint64_t v)
{
	/* the finaliser of splitmix64 */
	uint64_t x = (h ^ v) + UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static uint64_t hash_config(uint32_t node, const struct ff_node *n, const struct ff_config *c)
{
	uint64_t h = mix(node, c->n_parts);

	for (uint32_t d = 0; d < n->n_dims; d++)
		h = mix(h, c->degree[d]);
	for (uint32_t i = 0; i < c->n_parts; i++)
		h = mix(h, c->device[i]);
	return h;
}

int ff_memo_init(struct ff_memo *t, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, const bool *first_use, struct ff_error *err)
{
	*t = (struct ff_memo){.g = g,
			.m = m,
			.p = p,
			.first_use = first_use,
			.node_cap = 1024,
			.edge_cap = 4096};
	ff_arena_init(&t->arena);
	ff_arena_init(&t->scratch);
	t->node = calloc(t->node_cap, sizeof(*t->node));
	t->edge = calloc(t->edge_cap, sizeof(*t->edge));
	return t->node && t->edge ? FF_OK : ff_fail_memory(err);
}

void ff_memo_finish(struct ff_memo *t)
{
	ff_arena_finish(&t->arena);
	ff_arena_finish(&t->scratch);
	free(t->node);
	free(t->edge);
}

void ff_memo_clear(struct ff_memo *t)
{
	ff_arena_finish(&t->arena);
	ff_arena_init(&t->arena);
	memset(t->node, 0, t->node_cap * sizeof(*t->node));
	memset(t->edge, 0, t->edge_cap * sizeof(*t->edge));
	t->n_nodes = t->n_edges = 0;
}

/* Doubles a table once it is half full; entries carry their hash first. */
static int grow(void ***table, uint32_t *cap, uint32_t n, struct ff_error *err)
{
	uint32_t bigger = 2 * *cap;
	void **slot;

	if (2 * n < *cap)
		return FF_OK;
	slot = calloc(bigger, sizeof(*slot));
	if (!slot)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < *cap; i++) {
		uint32_t at;

		if (!(*table)[i])
			continue;
		at = (uint32_t) * (uint64_t *)(*table)[i] & (bigger - 1);
		while (slot[at])
			at = (at + 1) & (bigger - 1);
		slot[at] = (*table)[i];
	}
	free(*table);
	*table = slot;
	*cap = bigger;
	return FF_OK;
}

/* What part `p` may hold beside its weights: its output, the output's gradient
 * and a kernel's scratch. */
static int price_part(struct ff_memo *t, struct ff_memo_node *e, uint32_t p, struct ff_error *err)
{
	const struct ff_tensor *out = &t->g->tensors[t->g->nodes[e->node].out];
	int64_t shard = ff_align64(ff_region_volume(&e->block.out[p]) * FF_ELEMENT_BYTES);

	e->bytes[p] = shard * (out->needs_grad ? 2 : 1);
	for (int pass = FF_FORWARD; pass <= FF_BACKWARD; pass++) {
		struct ff_work w;
		int code;

		if (pass == FF_BACKWARD && !out->needs_grad)
			continue;
		ff_work_fill(t->g, e->node, &e->config, p, (enum ff_pass)pass, &w);
		code = ff_price_work(t->p, &w, e->config.device[p], &e->us[pass][p], err);
		if (code < 0)
			return code;
		e->bytes[p] += ff_align64(ff_price_workspace(t->p, &w));
	}
	return FF_OK;
}

static int build_node(struct ff_memo *t, uint32_t node, const struct ff_config *c, uint64_t hash,
		struct ff_memo_node **ret, struct ff_error *err)
{
	uint32_t parts = c->n_parts;
	struct ff_node_block block;
	struct ff_memo_node *e = ff_arena_alloc(&t->arena, sizeof(*e));
	int code;

	if (!e)
		return ff_fail_memory(err);
	*e = (struct ff_memo_node){.hash = hash, .id = t->n_nodes, .node = node, .config = *c};
	e->config.device = ff_arena_copy(&t->arena, c->device, parts, sizeof(*c->device));
	e->us[0] = ff_arena_array(&t->arena, parts, sizeof(double));
	e->us[1] = ff_arena_array(&t->arena, parts, sizeof(double));
	e->weight_bytes = ff_arena_array(&t->arena, parts, sizeof(int64_t));
	e->bytes = ff_arena_array(&t->arena, parts, sizeof(int64_t));
	if (!e->config.device || !e->us[0] || !e->us[1] || !e->weight_bytes || !e->bytes)
		return ff_fail_memory(err);
	code = ff_node_block_build(t->g, node, &e->config, &t->arena, &block, err);
	if (code != FF_OK)
		return code;
	e->block = block;
	for (uint32_t p = 0; p < parts && code == FF_OK; p++) {
		for (uint32_t w = 0; w < t->g->nodes[node].n_weights; w++) {
			uint32_t group = e->block.weight_group[p * FF_MAX_WEIGHTS + w];

			if (group != FF_NONE)
				e->weight_bytes[p] += 3 * e->block.group[group].bytes;
		}
		code = price_part(t, e, p, err);
	}
	if (code == FF_OK)
		*ret = e;
	return code;
}

int ff_memo_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		const struct ff_memo_node **ret, struct ff_error *err)
{
	const struct ff_node *n = &t->g->nodes[node];
	uint64_t hash = hash_config(node, n, c);
	struct ff_memo_node *e;
	uint32_t at;
	int code = grow(&t->node, &t->node_cap, t->n_nodes, err);

	if (code < 0)
		return code;
	for (at = (uint32_t)hash & (t->node_cap - 1); (e = t->node[at]);
			at = (at + 1) & (t->node_cap - 1))
		if (e->hash == hash && e->node == node && ff_config_equal(n, &e->config, c)) {
			*ret = e;
			return FF_OK;
		}
	code = build_node(t, node, c, hash, &e, err);
	if (code < 0)
		return code;
	t->node[at] = e;
	t->n_nodes++;
	*ret = e;
	return FF_OK;
}

static int time_moves(struct ff_memo *t, const struct ff_redistribution *r,
		struct ff_memo_move **ret, struct ff_error *err)
{
	struct ff_memo_move *list = ff_arena_array(&t->arena, r->n_moves, sizeof(*list));

	if (!list)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < r->n_moves; i++) {
		const struct ff_move *mv = &r->move[i];
		uint32_t *lane =
				ff_arena_array(&t->arena, 3 * (size_t)mv->n_devices, sizeof(*lane));

		if (!lane)
			return ff_fail_memory(err);
		list[i] = (struct ff_memo_move){.us = ff_price_move(t->p, mv),
				.move = mv,
				.n_lanes = ff_transfer_lanes(t->m, mv->n_devices, mv->device, lane),
				.lane = lane};
	}
	*ret = list;
	return FF_OK;
}

/* Bytes that the edge may hold: input shards and their gradients that are not
 * the producer's own, and stages. */
static int count_edge_bytes(struct ff_memo *t, struct ff_memo_edge *e,
		const struct ff_memo_node *to, struct ff_error *err)
{
	const struct ff_redistribution *r[2] = {&e->block.forward, &e->block.backward};
	uint32_t slot = t->g->edges[e->edge].slot, room = to->block.n_parts;

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < r[pass]->n_moves; i++)
			room += r[pass]->move[i].n_devices;
	e->bytes = ff_arena_array(&t->arena, room, sizeof(*e->bytes));
	if (!e->bytes)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < to->block.n_parts; p++) {
		int64_t shard = ff_align64(
				ff_region_volume(&to->block.in[slot][p]) * FF_ELEMENT_BYTES);
		int64_t bytes = r[0]->alias[p] == FF_NONE ? shard : 0;

		if (r[1]->alias) /* counted even where it is aliased: an upper bound */
			bytes += shard;
		if (bytes)
			e->bytes[e->n_bytes++] = (struct ff_memo_bytes){to->block.device[p], bytes};
	}
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < r[pass]->n_moves; i++)
			for (uint32_t d = 0; d < r[pass]->move[i].n_devices; d++)
				if (r[pass]->move[i].stage_bytes[d])
					e->bytes[e->n_bytes++] = (struct ff_memo_bytes){
							r[pass]->move[i].device[d],
							r[pass]->move[i].stage_bytes[d]};
	return FF_OK;
}

static int build_edge(struct ff_memo *t, struct ff_memo_edge *e, const struct ff_memo_node *from,
		const struct ff_memo_node *to, struct ff_error *err)
{
	int code = ff_edge_block_build(t->g, e->edge, t->first_use[e->edge],
			from ? &from->block : NULL, &to->block, &t->arena, &t->scratch, &e->block,
			err);

	if (code == FF_OK)
		code = time_moves(t, &e->block.forward, &e->move[FF_FORWARD], err);
	if (code == FF_OK)
		code = time_moves(t, &e->block.backward, &e->move[FF_BACKWARD], err);
	return code == FF_OK ? count_edge_bytes(t, e, to, err) : code;
}

int ff_memo_edge(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to, const struct ff_memo_edge **ret,
		struct ff_error *err)
{
	uint32_t a = from ? from->id : FF_NONE, b = to->id, at;
	uint64_t hash = mix(mix(edge, a), b);
	struct ff_memo_edge *e;
	int code = grow(&t->edge, &t->edge_cap, t->n_edges, err);

	if (code < 0)
		return code;
	for (at = (uint32_t)hash & (t->edge_cap - 1); (e = t->edge[at]);
			at = (at + 1) & (t->edge_cap - 1))
		if (e->edge == edge && e->from == a && e->to == b) {
			*ret = e;
			return FF_OK;
		}
	e = ff_arena_alloc(&t->arena, sizeof(*e));
	if (!e)
		return ff_fail_memory(err);
	*e = (struct ff_memo_edge){.hash = hash, .edge = edge, .from = a, .to = b};
	code = build_edge(t, e, from, to, err);
	if (code < 0)
		return code;
	t->edge[at] = e;
	t->n_edges++;
	*ret = e;
	return FF_OK;
}
