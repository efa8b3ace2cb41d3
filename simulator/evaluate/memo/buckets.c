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

static struct ff_transfer_us transfer_us(const struct ff_memo *t, const struct asked *a, double us)
{
	return (struct ff_transfer_us){us, ff_price_beside(t->p, a->n_devices, a->device, us)};
}

static void price(const struct ff_memo *t, const struct asked *a, struct ff_memo_bucket *b)
{
	const struct ff_runs x = {a->n_devices, a->runs, a->device, a->bytes};
	bool flat = a->runs > 1;

	b->gather = transfer_us(t, a, flat ? ff_price_gather(t->p, &x) : 0);
	for (int adds = 0; adds < 2; adds++)
		for (int crosses = 0; crosses < 2; crosses++)
			b->sync[adds][crosses] = transfer_us(t, a,
					flat ? ff_price_scatter(t->p, t->g, &x, adds, crosses)
					     : ff_price_bucket(t->p, a->n_devices, a->device,
							       a->bytes));
}

static int list_lanes(struct ff_memo *t, struct ff_memo_bucket *b, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	size_t room = 3 * (size_t)b->n_devices;
	uint32_t *lane = ff_arena_array(&t->scratch, room, sizeof(*lane));
	struct ff_lanes *run = ff_arena_array(&t->scratch, room, sizeof(*run));

	if (!lane || !run)
		return ff_fail_memory(err);
	b->n_lanes = ff_memo_join_lanes(
			ff_transfer_lanes(t->m, b->n_devices, b->device, lane), lane, run);
	b->lane = ff_arena_copy(&t->arena, run, b->n_lanes, sizeof(*run));
	ff_arena_rewind(&t->scratch, mark);
	return b->lane ? FF_OK : ff_fail_memory(err);
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
	code = b->device ? list_lanes(t, b, err) : ff_fail_memory(err);
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
