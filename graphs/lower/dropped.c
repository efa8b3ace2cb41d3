/* Buffers of buckets.  Gradients that are scattered have one on each device from the first that a
 * micro-batch writes until they are summed, weights that are dropped one for as long as it reads
 * them, forward and then again.  Shards are parts of these.  SPDX-License-Identifier: Apache-2.0 */
#include "dropped.h"

#include <string.h>

#include "emit.h"
#include "ff/instance.h"
#include "lower/memory/clocks.h"
#include "lower/memory/memory.h"

int ff_dropped_begin(struct ff_lowering *l, uint32_t bucket)
{
	struct ff_bucket *b = &l->r.buckets[bucket];
	size_t n = (size_t)l->s->micro_batches * b->n_devices;
	uint32_t *gradients = ff_arena_array(l->a, n, sizeof(*gradients));

	if (!gradients)
		return FF_E_NOMEM;
	memset(gradients, 0xff, n * sizeof(*gradients));
	b->gradients = gradients;
	return FF_OK;
}

/* Shards of instance `i` are parts of the buffers `all`, one a device. */
static void place_shards(struct ff_lowering *l, const struct ff_bucket *b, uint32_t bucket,
		const uint32_t *all, uint32_t i)
{
	for (uint32_t s = b->first_shard; s < b->first_shard + b->n_shards; s++) {
		const struct ff_shard *shard = &l->r.shards[s];
		const struct ff_node_block *nb = l->node[shard->node];
		uint32_t *out = ff_emit_list(l, l->r.out, l->g->nodes[shard->node].out, i);
		int64_t size = ff_dtype_bytes(nb->out->type);

		for (uint32_t k = 0; k < b->n_devices; k++) {
			uint32_t p = ff_shard_part(
					shard->cell, nb->out->cells, b->replica, b->n_devices, k);

			out[p] = ff_buffer_pin(l, nb->device[p], bucket,
					ff_region_volume(&shard->region) * size,
					shard->offset * size / FF_F32_BYTES);
			if (out[p] != FF_NONE)
				l->r.buffers[out[p]].within = all[ff_device_index(
						b->device, b->n_devices, nb->device[p])];
		}
	}
}

void ff_dropped_place(struct ff_lowering *l, struct ff_task *t)
{
	const struct ff_bucket *b = &l->r.buckets[t->bucket];
	int64_t bytes = b->bytes / FF_F32_BYTES * ff_dtype_bytes(l->g->dtype);
	uint32_t node = l->r.shards[b->first_shard].node, all[FF_MAX_DEVICES];

	t->stage = l->r.n_buffers; /* where all devices are lowered */
	for (uint32_t d = 0; d < b->n_devices; d++) {
		all[d] = ff_buffer_new(l, b->device[d], bytes);
		ff_buffer_use(l, all[d]);
	}
	place_shards(l, b, t->bucket, all,
			ff_schedule_instance(
					&l->r, node, t->micro, t->phase == FF_PHASE_RECOMPUTE));
}

void ff_dropped_write(struct ff_lowering *l, uint32_t gradient)
{
	struct ff_buffer *x = gradient == FF_NONE ? NULL : &l->r.buffers[gradient];
	const struct ff_bucket *b;
	uint32_t *all;

	if (!x || x->bucket == FF_NONE || x->bucket == FF_KEPT || x->within != FF_NONE)
		return;
	b = &l->r.buckets[x->bucket];
	if (!b->scattered)
		return;
	all = (uint32_t *)ff_bucket_gradients(b, l->r.tasks[l->r.n_tasks - 1].micro) +
	      ff_device_index(b->device, b->n_devices, x->device);
	if (*all == FF_NONE)
		*all = ff_buffer_new(l, x->device, b->bytes);
	x->within = *all;
}

void ff_dropped_take(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_bucket *b = &l->r.buckets[t->bucket];

	for (uint32_t d = 0; d < b->n_devices; d++)
		ff_buffer_use(l, ff_bucket_gradients(b, t->micro)[d]);
}
