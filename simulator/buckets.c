/* The evaluator's buckets: parameters gathered as ff_lower gathers them, for the current
 * strategy and, where it touches some, for a proposal.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

int ff_gathered_init(struct ff_gathered *b, const struct ff_graph *g, int64_t bucket_bytes,
		struct ff_arena *a, struct ff_error *err)
{
	b->adds = ff_arena_array(a, g->n_nodes, sizeof(*b->adds));
	if (!b->adds)
		return ff_fail_memory(err);
	return ff_bucketing_init(&b->buckets, g->n_nodes, bucket_bytes, err);
}

void ff_gathered_finish(struct ff_gathered *b)
{
	ff_bucketing_finish(&b->buckets);
	free(b->timed);
}

/* The parameters that `node`, in reverse order, is the last to give gradients. */
static int complete_params(const struct ff_evaluator *e, struct ff_gathered *b, uint32_t node,
		bool synced_only, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[node];
	int code = FF_OK;

	for (uint32_t i = n->n_data; i < n->n_in && code == FF_OK; i++) {
		uint32_t param = ff_edge_source(e->g, n->in + i), count;
		bool synced = e->synced[param];
		const struct ff_memo_node *owner = e->node[synced ? node : param];
		const struct ff_weight_group *group;

		if (!e->completes[n->in + i] || (synced_only && !synced))
			continue;
		group = ff_node_block_groups(&owner->block, synced ? i : FF_NONE, &count);
		code = ff_bucketing_add(&b->buckets, node, param, group, count, synced, err);
	}
	return code;
}

static int price(const struct ff_evaluator *e, struct ff_gathered *b, struct ff_error *err)
{
	if (b->buckets.n_buckets > b->cap) {
		uint32_t cap = 2 * b->buckets.n_buckets;
		struct ff_timed_bucket *grown = realloc(b->timed, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		b->timed = grown;
		b->cap = cap;
	}
	for (uint32_t i = 0; i < b->buckets.n_buckets; i++) {
		const struct ff_bucket_build *k = &b->buckets.bucket[i];

		b->timed[i].update_us = ff_price_update(e->p, k->device[0], k->bytes);
		if (k->synced)
			b->timed[i].sync_us =
					ff_price_sync(e->p, k->n_devices, k->device, k->bytes);
	}
	return FF_OK;
}

static int gather(const struct ff_evaluator *e, struct ff_gathered *b, struct ff_error *err)
{
	int code = FF_OK;

	ff_bucketing_begin(&b->buckets);
	memset(b->adds, 0, e->g->n_nodes * sizeof(*b->adds));
	for (uint32_t i = 0; i < e->n_closing && code == FF_OK; i++) {
		const struct ff_node *n = &e->g->nodes[e->closing[i]];

		code = complete_params(e, b, e->closing[i], false, err);
		for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
			if (ff_evaluator_adds(e, k, 0))
				b->adds[e->closing[i]] = true;
	}
	ff_bucketing_end(&b->buckets);
	return code == FF_OK ? price(e, b, err) : code;
}

int ff_evaluator_gather_synced(
		const struct ff_evaluator *e, struct ff_gathered *b, struct ff_error *err)
{
	int code = FF_OK;

	ff_bucketing_begin(&b->buckets);
	for (uint32_t i = 0; i < e->n_closing && code == FF_OK; i++)
		code = complete_params(e, b, e->closing[i], true, err);
	return code == FF_OK ? price(e, b, err) : code;
}

int ff_evaluator_gather(struct ff_evaluator *e, struct ff_gathered **ret, struct ff_error *err)
{
	struct ff_gathered *b = e->rebuckets ? e->next : e->now;
	int code = b->holds ? FF_OK : gather(e, b, err);

	b->holds = code == FF_OK;
	*ret = b;
	return code;
}
