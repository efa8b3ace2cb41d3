/* Node and edge blocks.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"

#include <string.h>

#include "ff/backward.h"
#include "ff/hash.h"
#include "ff/optimizer.h"

/* Equal keys of two operands of one value: equal intervals, equal numbering of
 * parts, equal devices, of which `devices` is the hash. */
static uint64_t key_of(const struct ff_placement *p, uint64_t devices)
{
	uint64_t h = devices;

	h = ff_hash_mix(h, (uint64_t)p->n_copies << 32 | p->replicas);
	for (uint32_t c = 0; c < p->n_copies; c++)
		h = ff_hash_mix(h, p->copy[c]);
	for (uint32_t i = 0; i < p->rank; i++)
		for (uint32_t k = 0; k < p->axis[i].n; k++) {
			h = ff_hash_mix(h, (uint64_t)(uint32_t)p->axis[i].lo[k] << 32 |
							   (uint32_t)p->axis[i].hi[k]);
			h = ff_hash_mix(h, p->axis[i].part[k]);
		}
	for (uint32_t k = 0; p->idle && k < p->cells; k++)
		h = ff_hash_mix(h, p->idle[k]);
	return h;
}

static void insert(struct ff_weight_group *g, uint16_t device, uint16_t part)
{
	uint16_t *devices = (uint16_t *)g->device, *parts = (uint16_t *)g->part;
	uint32_t at = g->n_devices++;

	for (; at && devices[at - 1] > device; at--) {
		devices[at] = devices[at - 1];
		parts[at] = parts[at - 1];
	}
	devices[at] = device;
	parts[at] = part;
}

/* The devices of `copies` copies of part `part`, from number `first` on. */
static int group_copies(const struct ff_node *n, const struct ff_node_block *b,
		const struct ff_placement *p, uint32_t part, uint32_t first, uint32_t copies,
		struct ff_arena *a, struct ff_weight_group *g, struct ff_error *err)
{
	g->device = ff_arena_array(a, copies, sizeof(*g->device));
	g->part = ff_arena_array(a, copies, sizeof(*g->part));
	if (!g->device || !g->part)
		return ff_fail_memory(err);
	for (uint32_t c = first; c < first + copies; c++) {
		uint32_t q = part + p->copy[c % p->n_copies] + c / p->n_copies * p->cells;

		insert(g, b->device[q], (uint16_t)q);
	}
	ff_placement_region(p, part, &g->region);
	g->bytes = ff_optimizer_align(p->type, ff_region_volume(&g->region));
	if (n->sparse_rows)
		g->sparse_rows = ff_sparse_rows(n, copies == 1, ff_region_size(&g->region, 0));
	g->in_line = true;
	for (uint32_t c = 1; c < copies && g->in_line; c++)
		g->in_line = g->part[c] == g->part[0] + c;
	g->first = g->device[0];
	g->set = ff_fnv1a(g->device, copies * sizeof(*g->device));
	return FF_OK;
}

/* One group for each cell of parameter `slot` and each replica of its reader: a parameter is cut by
 * whole axes, so two parts read equal elements or none in common. */
static int group_weight(const struct ff_node *node, const struct ff_node_block *b, uint32_t slot,
		struct ff_arena *a, struct ff_weight_group *group, uint32_t *n,
		struct ff_error *err)
{
	const struct ff_placement *p = slot == FF_NONE ? b->out : &b->in[slot];
	uint32_t replicas = slot == FF_NONE ? 1 : p->replicas, cells = 1;
	uint32_t copies = p->n_copies * p->replicas / replicas;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->rank; i++)
		cells *= p->axis[i].n;
	for (uint32_t k = 0; k < cells; k++) {
		struct ff_weight_group *first = &group[*n];
		uint32_t part = 0, rest = k;
		uint64_t set = 0;

		for (uint32_t i = p->rank; i-- > 0; rest /= p->axis[i].n)
			part += p->axis[i].part[rest % p->axis[i].n];
		for (uint32_t r = 0; r < replicas && code == FF_OK; r++, ++*n) {
			first[r] = (struct ff_weight_group){.slot = slot,
					.cell = k,
					.replica = r,
					.replicas = replicas};
			code = group_copies(
					node, b, p, part, r * copies, copies, a, &first[r], err);
			set = ff_hash_mix(set, first[r].set);
		}
		for (uint32_t r = 0; r < replicas && replicas > 1; r++)
			first[r].set = set;
	}
	return code;
}

static int group_weights(const struct ff_node *n, struct ff_arena *a, struct ff_node_block *b,
		struct ff_error *err)
{
	bool own = ff_op_row(n->op)->flags & FF_OP_UPDATE;
	uint32_t slots = n->n_in - n->n_data + own;
	struct ff_weight_group *group =
			ff_arena_array(a, (size_t)slots * b->n_parts, sizeof(*group));
	uint32_t *at = ff_arena_array(a, slots + 1, sizeof(*at));
	int code = FF_OK;

	if (!group || !at)
		return ff_fail_memory(err);
	b->group = group;
	b->group_at = at;
	b->first_param = n->n_data;
	for (uint32_t i = 0; i < slots && code == FF_OK; i++) {
		code = group_weight(
				n, b, own ? FF_NONE : n->n_data + i, a, group, &b->n_groups, err);
		at[i + 1] = b->n_groups;
	}
	return code;
}

/* By the coordinate along the dim that something is carried along. */
static int find_turns(const struct ff_node *n, const struct ff_config *c, struct ff_arena *a,
		struct ff_turns *ret, struct ff_error *err)
{
	uint32_t degree = n->n_carried ? c->degree[n->carried_dim] : 1, at = 0;
	uint16_t *of, *part;

	*ret = (struct ff_turns){.n = degree};
	if (degree == 1)
		return FF_OK;
	ret->of = of = ff_arena_array(a, c->n_parts, sizeof(*of));
	ret->part = part = ff_arena_array(a, c->n_parts, sizeof(*part));
	if (!of || !part)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < c->n_parts; p++) {
		uint32_t coord[FF_MAX_DIMS];

		ff_config_coords(n, c, p, coord);
		of[p] = (uint16_t)(n->carried_down ? degree - 1 - coord[n->carried_dim]
						   : coord[n->carried_dim]);
	}
	for (uint32_t turn = 0; turn < degree; turn++)
		for (uint32_t p = 0; p < c->n_parts; p++)
			if (of[p] == turn)
				part[at++] = (uint16_t)p;
	return FF_OK;
}

int ff_node_block_place(const struct ff_node *n, const struct ff_config *c,
		const struct ff_placement *place, struct ff_arena *a, struct ff_node_block *ret,
		struct ff_error *err)
{
	struct ff_node_block b = {.n_parts = c->n_parts, .in = place, .out = place + n->n_in};
	uint16_t *device = ff_arena_array(a, c->n_parts, sizeof(*device));
	uint64_t *key = ff_arena_array(a, n->n_in, sizeof(*key)), devices;
	int code;

	if (!device || !key)
		return ff_fail_memory(err);
	ff_config_devices(n, c, device);
	devices = ff_fnv1a(device, c->n_parts * sizeof(*device));
	for (uint32_t i = 0; i < n->n_in; i++)
		key[i] = key_of(&place[i], devices);
	b.device = device;
	b.key = key;
	code = group_weights(n, a, &b, err);
	if (code == FF_OK)
		code = find_turns(n, c, a, &b.turns, err);
	if (code == FF_OK)
		*ret = b;
	return code;
}

int ff_node_block_build(const struct ff_graph *g, uint32_t node, const struct ff_config *c,
		struct ff_arena *a, struct ff_node_block *ret, struct ff_error *err)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_placement *place = ff_arena_array(a, n->n_in + n->n_out, sizeof(*place));
	int code = place ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < n->n_in && code == FF_OK; i++)
		code = ff_placement_build(n, &n->in_map[i], c, a, &place[i], err);
	for (uint32_t i = 0; i < n->n_out && code == FF_OK; i++)
		code = ff_placement_build(n, &n->out_map[i], c, a, &place[n->n_in + i], err);
	return code == FF_OK ? ff_node_block_place(n, c, place, a, ret, err) : code;
}

/* Every part of the consumer reads what it needs from the data set itself. */
static int build_loads(const struct ff_side *sink, struct ff_arena *a,
		struct ff_redistribution *ret, struct ff_error *err)
{
	uint32_t parts = sink->place->n_parts, n = 0;
	struct ff_move *move = ff_arena_array(a, parts, sizeof(*move));
	uint32_t *alias = ff_arena_array(a, parts, sizeof(*alias));
	uint16_t *part = ff_arena_array(a, parts, sizeof(*part));
	bool *fill = ff_arena_array(a, 1, sizeof(*fill));
	int64_t *stage = ff_arena_array(a, 1, sizeof(*stage));

	if (!move || !alias || !part || !fill || !stage)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < parts; i++) {
		struct ff_region r;

		alias[i] = FF_NONE;
		part[i] = (uint16_t)i;
		ff_placement_region(sink->place, i, &r);
		if (!ff_region_volume(&r))
			continue;
		move[n++] = (struct ff_move){.kind = FF_MOVE_LOAD,
				.type = sink->place->type,
				.n_devices = 1,
				.device = &sink->device[i],
				.n_sinks = 1,
				.sink = &part[i],
				.fill = fill,
				.region = r,
				.stage_bytes = stage,
				.copied_bytes = ff_placement_bytes(sink->place, i)};
	}
	*ret = (struct ff_redistribution){.n_moves = n, .move = move, .alias = alias};
	return FF_OK;
}

/* Moves of what is carried, in the order of the turns that they go to.  It comes from other parts;
 * what a part neither leaves nor finds is not its own. */
static int put_in_turn(const struct ff_node_block *b, enum ff_pass pass, struct ff_arena *a,
		struct ff_redistribution *r, struct ff_error *err)
{
	struct ff_move *move = ff_arena_array(a, r->n_moves, sizeof(*move));
	uint32_t *alias = ff_arena_array(a, b->n_parts, sizeof(*alias)), n = 0;

	if (!move || !alias)
		return ff_fail_memory(err);
	memset(alias, 0xff, b->n_parts * sizeof(*alias));
	r->alias = alias;
	for (uint32_t turn = 0; turn < b->turns.n; turn++)
		for (uint32_t i = 0; i < r->n_moves; i++)
			if (ff_turn_of(b, pass, r->move[i].sink[0]) == turn)
				move[n++] = r->move[i];
	r->move = move;
	return FF_OK;
}

int ff_edge_block_build_pass(const struct ff_edge_builder *b, const struct ff_edge_cut *cut,
		enum ff_pass pass, struct ff_redistribution *ret, struct ff_error *err)
{
	const struct ff_graph *g = b->g;
	const struct ff_edge *e = &g->edges[cut->edge];
	const struct ff_node_block *producer = cut->producer, *consumer = cut->consumer;
	bool back = pass == FF_BACKWARD;
	struct ff_side in = {&consumer->in[e->slot], consumer->device, back}, out;
	int code;

	*ret = (struct ff_redistribution){0};
	if (back && (!producer || !ff_edge_needs_grad(g, cut->edge)))
		return FF_OK;
	if (!producer)
		return build_loads(&in, b->move.a, ret, err);
	out = (struct ff_side){&producer->out[g->values[e->value].port], producer->device, back};
	if (back && ff_node_is_parameter(g, ff_edge_source(g, cut->edge)))
		in.codec = b->codec;
	code = back ? ff_redistribute(&b->move, &in, &out, cut->first_use, ret, err)
		    : ff_redistribute(&b->move, &out, &in, true, ret, err);
	if (code < 0 || !ff_edge_is_carried(g, cut->edge))
		return code;
	return put_in_turn(consumer, pass, b->move.a, ret, err);
}

int ff_edge_block_build(const struct ff_edge_builder *b, const struct ff_edge_cut *cut,
		struct ff_edge_block *ret, struct ff_error *err)
{
	struct ff_edge_block both;
	int code = ff_edge_block_build_pass(b, cut, FF_FORWARD, &both.forward, err);

	if (code == FF_OK)
		code = ff_edge_block_build_pass(b, cut, FF_BACKWARD, &both.backward, err);
	if (code == FF_OK)
		*ret = both;
	return code;
}

bool ff_edge_is_first_use(const struct ff_graph *g, const uint32_t *position, uint32_t edge)
{
	const struct ff_value *t = &g->values[g->edges[edge].value];

	if (!ff_edge_needs_grad(g, edge))
		return false;
	for (uint32_t i = 0; i < t->n_uses; i++) {
		uint32_t other = ff_value_use(g, t, i);

		if (ff_edge_needs_grad(g, other) &&
				ff_edge_is_visited_before(g, position, other, edge))
			return false;
	}
	return true;
}

bool ff_edge_completes(const struct ff_graph *g, const uint32_t *position, uint32_t edge)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];

	for (uint32_t u = 0; u < v->n_uses; u++)
		if (ff_edge_is_visited_before(g, position, edge, ff_value_use(g, v, u)))
			return false;
	return true;
}
