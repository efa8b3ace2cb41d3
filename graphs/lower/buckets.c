/* Buckets of a schedule: which parameters each has, and the buffers of their shards.
 * SPDX-License-Identifier: Apache-2.0 */
#include "buckets.h"

#include "dropped.h"
#include "ff/bucket_layout.h"
#include "ff/instance.h"
#include "lower/memory/memory.h"
#include "updates.h"

/* Chunks of what is compressed are its own; gradients that wait do so where they were made. */
static struct ff_update_way update_way(const struct ff_lowering *l, uint32_t param)
{
	if (!l->param[param].synced)
		return (struct ff_update_way){0};
	if (ff_lowering_stays(l))
		return (struct ff_update_way){.synced = true,
				.flat = l->param[param].flat && !l->r.travel.codec,
				.runs = l->s->shards};
	return ff_param_way(
			l->g, l->s, &l->program, param, &l->s->config[param], l->param[param].flat);
}

int ff_buckets_gather(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_graph *g = l->g;
	int64_t bytes = l->opt && l->opt->bucket_bytes ? l->opt->bucket_bytes
			: l->s->bucket_bytes           ? l->s->bucket_bytes
						       : ff_bucket_bytes(g, l->m);
	const struct ff_block_graph blocks = ff_lowering_blocks(l);
	int code = ff_bucketing_init(&l->buckets, g, bytes, err);

	if (code < 0)
		return code;
	ff_bucketing_begin(&l->buckets);
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		uint32_t node = l->order[i];
		const struct ff_node *n = &g->nodes[node];

		for (uint32_t e = n->in + n->n_data; e < n->in + n->n_in && code == FF_OK; e++) {
			uint32_t param = ff_edge_source(g, e), count;
			const struct ff_weight_group *group;

			if (!ff_edge_completes(g, l->position, e))
				continue;
			if (l->param[param].synced)
				code = ff_readers_groups(&blocks, e, l->a, &group, &count, err);
			else
				group = ff_node_block_groups(l->node[param], FF_NONE, &count);
			if (code == FF_OK)
				code = ff_bucketing_add(&l->buckets, node, param, group, count,
						update_way(l, param), err);
		}
	}
	ff_bucketing_end(&l->buckets);
	ff_bucketing_open(&l->buckets, g, &l->program);
	return code;
}

/* The group of parameters, by the optimizer's settings, that `param` is in. */
static uint32_t group_of(const struct ff_lowering *l, uint32_t param)
{
	return l->opt && l->opt->group ? l->opt->group[param] : 0;
}

/* Where a shard lies among the arrays of its bucket, and where those are, in bytes. */
struct shard_places {
	int64_t weights, gradients, waiting;
	int64_t weight_bytes, gradient_bytes;
};

/* Buffers of part `part` of a shard: the weights that operators read, its gradients, and where
 * gradients wait, those that backward writes.  Of a dropped bucket weights, of a scattered one
 * gradients are parts of other buffers each time (dropped.c). */
static void pin_part(struct ff_lowering *l, const struct ff_shard *s, const struct shard_places *at,
		uint32_t part)
{
	const struct ff_bucket *b = &l->r.buckets[s->bucket];
	size_t value = (size_t)l->g->nodes[s->node].out * l->r.n_instances;
	uint32_t *const *out = (uint32_t *const *)&l->r.out[value];
	uint32_t *const *dout = (uint32_t *const *)&l->r.dout[value];
	uint32_t device = l->node[s->node]->device[part], weights = FF_NONE;

	if (!b->dropped)
		weights = ff_buffer_pin(l, device, s->bucket, at->weight_bytes, at->weights);
	for (uint32_t i = 0; i < l->r.n_instances; i++)
		if (out[i])
			out[i][part] = weights;
	for (uint32_t micro = 0; micro < (b->scattered ? l->s->micro_batches : 1); micro++)
		dout[2 * micro][part] = ff_buffer_pin(
				l, device, s->bucket, at->gradient_bytes, at->gradients);
	if (b->delay)
		dout[ff_schedule_due(&l->r)][part] = ff_buffer_pin(
				l, device, s->bucket, at->gradient_bytes, at->waiting);
}

/* A shard, `offset` bytes behind the first of its bucket, and its buffers on every device that has
 * it; `list` is where its rows are listed among others. */
static void add_shard(struct ff_lowering *l, uint32_t bucket, const struct ff_bucket_member *m,
		int64_t offset, int64_t list)
{
	const struct ff_bucket *b = &l->r.buckets[bucket];
	const struct ff_placement *out = l->node[m->param]->out;
	const struct ff_weight_group *g = m->group;
	int64_t volume = ff_region_volume(&g->region);
	struct ff_bucket_layout arrays = ff_bucket_arrays(b, l->r.optimizer, l->g->dtype);
	const struct shard_places at = {
			.weights = arrays.readers +
				   offset * ff_dtype_bytes(out->type) / FF_F32_BYTES,
			.gradients = b->scattered ? offset : arrays.gradients + offset,
			.waiting = ff_bucket_waiting(b, l->r.optimizer, l->g->dtype) + offset,
			.weight_bytes = volume * ff_dtype_bytes(out->type),
			.gradient_bytes = volume * FF_F32_BYTES};
	struct ff_shard *s = &l->r.shards[l->r.n_shards++];

	*s = (struct ff_shard){.node = m->param,
			.cell = g->cell,
			.bucket = bucket,
			.region = g->region,
			.offset = offset,
			.group = group_of(l, m->param),
			.sparse_rows = b->sparse.list_bytes > 0 ? g->sparse_rows : 0,
			.list = arrays.lists + list};
	for (uint32_t k = 0; k < g->n_devices && ff_lowering_has_buffers(l); k++)
		pin_part(l, s, &at,
				ff_shard_part(g->cell, out->cells, g->replica, g->n_devices, k));
}

/* Group by group, so that there is one update for each in a bucket. */
static void add_shards(struct ff_lowering *l, uint32_t bucket, const struct ff_bucket_build *k)
{
	const struct ff_bucket_member *member = l->buckets.member;
	int64_t at = 0, list = 0;

	for (uint32_t group = 0; group < FF_MAX_GROUPS && at < k->bytes; group++)
		for (uint32_t m = k->first; m != FF_NONE; m = member[m].next) {
			if (group_of(l, member[m].param) != group)
				continue;
			add_shard(l, bucket, &member[m], at, list);
			at += member[m].group->bytes;
			list += ff_sparse_list_bytes(member[m].group->sparse_rows);
		}
}

/* The bucket of the gradients' norm, behind all others. */
static int build_clip(struct ff_lowering *l, struct ff_error *err)
{
	struct ff_bucket *b = &l->r.buckets[l->r.n_buckets];
	uint16_t *device = ff_arena_array(l->a, l->m->n_devices, sizeof(*device));
	bool *updates = ff_arena_array(l->scratch, l->m->n_devices, sizeof(*updates));

	if (!device || !updates)
		return ff_fail_memory(err);
	*b = ff_updates_norm(l);
	b->device = device;
	b->first_shard = l->r.n_shards;
	for (uint32_t i = 0; i < l->r.n_buckets; i++)
		for (uint32_t d = 0; d < l->r.buckets[i].n_devices; d++)
			updates[l->r.buckets[i].device[d]] = true;
	for (uint32_t d = 0; d < l->m->n_devices; d++)
		if (updates[d])
			device[b->n_devices++] = (uint16_t)d;
	l->r.clip = l->r.n_buckets++;
	l->told.sync[l->r.clip] = FF_NONE;
	return FF_OK;
}

/* Room for what is compressed of a bucket, on each of its devices. */
static void reserve_packed(struct ff_lowering *l, const struct ff_bucket *b)
{
	int64_t n = b->bytes / FF_F32_BYTES;

	for (uint32_t d = 0; d < b->n_devices && b->codec; d++) {
		int64_t *most = &l->r.packed_bytes[b->device[d]];
		int64_t need = ff_codec_stage_bytes(b->codec, n, b->n_devices);

		*most = need > *most ? need : *most;
	}
}

int ff_buckets_build(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_bucketing *b = &l->buckets;

	l->r.n_buckets = b->n_buckets;
	l->r.buckets = ff_arena_array(l->a, b->n_buckets + 1, sizeof(*l->r.buckets));
	l->r.shards = ff_arena_array(l->a, b->n_members, sizeof(*l->r.shards));
	l->told.sync = ff_arena_array(l->scratch, b->n_buckets + 1, sizeof(*l->told.sync));
	l->told.delay = ff_arena_array(l->scratch, b->n_buckets + 1, sizeof(*l->told.delay));
	if (!l->r.buckets || !l->r.shards || !l->told.sync || !l->told.delay)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < b->n_buckets; i++) {
		const struct ff_bucket_build *k = &b->bucket[i];

		l->told.sync[i] = l->told.delay[i] = FF_NONE;
		l->r.buckets[i] = ff_updates_bucket(l, i);
		l->r.buckets[i].first_shard = l->r.n_shards;
		reserve_packed(l, &l->r.buckets[i]);
		if (k->way.scattered && ff_lowering_has_buffers(l) && ff_dropped_begin(l, i) < 0)
			return ff_fail_memory(err);
		add_shards(l, i, k);
		l->r.buckets[i].n_shards = l->r.n_shards - l->r.buckets[i].first_shard;
	}
	return ff_lowering_clips(l) ? build_clip(l, err) : FF_OK;
}
