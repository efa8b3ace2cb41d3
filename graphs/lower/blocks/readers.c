/* Readers of a parameter: whether the gradients that all of them make can be summed where they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/readers.h"

#include <stdlib.h>
#include <string.h>

#include "ff/bucket.h"
#include "ff/hash.h"

static const struct ff_edge *use_of(
		const struct ff_block_graph *b, const struct ff_value *v, uint32_t u)
{
	return &b->g->edges[ff_value_use(b->g, v, u)];
}

static const struct ff_value *value_of(const struct ff_graph *g, uint32_t param)
{
	return &g->values[g->nodes[param].out];
}

static uint64_t key_of(const struct ff_block_graph *b, const struct ff_edge *e)
{
	return b->block[e->node]->key[e->slot];
}

/* Whether use `u` reads as no use before it does. */
static bool is_first_alike(const struct ff_block_graph *b, const struct ff_value *v, uint32_t u)
{
	uint64_t key = key_of(b, use_of(b, v, u));

	for (uint32_t k = 0; k < u; k++)
		if (key_of(b, use_of(b, v, k)) == key)
			return false;
	return true;
}

/* Whether two cut what they read into the same cells, in as many replicas. */
static bool is_cut_alike(const struct ff_placement *a, const struct ff_placement *b)
{
	bool alike = a->replicas == b->replicas && !a->idle && !b->idle;

	for (uint32_t i = 0; i < a->rank && alike; i++) {
		size_t bytes = a->axis[i].n * sizeof(*a->axis[i].lo);

		alike = a->axis[i].n == b->axis[i].n &&
			!memcmp(a->axis[i].lo, b->axis[i].lo, bytes) &&
			!memcmp(a->axis[i].hi, b->axis[i].hi, bytes);
	}
	return alike;
}

/* Takes the devices of the block for use `u`; false if some are taken. */
static bool take(const struct ff_node_block *b, uint32_t u, uint32_t *taken)
{
	bool free = true;

	for (uint32_t p = 0; p < b->n_parts && free; p++) {
		free = taken[b->device[p]] == FF_NONE;
		taken[b->device[p]] = u;
	}
	return free;
}

/* Whether those that do not read alike are on other devices, and cut it alike. */
static bool are_apart(const struct ff_block_graph *b, const struct ff_value *v)
{
	const struct ff_edge *first = use_of(b, v, 0);
	const struct ff_placement *cut = &b->block[first->node]->in[first->slot];
	uint32_t taken[FF_MAX_DEVICES];
	bool apart = true;

	memset(taken, 0xff, sizeof(taken));
	for (uint32_t u = 0; u < v->n_uses && apart; u++) {
		const struct ff_edge *e = use_of(b, v, u);
		const struct ff_node_block *reader = b->block[e->node];
		uint32_t there = taken[reader->device[0]];

		if (there != FF_NONE)
			apart = key_of(b, use_of(b, v, there)) == key_of(b, e);
		else
			apart = is_cut_alike(cut, &reader->in[e->slot]) && take(reader, u, taken);
	}
	return apart;
}

enum ff_readers ff_readers_find(const struct ff_block_graph *b, uint32_t param)
{
	const struct ff_value *v = value_of(b->g, param);
	uint64_t key = key_of(b, use_of(b, v, 0));

	for (uint32_t u = 1; u < v->n_uses; u++)
		if (key_of(b, use_of(b, v, u)) != key)
			return are_apart(b, v) ? FF_READERS_APART : FF_READERS_MIXED;
	return FF_READERS_ALIKE;
}

/* ---- elements that readers apart have ---- */

static int by_number(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

/* Devices of group number `i` of all readers, those that read alike once: how many, and, unless it
 * is NULL, into `device`. */
static uint32_t list_devices(const struct ff_block_graph *b, const struct ff_value *v, uint32_t i,
		uint16_t *device)
{
	uint32_t n = 0, ignored;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		const struct ff_edge *e = use_of(b, v, u);
		const struct ff_weight_group *own;

		if (!is_first_alike(b, v, u))
			continue;
		own = ff_node_block_groups(b->block[e->node], e->slot, &ignored) + i;
		if (device)
			memcpy(device + n, own->device, own->n_devices * sizeof(*device));
		n += own->n_devices;
	}
	return n;
}

/* Group number `i` of the first reader, on the devices of all. */
static int unite(const struct ff_block_graph *b, const struct ff_value *v, uint32_t i,
		struct ff_arena *a, struct ff_weight_group *ret, struct ff_error *err)
{
	const struct ff_edge *e = use_of(b, v, 0);
	uint32_t n = list_devices(b, v, i, NULL), ignored;
	uint16_t *device = ff_arena_array(a, n, sizeof(*device));

	if (!device)
		return ff_fail_memory(err);
	list_devices(b, v, i, device);
	*ret = ff_node_block_groups(b->block[e->node], e->slot, &ignored)[i];
	ret->n_devices = (uint16_t)n;
	qsort(device, ret->n_devices, sizeof(*device), by_number);
	ret->slot = FF_NONE;
	ret->device = device;
	ret->part = NULL;
	ret->in_line = false;
	ret->first = device[0];
	ret->set = ff_fnv1a(device, ret->n_devices * sizeof(*device));
	return FF_OK;
}

int ff_readers_groups(const struct ff_block_graph *b, uint32_t edge, struct ff_arena *a,
		const struct ff_weight_group **ret, uint32_t *n, struct ff_error *err)
{
	const struct ff_edge *e = &b->g->edges[edge];
	const struct ff_value *v = &b->g->values[e->value];
	struct ff_weight_group *group;
	int code = FF_OK;

	*ret = ff_node_block_groups(b->block[e->node], e->slot, n);
	if (ff_readers_find(b, v->producer) == FF_READERS_ALIKE)
		return FF_OK;
	group = ff_arena_array(a, *n, sizeof(*group));
	if (!group)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < *n && code == FF_OK; i++)
		code = unite(b, v, i, a, &group[i], err);
	/* buckets of replicas go together: their sets are of the devices of all */
	for (uint32_t i = 0, replicas = group->replicas; i < *n && code == FF_OK && replicas > 1;
			i += replicas) {
		uint64_t set = 0;

		for (uint32_t r = 0; r < replicas; r++)
			set = ff_hash_mix(set, group[i + r].set);
		for (uint32_t r = 0; r < replicas; r++)
			group[i + r].set = set;
	}
	*ret = group;
	return code;
}

void ff_readers_follow(const struct ff_weight_group *group, uint32_t n, uint16_t *list,
		struct ff_config *c)
{
	uint32_t cells = n / group->replicas;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < group[i].n_devices; k++)
			list[ff_shard_part(group[i].cell, cells, group[i].replica,
					group[i].n_devices, k)] = group[i].device[k];
	c->list = list;
	c->replicas = (uint16_t)(group->replicas * group->n_devices);
	c->n_parts = cells * c->replicas;
}

/* ---- gradients ---- */

bool ff_reader_adds(const struct ff_block_graph *b, uint32_t edge)
{
	const struct ff_graph *g = b->g;
	const struct ff_edge *e = &g->edges[edge];
	const struct ff_value *v = &g->values[e->value];
	uint64_t key = key_of(b, e);

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = ff_value_use(g, v, u);

		if (other != edge && ff_edge_needs_grad(g, other) &&
				key_of(b, &g->edges[other]) == key &&
				ff_edge_is_visited_before(g, b->position, other, edge))
			return true;
	}
	return false;
}
