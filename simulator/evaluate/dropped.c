/* What dropped buckets take: on each of their devices the weights while a micro-batch reads them,
 * forward and then again, and the gradients until they are summed.  graphs/lower/dropped.c makes
 * these buffers.  SPDX-License-Identifier: Apache-2.0 */
#include "dropped.h"

#include <string.h>

#include "columns.h"

static void count_on_all(struct ff_trial *e, const struct ff_bucket_build *b, int64_t bytes,
		uint32_t first, uint32_t last)
{
	for (uint32_t d = 0; d < b->n_devices; d++)
		ff_columns_put(e, b->device[d], bytes);
	ff_columns_add(e, first, last);
}

/* The step that synchronises what `node` closes: it stands behind its last backward. */
static uint32_t synced_in(const struct ff_program *p, uint32_t node)
{
	uint32_t i = ff_program_compute(p, FF_PHASE_BACKWARD, p->micro_batches - 1, node);

	while (p->step[i].kind != FF_STEP_SYNC || p->step[i].id != node)
		i++;
	return i;
}

static void count_bucket(struct ff_trial *e, const struct ff_bucket_build *b, int64_t sign)
{
	const struct ff_program *p = &e->order.program;
	int64_t weights = b->bytes / FF_F32_BYTES * ff_dtype_bytes(e->g->dtype);

	for (uint32_t micro = 0; micro < p->micro_batches; micro++)
		for (int later = 0; later < 2 && e->order.account.counted[micro]; later++)
			if (b->opens[later] != FF_NONE)
				count_on_all(e, b, sign * ff_align64(weights),
						ff_program_gathers(
								p, later, micro, b->opens[later]),
						ff_program_reads(
								p, later, micro, b->closes[later]));
	/* who reads last forward is the first to write, backward */
	count_on_all(e, b, sign * b->bytes,
			ff_program_compute(p, FF_PHASE_BACKWARD, 0, b->closes[0]),
			synced_in(p, b->close));
}

static bool are_alike(const struct ff_bucket_build *a, const struct ff_bucket_build *b)
{
	return a->dropped == b->dropped && a->bytes == b->bytes && a->close == b->close &&
	       a->n_devices == b->n_devices && !memcmp(a->opens, b->opens, sizeof(a->opens)) &&
	       !memcmp(a->closes, b->closes, sizeof(a->closes)) &&
	       !memcmp(a->device, b->device, a->n_devices * sizeof(*a->device));
}

void ff_dropped_count(struct ff_trial *e, const struct ff_bucketing *b,
		const struct ff_bucketing *other, int64_t sign)
{
	for (uint32_t i = 0; i < b->n_buckets && b->n_dropped; i++) {
		const struct ff_bucket_build *k = &b->bucket[i];
		bool same = other && i < other->n_buckets && are_alike(k, &other->bucket[i]);

		if (k->dropped && !same)
			count_bucket(e, k, sign);
	}
}
