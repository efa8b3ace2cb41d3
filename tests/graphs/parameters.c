/* That parameters lie where they are read, and their gradients where they are summed.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parameters.h"

#include "check_main.h"

/* The shard of a part, which every cell has one of for each replica. */
static const struct ff_shard *shard_of(const struct ff_schedule *s, uint32_t param, uint32_t part)
{
	const struct ff_config *c = &s->config[param];
	const struct ff_shard *found = NULL;

	for (uint32_t i = 0; i < s->n_shards; i++) {
		const struct ff_bucket *b = &s->buckets[s->shards[i].bucket];

		for (uint32_t k = 0; k < b->n_devices && s->shards[i].node == param; k++)
			if (ff_shard_part(s->shards[i].cell, ff_config_cells(c), b->replica,
					    b->n_devices, k) == part) {
				ck_assert_ptr_null(found);
				found = &s->shards[i];
			}
	}
	ck_assert_ptr_nonnull(found);
	return found;
}

/* Buckets of replicas: each has the same shards at the same places, on devices of its own. */
static void check_replicas(const struct ff_schedule *s, uint32_t bucket)
{
	const struct ff_bucket *b = &s->buckets[bucket];
	uint32_t found = 0;

	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct ff_bucket *other = &s->buckets[i];
		bool alike = other->replicas == b->replicas && other->bytes == b->bytes &&
			     other->n_shards == b->n_shards && other->n_devices == b->n_devices &&
			     other->synced == b->synced && other->flat == b->flat;

		for (uint32_t k = 0; k < b->n_shards && alike; k++) {
			const struct ff_shard *x = &s->shards[b->first_shard + k];
			const struct ff_shard *y = &s->shards[other->first_shard + k];

			alike = x->node == y->node && x->cell == y->cell && x->offset == y->offset;
		}
		if (!alike)
			continue;
		ck_assert(i == bucket || other->replica != b->replica);
		for (uint32_t d = 0; d < b->n_devices && i != bucket; d++)
			for (uint32_t k = 0; k < b->n_devices; k++)
				ck_assert_uint_ne(b->device[d], other->device[k]);
		found++;
	}
	ck_assert_uint_eq(found, b->replicas);
}

/* A part of a parameter lies in its bucket, on its device: the elements where the
 * shard is, the gradient one bucket's length behind. */
static void check_part(const struct ff_schedule *s, uint32_t param, uint32_t part)
{
	const struct ff_node *n = &s->graph->nodes[param];
	const struct ff_shard *shard = shard_of(s, param, part);
	const struct ff_bucket *b = &s->buckets[shard->bucket];
	size_t own = (size_t)n->out * s->n_instances;
	const struct ff_buffer *out = &s->buffers[s->out[own][part]];
	const struct ff_buffer *dout = &s->buffers[s->dout[own][part]];
	uint32_t device = ff_config_device(n, &s->config[param], part), at = 0;
	struct ff_region box;

	ff_config_box(n, &s->config[param], part, &box);
	ck_assert(ff_region_equal(&box, &shard->region));
	while (at < b->n_devices && b->device[at] != device)
		at++;
	ck_assert_uint_lt(at, b->n_devices);
	for (int i = 0; i < 2; i++) {
		const struct ff_buffer *x = i ? dout : out;
		enum ff_dtype type = i ? FF_F32 : s->graph->dtype;
		int64_t size = ff_dtype_bytes(type), offset = shard->offset, run = b->bytes;

		/* weights, gradients and one state, then what is read in bfloat16; of a flat
		 * bucket a run of states, and of weights that nobody reads as they are */
		if (b->flat)
			run = b->bytes / b->runs;
		if (i)
			offset += s->graph->dtype == FF_F32 ? b->bytes : run;
		if (type == FF_BF16)
			offset = 2 * run + (b->scattered ? run : b->bytes) + shard->offset / 2;
		ck_assert_uint_eq(x->device, device);
		ck_assert_uint_eq(x->bucket, shard->bucket);
		ck_assert_int_eq(x->bytes, ff_align64(ff_region_volume(&box) * size));
		ck_assert_int_eq(i ? b->scattered : b->dropped, x->within != FF_NONE);
		if (x->within != FF_NONE)
			ck_assert_int_eq(x->offset,
					s->buffers[x->within].offset + shard->offset * size / 4);
		else
			ck_assert_int_eq(x->offset, b->offset[at] + offset);
	}
}

/* What a part of a reader has of a parameter: nothing where it reads nothing, the
 * whole part of the parameter on its device, or a copy that was moved. */
static void check_reader(
		const struct ff_schedule *s, uint32_t edge, uint32_t part, uint32_t *in_place)
{
	const struct ff_edge *e = &s->graph->edges[edge];
	const struct ff_node *n = &s->graph->nodes[e->node];
	size_t at = (size_t)edge * s->n_instances;
	uint32_t in = s->in[at][part], din = s->din[at][part], owner = 0;
	uint32_t param = s->graph->values[e->value].producer;
	struct ff_region box, have;
	struct ff_work w;

	ff_config_box(n, &s->config[e->node], part, &box);
	ff_work_fill(s->graph, e->node, &box, FF_BACKWARD, &w);
	ck_assert(w.need_din[e->slot]);
	ck_assert_int_eq(in != FF_NONE, ff_region_volume(&w.in[e->slot]) > 0);
	ck_assert_int_eq(din != FF_NONE, ff_region_volume(&w.in[e->slot]) > 0);
	if (in == FF_NONE)
		return;
	for (int i = 0; i < 2; i++) {
		const struct ff_buffer *x = &s->buffers[i ? din : in];
		int64_t size = ff_dtype_bytes(i ? FF_F32 : s->graph->dtype);
		const uint32_t *of = (i ? s->dout : s->out)[(size_t)e->value * s->n_instances];

		ck_assert_uint_eq(x->device, ff_config_device(n, &s->config[e->node], part));
		ck_assert_int_eq(x->bytes, ff_align64(ff_region_volume(&w.in[e->slot]) * size));
		if (x->bucket == FF_NONE)
			continue;
		for (owner = 0; of[owner] != (i ? din : in);)
			ck_assert_uint_lt(++owner, s->config[param].n_parts);
		ck_assert_uint_eq(
				ff_config_device(&s->graph->nodes[param], &s->config[param], owner),
				x->device);
		ff_config_box(&s->graph->nodes[param], &s->config[param], owner, &have);
		ck_assert(ff_region_equal(&have, &w.in[e->slot]));
		(*in_place)++;
	}
}

/* Whether a use of the value before number `u` is on the first device of that one. */
static bool is_beside_another(const struct ff_schedule *s, const struct ff_value *v, uint32_t u)
{
	uint32_t node = ff_value_reader(s->graph, v, u);
	uint32_t device = ff_config_device(&s->graph->nodes[node], &s->config[node], 0);

	for (uint32_t k = 0; k < u; k++) {
		uint32_t other = ff_value_reader(s->graph, v, k);

		for (uint32_t p = 0; p < s->config[other].n_parts; p++)
			if (ff_config_device(&s->graph->nodes[other], &s->config[other], p) ==
					device)
				return true;
	}
	return false;
}

/* A gradient that is added where it lies has been written there by an earlier task: by one of all
 * readers that have devices in common. */
static void check_accumulation(const struct ff_schedule *s, uint32_t value)
{
	const struct ff_value *v = &s->graph->values[value];
	bool synced = s->buckets[shard_of(s, v->producer, 0)->bucket].synced;
	uint32_t first = 0, apart = 0;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		first += !s->accumulate[ff_value_use(s->graph, v, u)];
		apart += !is_beside_another(s, v, u);
	}
	ck_assert_uint_eq(first, synced ? apart : v->n_uses);
}

void check_parameters(const struct ff_schedule *s, uint32_t *seen)
{
	const struct ff_graph *g = s->graph;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_value *v = &g->values[g->nodes[i].out];

		if (!ff_node_is_parameter(g, i))
			continue;
		for (uint32_t p = 0; p < s->config[i].n_parts; p++)
			check_part(s, i, p);
		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t edge = ff_value_use(g, v, u), in_place = 0;
			uint32_t parts = s->config[g->edges[edge].node].n_parts;

			for (uint32_t p = 0; p < parts; p++)
				check_reader(s, edge, p, &in_place);
			seen[in_place == 0]++;
		}
		check_accumulation(s, g->nodes[i].out);
		seen[2] += v->n_uses > 1 && s->buckets[shard_of(s, i, 0)->bucket].synced;
		seen[3] += v->n_uses > 1 && !s->buckets[shard_of(s, i, 0)->bucket].synced;
	}
	/* what is summed in its bucket moves in no other way */
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		uint32_t from = ff_task_moves_edge(t) ? ff_edge_source(g, t->edge) : 0;

		if (ff_task_moves_edge(t) && ff_node_is_parameter(g, from))
			ck_assert(!s->buckets[shard_of(s, from, 0)->bucket].synced);
		ck_assert(!ff_task_moves_bucket(t) || s->buckets[t->bucket].synced);
		ck_assert(!ff_task_moves_bucket(t) || ff_task_pass(t) == FF_BACKWARD ||
				s->buckets[t->bucket].flat);
	}
	for (uint32_t i = 0; i < s->n_shards; i++) {
		const struct ff_shard *x = &s->shards[i];
		int64_t bytes = ff_region_volume(&x->region) * FF_F32_BYTES;

		ck_assert_int_eq(x->offset % 64, 0);
		ck_assert_int_le(x->offset + bytes, s->buckets[x->bucket].bytes);
	}
	for (uint32_t i = 0; i < s->n_buckets; i++)
		check_replicas(s, i);
}
