/* What scattered and dropped buckets take: on each of their devices the gradients of a micro-batch
 * until they are summed, and the weights while it reads them, forward and then again.
 * graphs/lower/dropped.c makes these buffers.  SPDX-License-Identifier: Apache-2.0 */
#include "dropped.h"

#include <string.h>

#include "columns.h"

/* Buckets `first` to `end`, which come and go in the same steps. */
struct group {
	const struct ff_bucketing *of;
	uint32_t first, end;
};

/* Some bytes on all of their devices, from step `first` to `last`.  What neighbours have of several
 * buckets is one row. */
static void add(struct ff_trial *e, const struct group *g, int64_t bytes, uint32_t first,
		uint32_t last)
{
	const struct ff_bucket_build *b = &g->of->bucket[g->first];
	uint32_t n = b->n_devices;

	if (g->end - g->first == 1 && b->device[n - 1] - b->device[0] == (int)n - 1) {
		ff_columns_add_row(e, b->device[0], n, bytes, first, last);
		return;
	}
	for (uint32_t i = g->first; i < g->end; i++)
		for (uint32_t d = 0; d < g->of->bucket[i].n_devices; d++)
			ff_columns_put(e, g->of->bucket[i].device[d], bytes);
	ff_columns_add(e, first, last);
}

/* Of one micro-batch. */
static void count_micro(struct ff_trial *e, const struct group *g, uint32_t micro, int64_t sign)
{
	const struct ff_bucket_build *b = &g->of->bucket[g->first];
	const struct ff_program *p = &e->order.program;
	int64_t weights = b->bytes / FF_F32_BYTES * ff_dtype_bytes(e->g->dtype);

	for (int later = 0; later < 2 && b->way.dropped; later++)
		if (b->opens[later] != FF_NONE)
			add(e, g, sign * ff_align64(weights),
					ff_program_gathers(p, later, micro, b->opens[later]),
					ff_program_reads(p, later, micro, b->closes[later]));
	add(e, g, sign * b->bytes, ff_program_writes(p, micro, b->writes),
			b->way.stage ? ff_program_syncs(p, micro, b->close)
				     : p->sync_once[b->close]);
}

static void count_group(struct ff_trial *e, const struct group *g, int64_t sign)
{
	for (uint32_t micro = 0; micro < e->order.program.micro_batches; micro++)
		if (e->order.account.counted[micro])
			count_micro(e, g, micro, sign);
}

/* Whether both take as much in the same steps. */
static bool are_counted_alike(const struct ff_bucket_build *a, const struct ff_bucket_build *b)
{
	return a->way.stage == b->way.stage && a->way.scattered == b->way.scattered &&
	       a->way.dropped == b->way.dropped && a->bytes == b->bytes && a->close == b->close &&
	       a->writes == b->writes &&
	       (!a->way.dropped ||
			       (!memcmp(a->opens, b->opens, sizeof(a->opens)) &&
					       !memcmp(a->closes, b->closes, sizeof(a->closes))));
}

static bool are_alike(const struct ff_bucket_build *a, const struct ff_bucket_build *b)
{
	return are_counted_alike(a, b) && a->n_devices == b->n_devices &&
	       !memcmp(a->device, b->device, a->n_devices * sizeof(*a->device));
}

/* Bucket `i` is counted: it is scattered, and not one of `other` as well. */
static bool is_counted(const struct ff_bucketing *b, const struct ff_bucketing *other, uint32_t i)
{
	return b->bucket[i].way.scattered &&
	       !(other && i < other->n_buckets && are_alike(&b->bucket[i], &other->bucket[i]));
}

void ff_dropped_count(struct ff_trial *e, const struct ff_bucketing *b,
		const struct ff_bucketing *other, int64_t sign)
{
	struct group g = {b, 0, 0};

	for (; g.first < b->n_buckets && b->n_scattered; g.first = g.end) {
		g.end = g.first + 1;
		if (!is_counted(b, other, g.first))
			continue;
		while (g.end < b->n_buckets && is_counted(b, other, g.end) &&
				are_counted_alike(&b->bucket[g.first], &b->bucket[g.end]))
			g.end++;
		count_group(e, &g, sign);
	}
}
