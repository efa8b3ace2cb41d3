/* Buckets: shards of parameters that live on the same devices are gathered in the
 * order in which backward completes their gradients, so that one all-reduce and one
 * update serve many small tensors and start while backward goes on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"

#include <stdlib.h>
#include <string.h>

int ff_bucketing_init(struct ff_bucketing *b, uint32_t n_nodes, int64_t bucket_bytes,
		struct ff_error *err)
{
	*b = (struct ff_bucketing){.n_nodes = n_nodes};
	b->bucket_bytes = bucket_bytes > 0 ? bucket_bytes : FF_BUCKET_BYTES;
	b->first_at = malloc((n_nodes ? n_nodes : 1) * sizeof(*b->first_at));
	return b->first_at ? FF_OK : ff_fail_memory(err);
}

void ff_bucketing_finish(struct ff_bucketing *b)
{
	free(b->bucket);
	free(b->member);
	free(b->first_at);
	free(b->newest);
	ff_table_finish(&b->sets);
}

void ff_bucketing_begin(struct ff_bucketing *b)
{
	b->n_buckets = b->n_members = b->n_sets = 0;
	memset(b->first_at, 0xff, b->n_nodes * sizeof(*b->first_at));
	ff_table_clear(&b->sets);
}

static int reserve(struct ff_bucketing *b, struct ff_error *err)
{
	uint32_t cap = b->cap ? 2 * b->cap : 256;
	struct ff_bucket_member *member;
	struct ff_bucket_build *bucket;
	uint32_t *newest;

	if (b->n_members < b->cap)
		return FF_OK;
	member = realloc(b->member, cap * sizeof(*member));
	if (member)
		b->member = member;
	bucket = realloc(b->bucket, cap * sizeof(*bucket));
	if (bucket)
		b->bucket = bucket;
	newest = realloc(b->newest, cap * sizeof(*newest));
	if (newest)
		b->newest = newest;
	if (!member || !bucket || !newest)
		return ff_fail_memory(err);
	b->cap = cap;
	return FF_OK;
}

static bool is_of(const struct ff_bucketing *b, uint32_t set, const struct ff_weight_group *g,
		bool synced)
{
	const struct ff_bucket_build *k = &b->bucket[b->newest[set]];

	return k->synced == synced && k->n_devices == g->n_devices &&
	       !memcmp(k->device, g->device, g->n_devices * sizeof(*g->device));
}

static bool is_single(const struct ff_weight_group *g, bool synced)
{
	return !synced && g->n_devices == 1;
}

/* The set of devices that `g` lies on, or FF_NONE. */
static uint32_t find_set(const struct ff_bucketing *b, const struct ff_weight_group *g, bool synced)
{
	uint32_t at, i;

	if (is_single(g, synced)) {
		i = b->single[g->device[0]];
		return i < b->n_sets && is_of(b, i, g, synced) ? i : FF_NONE;
	}
	for (i = ff_table_first(&b->sets, g->set + synced, &at); i != FF_NONE;
			i = ff_table_next(&b->sets, g->set + synced, &at))
		if (is_of(b, i, g, synced))
			break;
	return i;
}

/* The newest bucket of the group's devices, opened anew when it is full. */
static struct ff_bucket_build *open_bucket(
		struct ff_bucketing *b, const struct ff_weight_group *g, bool synced)
{
	uint32_t set = find_set(b, g, synced);
	struct ff_bucket_build *k;

	if (set != FF_NONE && b->bucket[b->newest[set]].open)
		return &b->bucket[b->newest[set]];
	if (set == FF_NONE) {
		set = b->n_sets++;
		if (is_single(g, synced))
			b->single[g->device[0]] = set;
		else if (ff_table_put(&b->sets, g->set + synced, set) < 0)
			return NULL;
	}
	b->newest[set] = b->n_buckets;
	k = &b->bucket[b->n_buckets++];
	*k = (struct ff_bucket_build){.synced = synced,
			.open = true,
			.n_devices = g->n_devices,
			.device = g->device,
			.first = FF_NONE};
	return k;
}

int ff_bucketing_add(struct ff_bucketing *b, uint32_t node, uint32_t param,
		const struct ff_weight_group *group, uint32_t n, bool synced, struct ff_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		struct ff_bucket_build *k;
		int code = reserve(b, err);

		if (code < 0)
			return code;
		k = open_bucket(b, &group[i], synced);
		if (!k)
			return ff_fail_memory(err);
		b->member[b->n_members] = (struct ff_bucket_member){.param = param,
				.cell = i,
				.group = &group[i],
				.next = FF_NONE,
				.offset = k->bytes};
		if (k->first == FF_NONE)
			k->first = b->n_members;
		else
			b->member[k->last].next = b->n_members;
		k->last = b->n_members++;
		k->close = node;
		k->bytes += group[i].bytes;
		k->open = k->bytes < b->bucket_bytes;
	}
	return FF_OK;
}

void ff_bucketing_end(struct ff_bucketing *b)
{
	/* pushed from the last, so that a node's buckets come out in their order */
	for (uint32_t i = b->n_buckets; i-- > 0;) {
		struct ff_bucket_build *k = &b->bucket[i];

		k->next_at = b->first_at[k->close];
		b->first_at[k->close] = i;
	}
}
