/* Weight synchronisation: gradients that live on the same devices are gathered
 * into buckets in the order that backward makes them, so that one all-reduce
 * serves many small tensors and starts while backward goes on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"

#include <string.h>

int ff_bucketing_create(uint32_t n_nodes, uint32_t max_members, struct ff_arena *a,
		struct ff_bucketing *ret, struct ff_error *err)
{
	struct ff_bucketing b = {0};

	b.bucket = ff_arena_array(a, max_members, sizeof(*b.bucket));
	b.member = ff_arena_array(a, max_members, sizeof(*b.member));
	b.first_at = ff_arena_array(a, n_nodes, sizeof(*b.first_at));
	if (!b.bucket || !b.member || !b.first_at)
		return ff_fail_memory(err);
	*ret = b;
	return FF_OK;
}

static struct ff_bucket_build *open_bucket(struct ff_bucketing *b, const struct ff_weight_group *g)
{
	struct ff_bucket_build *k;

	/* the newest bucket of a set is the open one */
	for (uint32_t i = b->n_buckets; i-- > 0;) {
		k = &b->bucket[i];
		if (k->set == g->set && k->n_devices == g->n_devices &&
				!memcmp(k->device, g->device, g->n_devices * sizeof(*g->device))) {
			if (k->open)
				return k;
			break;
		}
	}
	k = &b->bucket[b->n_buckets++];
	*k = (struct ff_bucket_build){.n_devices = g->n_devices,
			.device = g->device,
			.set = g->set,
			.first = FF_NONE,
			.open = true};
	return k;
}

static void add_member(struct ff_bucketing *b, uint32_t node, uint32_t group,
		const struct ff_weight_group *g, int64_t bucket_bytes)
{
	struct ff_bucket_build *k = open_bucket(b, g);
	struct ff_bucket_member *m = &b->member[b->n_members];

	*m = (struct ff_bucket_member){.node = node,
			.group = group,
			.bucket = (uint32_t)(k - b->bucket),
			.next = FF_NONE,
			.offset = k->bytes};
	if (k->first == FF_NONE)
		k->first = b->n_members;
	else
		b->member[k->last].next = b->n_members;
	k->last = b->n_members++;
	k->close = node;
	k->bytes += g->bytes;
	if (k->bytes >= bucket_bytes)
		k->open = false;
}

void ff_bucketing_build(struct ff_bucketing *b, uint32_t n_nodes, const uint32_t *order,
		const struct ff_node_block *const *block, int64_t bucket_bytes)
{
	if (bucket_bytes <= 0)
		bucket_bytes = FF_BUCKET_BYTES;
	b->n_buckets = b->n_members = 0;
	for (uint32_t i = 0; i < n_nodes; i++)
		b->first_at[i] = FF_NONE;
	for (uint32_t i = n_nodes; i-- > 0;) {
		const struct ff_node_block *nb = block[order[i]];

		for (uint32_t g = 0; nb && g < nb->n_groups; g++)
			add_member(b, order[i], g, &nb->group[g], bucket_bytes);
	}
	/* pushed from the last, so that a node's buckets come out in their order */
	for (uint32_t i = b->n_buckets; i-- > 0;) {
		struct ff_bucket_build *k = &b->bucket[i];

		k->next_at = b->first_at[k->close];
		b->first_at[k->close] = i;
	}
}
