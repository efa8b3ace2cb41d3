/* The evaluator's buckets: parameters gathered as ff_lower gathers them, for the current
 * strategy and, where it touches some, for a proposal.  SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "ff/bucket_layout.h"
#include "ff/grow.h"
#include "shortcuts/busy.h"

int ff_gathered_init(struct ff_gathered *b, const struct ff_graph *g, const struct ff_machine *m,
		int64_t bucket_bytes, struct ff_arena *a, struct ff_error *err)
{
	int code;

	ff_arena_init(&b->apart);
	b->adds = ff_arena_array(a, g->n_nodes, sizeof(*b->adds));
	b->busy = ff_arena_array(a, m->n_devices, sizeof(*b->busy));
	if (!b->adds || !b->busy)
		return ff_fail_memory(err);
	code = ff_bucketing_init(&b->synced, g, bucket_bytes, err);
	return code < 0 ? code : ff_bucketing_init(&b->brought, g, bucket_bytes, err);
}

void ff_gathered_limit(struct ff_gathered *b, int64_t bucket_bytes)
{
	b->synced.bucket_bytes = b->brought.bucket_bytes = bucket_bytes;
}

void ff_gathered_finish(struct ff_gathered *b)
{
	ff_bucketing_finish(&b->synced);
	ff_bucketing_finish(&b->brought);
	ff_arena_finish(&b->apart);
	free(b->timed);
}

/* Parameters that are synchronised. */
static int fill_synced(const struct ff_trial *e, struct ff_bucketing *b, struct ff_arena *apart,
		struct ff_error *err)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);
	int code = FF_OK;

	ff_arena_rewind(apart, (struct ff_arena_mark){0});
	ff_bucketing_begin(b);
	for (uint32_t i = 0; i < e->order.n_completing && code == FF_OK; i++) {
		const struct ff_param_use *use = &e->order.completing[i];
		const struct ff_weight_group *group = e->placed.shards[use->param].group;
		uint32_t n = e->placed.shards[use->param].n;

		if (!e->placed.synced[use->param])
			continue;
		if (!n)
			code = ff_readers_groups(&blocks, e->g->nodes[use->node].in + use->slot,
					apart, &group, &n, err);
		if (code == FF_OK)
			code = ff_bucketing_add(b, use->node, use->param, group, n,
					ff_param_way(e->g, &e->strategy, &e->order.program,
							use->param, ff_place_config(e, use->param),
							(enum ff_flat)e->placed.flat[use->param]),
					err);
	}
	ff_bucketing_end(b);
	ff_bucketing_open(b, e->g, &e->order.program);
	return code;
}

double ff_gathered_update_us(
		const struct ff_trial *e, const struct ff_bucket_build *k, uint32_t device)
{
	int64_t run = k->bytes / k->way.runs;

	return ff_price_update(e->p, device,
			ff_bucket_updated_bytes(ff_price_optimizer(e->p), run, &k->sparse));
}

/* Whether both take equally long. */
static bool is_priced_alike(const struct ff_bucket_build *a, const struct ff_bucket_build *b)
{
	return a->device == b->device && a->n_devices == b->n_devices && a->bytes == b->bytes &&
	       a->way.runs == b->way.runs && !memcmp(&a->sparse, &b->sparse, sizeof(a->sparse));
}

/* Number `i` of `b` as one of `was` is priced, from number *at on, if it is alike: most are, and in
 * the same order, but for some that are new or gone. */
static bool price_as_was(
		struct ff_gathered *b, uint32_t i, const struct ff_gathered *was, uint32_t *at)
{
	uint32_t n = was->holds_synced ? was->synced.n_buckets : 0;

	for (uint32_t k = *at; k < *at + 2 && k < n; k++)
		if (is_priced_alike(&b->synced.bucket[i], &was->synced.bucket[k])) {
			b->timed[i] = was->timed[k];
			*at = k + 1;
			return true;
		}
	return false;
}

static int gather_synced(const struct ff_trial *e, struct ff_gathered *b, struct ff_error *err)
{
	const struct ff_gathered *was = b == e->placed.now ? e->placed.next : e->placed.now;
	int code = fill_synced(e, &b->synced, &b->apart, err);
	uint32_t at = 0;

	if (code == FF_OK)
		code = ff_grow(&b->timed, b->synced.n_buckets, &b->cap_timed, sizeof(*b->timed),
				err);
	for (uint32_t i = 0; i < b->synced.n_buckets && code == FF_OK; i++) {
		const struct ff_bucket_build *k = &b->synced.bucket[i];

		if (price_as_was(b, i, was, &at))
			continue;
		b->timed[i].update_us = ff_gathered_update_us(e, k, k->device[0]);
		code = ff_memo_bucket(e->memo, k, &b->timed[i].price, err);
	}
	if (code == FF_OK)
		ff_busy_count_buckets(e, b);
	memset(b->adds, 0, e->g->n_nodes * sizeof(*b->adds));
	for (uint32_t i = 0; i < e->order.n_adding; i++)
		if (e->placed.synced[e->order.adding[i].param])
			b->adds[e->order.adding[i].node] = true;
	return code;
}

/* Shards of the others that lie on several devices each. */
static int gather_brought(const struct ff_trial *e, struct ff_bucketing *b, struct ff_error *err)
{
	int code = FF_OK;

	ff_bucketing_begin(b);
	for (uint32_t i = 0; i < e->order.n_completing && code == FF_OK; i++) {
		const struct ff_param_use *use = &e->order.completing[i];
		const struct ff_weight_group *group;
		uint32_t n;

		if (e->placed.synced[use->param] || !e->placed.node[use->param]->rest->shares)
			continue;
		group = ff_node_block_groups(e->placed.block[use->param], FF_NONE, &n);
		for (; n-- > 0 && code == FF_OK; group++)
			if (group->n_devices > 1)
				code = ff_bucketing_add(b, use->node, use->param, group, 1,
						(struct ff_update_way){.runs = 1}, err);
	}
	ff_bucketing_end(b);
	return code;
}

int ff_trial_gather(struct ff_trial *e, bool all, struct ff_gathered **ret, struct ff_error *err)
{
	struct ff_gathered *b = ff_trial_gathered(e);
	int code = FF_OK;

	if (!b->holds_synced)
		code = gather_synced(e, b, err);
	b->holds_synced = code == FF_OK;
	if (all && code == FF_OK && !b->holds_all) {
		code = gather_brought(e, &b->brought, err);
		b->holds_all = code == FF_OK;
	}
	*ret = b;
	return code;
}

void ff_gathered_forget(struct ff_gathered *b)
{
	b->holds_synced = b->holds_all = false;
}
