/* What buckets take, priced once: a strategy's are mostly alike, and a proposal leaves most as they
 * are.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/bucketing.h"
#include "ff/grow.h"
#include "memo.h"

/* What prices depend on. */
struct asked {
	uint32_t n_devices;
	const uint16_t *device;
	uint32_t runs;
	int64_t bytes;
};

static struct ff_memo_bucket *bucket_at(const struct ff_memo *t, uint32_t i)
{
	return &t->bucket[i / FF_MEMO_ROW][i % FF_MEMO_ROW];
}

static bool is_for(const struct ff_memo_bucket *b, const struct asked *a)
{
	return b->bytes == a->bytes && b->runs == a->runs && b->n_devices == a->n_devices &&
	       (b->device == a->device ||
			       !memcmp(b->device, a->device, a->n_devices * sizeof(*a->device)));
}

static void set_price(const struct ff_memo *t, const struct asked *a, double us,
		struct ff_bucket_move *mv)
{
	mv->us = us;
	mv->beside_us = ff_price_beside(t->p, a->n_devices, a->device, us);
}

static void price(const struct ff_memo *t, const struct asked *a, struct ff_memo_bucket *b)
{
	const struct ff_runs x = {a->n_devices, a->runs, a->device, a->bytes};
	bool flat = a->runs > 1;

	set_price(t, a, flat ? ff_price_gather(t->p, &x) : 0, &b->gather);
	set_price(t, a, flat ? ff_price_across(t->p, &x) : 0, &b->across);
	for (int adds = 0; adds < 2; adds++)
		set_price(t, a,
				flat ? ff_price_scatter(t->p, t->g, &x, adds)
				     : ff_price_bucket(t->p, a->n_devices, a->device, a->bytes),
				&b->sync[adds]);
}

static int list_lanes(struct ff_memo *t, const struct asked *a, bool across,
		struct ff_bucket_move *mv, struct ff_error *err)
{
	const struct ff_shard_groups x = {
			a->n_devices, a->runs > 1 ? a->runs : a->n_devices, a->device, across};
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	size_t room = 3 * (size_t)a->n_devices;
	uint32_t *lane = ff_arena_array(&t->scratch, room, sizeof(*lane));
	struct ff_lanes *run = ff_arena_array(&t->scratch, room, sizeof(*run));

	if (!lane || !run)
		return ff_fail_memory(err);
	mv->n_lanes = ff_memo_join_lanes(ff_shard_groups_lanes(t->m, &x, lane), lane, run);
	mv->lane = ff_arena_copy(&t->arena, run, mv->n_lanes, sizeof(*run));
	ff_arena_rewind(&t->scratch, mark);
	return mv->lane ? FF_OK : ff_fail_memory(err);
}

static int list_all_lanes(struct ff_memo *t, const struct asked *a, struct ff_memo_bucket *b,
		struct ff_error *err)
{
	struct ff_bucket_move *all[] = {&b->gather, &b->sync[0], &b->sync[1]};
	int code = list_lanes(t, a, false, all[0], err);

	for (uint32_t i = 1; i < sizeof(all) / sizeof(*all); i++) {
		all[i]->n_lanes = all[0]->n_lanes;
		all[i]->lane = all[0]->lane;
	}
	if (code < 0 || a->runs < 2 || a->runs == a->n_devices)
		return code;
	return list_lanes(t, a, true, &b->across, err);
}

static int add_bucket(struct ff_memo *t, const struct asked *a, uint64_t hash,
		const struct ff_memo_bucket **ret, struct ff_error *err)
{
	uint32_t i = t->buckets.n, row = i / FF_MEMO_ROW;
	struct ff_memo_bucket *b;
	int code = ff_grow(&t->bucket, row, &t->cap[FF_MEMO_BUCKETS], sizeof(*t->bucket), err);

	if (code < 0)
		return code;
	if (i % FF_MEMO_ROW == 0)
		t->bucket[row] = ff_memo_new_row(t, sizeof(**t->bucket));
	if (!t->bucket[row])
		return ff_fail_memory(err);
	b = bucket_at(t, i);
	*b = (struct ff_memo_bucket){.n_devices = a->n_devices, .runs = a->runs, .bytes = a->bytes};
	price(t, a, b);
	b->device = ff_arena_copy(&t->arena, a->device, a->n_devices, sizeof(*a->device));
	code = b->device ? list_all_lanes(t, a, b, err) : ff_fail_memory(err);
	*ret = b;
	return code == FF_OK ? ff_memo_put(&t->buckets, hash, err) : code;
}

int ff_memo_bucket(struct ff_memo *t, const struct ff_bucket_build *k,
		const struct ff_memo_bucket **ret, struct ff_error *err)
{
	struct asked a = {k->n_devices, k->device, k->way.runs, k->bytes};
	uint64_t hash = ff_hash_mix(k->set + a.runs, (uint64_t)a.bytes);
	uint32_t at, i;

	for (i = ff_table_first(&t->buckets, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->buckets, hash, &at)) {
		*ret = bucket_at(t, i);
		if (is_for(*ret, &a))
			return FF_OK;
	}
	return add_bucket(t, &a, hash, ret, err);
}
