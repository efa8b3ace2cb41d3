/* Node and edge blocks.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"

#include <string.h>

#include "ff/hash.h"

static bool leads(const struct ff_node *n, const struct ff_config *c, uint32_t part)
{
	uint32_t coord[FF_MAX_RANK];

	ff_config_coords(n, c, part, coord);
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_REDUCTION && coord[d])
			return false;
	return true;
}

static void insert_device(uint16_t *list, uint32_t n, uint16_t device)
{
	while (n && list[n - 1] > device) {
		list[n] = list[n - 1];
		n--;
	}
	list[n] = device;
}

/* Parts that hold the same region of weight `w` form a group.  A weight is cut
 * by dims of its own alone, so two regions are equal or disjoint. */
static int group_weight(const struct ff_node *n, const struct ff_config *c, uint32_t w,
		struct ff_arena *a, struct ff_node_block *b, struct ff_weight_group *group,
		uint32_t *weight_group, struct ff_error *err)
{
	const struct ff_operand *map = &n->weight[w].map;
	uint32_t first = b->n_groups;

	for (uint32_t p = 0; p < c->n_parts; p++) {
		struct ff_region box, r;
		uint32_t i = first;

		weight_group[p * FF_MAX_WEIGHTS + w] = FF_NONE;
		if (map->lead_only && !leads(n, c, p))
			continue;
		ff_config_box(n, c, p, &box);
		ff_operand_region(map, &box, &r);
		while (i < b->n_groups && !ff_region_equal(&group[i].region, &r))
			i++;
		if (i == b->n_groups) {
			group[i] = (struct ff_weight_group){.weight = w, .region = r};
			group[i].bytes = ff_align64(ff_region_volume(&r) * FF_ELEMENT_BYTES);
			group[i].device = ff_arena_array(a, c->n_parts - p, sizeof(uint16_t));
			if (!group[i].device)
				return ff_fail_memory(err);
			b->n_groups++;
		}
		insert_device((uint16_t *)group[i].device, group[i].n_devices++, c->device[p]);
		weight_group[p * FF_MAX_WEIGHTS + w] = i;
	}
	for (uint32_t i = first; i < b->n_groups; i++)
		group[i].set = ff_fnv1a(
				group[i].device, group[i].n_devices * sizeof(*group[i].device));
	return FF_OK;
}

int ff_node_block_build(const struct ff_graph *g, uint32_t node, const struct ff_config *c,
		struct ff_arena *a, struct ff_node_block *ret, struct ff_error *err)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_node_block b = {.n_parts = c->n_parts, .device = c->device, .out_disjoint = true};
	size_t parts = c->n_parts, slots = n->n_in;
	struct ff_region *out = ff_arena_array(a, parts, sizeof(*out));
	struct ff_region *in = ff_arena_array(a, parts * slots, sizeof(*in));
	struct ff_weight_group *group = ff_arena_array(a, parts * n->n_weights, sizeof(*group));
	uint32_t *weight_group = ff_arena_array(a, parts * FF_MAX_WEIGHTS, sizeof(uint32_t));
	int code = FF_OK;

	b.in = ff_arena_array(a, slots, sizeof(*b.in));
	if (!out || !in || !group || !weight_group || !b.in)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < c->n_parts; p++) {
		struct ff_region box;

		ff_config_box(n, c, p, &box);
		ff_operand_region(&n->out_map, &box, &out[p]);
		for (uint32_t i = 0; i < n->n_in; i++)
			ff_operand_region(&n->in_map[i], &box, &in[i * parts + p]);
	}
	for (uint32_t i = 0; i < n->n_in; i++)
		b.in[i] = in + i * parts;
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_REDUCTION && c->degree[d] > 1)
			b.out_disjoint = false;
	for (uint32_t w = 0; w < n->n_weights && code == FF_OK; w++)
		code = group_weight(n, c, w, a, &b, group, weight_group, err);
	b.out = out;
	b.group = group;
	b.weight_group = weight_group;
	if (code == FF_OK)
		*ret = b;
	return code;
}

/* Every part of the consumer reads what it needs from the data set itself. */
static int build_loads(const struct ff_side *sink, struct ff_arena *a,
		struct ff_redistribution *ret, struct ff_error *err)
{
	struct ff_move *move = ff_arena_array(a, sink->n, sizeof(*move));
	uint32_t *alias = ff_arena_array(a, sink->n, sizeof(*alias));
	uint16_t *part = ff_arena_array(a, sink->n, sizeof(*part));
	bool *fill = ff_arena_array(a, 1, sizeof(*fill));
	int64_t *stage = ff_arena_array(a, 1, sizeof(*stage));
	uint32_t n = 0;

	if (!move || !alias || !part || !fill || !stage)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < sink->n; i++) {
		alias[i] = FF_NONE;
		part[i] = (uint16_t)i;
		if (!ff_region_volume(&sink->region[i]))
			continue;
		move[n++] = (struct ff_move){.kind = FF_MOVE_LOAD,
				.n_devices = 1,
				.device = &sink->device[i],
				.n_sinks = 1,
				.sink = &part[i],
				.fill = fill,
				.region = sink->region[i],
				.stage_bytes = stage,
				.copied_bytes = ff_region_volume(&sink->region[i]) *
						FF_ELEMENT_BYTES};
	}
	*ret = (struct ff_redistribution){.n_moves = n, .move = move, .alias = alias};
	return FF_OK;
}

int ff_edge_block_build(const struct ff_graph *g, uint32_t edge, bool first_use,
		const struct ff_node_block *producer, const struct ff_node_block *consumer,
		struct ff_arena *a, struct ff_arena *scratch, struct ff_edge_block *ret,
		struct ff_error *err)
{
	const struct ff_edge *e = &g->edges[edge];
	struct ff_side in = {.n = consumer->n_parts,
			.region = consumer->in[e->slot],
			.device = consumer->device};
	struct ff_edge_block b = {0};
	int code;

	if (!producer) {
		code = build_loads(&in, a, &b.forward, err);
	} else {
		struct ff_side out = {.n = producer->n_parts,
				.region = producer->out,
				.device = producer->device,
				.disjoint = producer->out_disjoint};

		code = ff_redistribute(&out, &in, true, a, scratch, &b.forward, err);
		if (code == FF_OK && g->tensors[e->tensor].needs_grad)
			code = ff_redistribute(&in, &out, first_use, a, scratch, &b.backward, err);
	}
	if (code == FF_OK)
		*ret = b;
	return code;
}

bool ff_edge_is_first_use(const struct ff_graph *g, const uint32_t *position, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[edge];
	const struct ff_tensor *t = &g->tensors[e->tensor];

	for (uint32_t i = 0; i < t->n_uses; i++) {
		uint32_t other = g->uses[t->first_use + i];
		uint32_t node = g->edges[other].node;

		if (position[node] > position[e->node] || (node == e->node && other < edge))
			return false;
	}
	return true;
}

uint32_t ff_transfer_lanes(const struct ff_machine *m, uint32_t n_devices, const uint16_t *device,
		uint32_t *lane)
{
	uint32_t n = 0, first = n_devices ? m->node_of[device[0]] : 0, inside = 0;
	bool crosses = n_devices && m->node_of[device[n_devices - 1]] != first;

	for (uint32_t i = 0; i < n_devices; i++)
		lane[n++] = ff_lane(m, FF_LANE_COMM, device[i]);
	for (uint32_t i = 0; i < n_devices; i++) {
		uint32_t node = m->node_of[device[i]];
		bool last = i + 1 == n_devices || m->node_of[device[i + 1]] != node;

		inside++;
		if (!last)
			continue;
		if (m->nodes[node].inside.shared && inside > 1)
			lane[n++] = ff_lane(m, FF_LANE_INSIDE, node);
		if (crosses)
			lane[n++] = ff_lane(m, FF_LANE_NETWORK, node);
		inside = 0;
	}
	return n;
}
