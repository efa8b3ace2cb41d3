/* What scattered and dropped buckets take: on each of their devices the gradients of a micro-batch
 * until they are summed, and the weights while it reads them, forward and then again.
 * graphs/lower/dropped.c makes these buffers.  SPDX-License-Identifier: Apache-2.0 */
#include "dropped.h"

#include <string.h>

#include "columns.h"

/* Neighbours that have the bucket. */
struct row {
	uint32_t first, n;
};

/* Of one micro-batch. */
static void count_micro(struct ff_trial *e, const struct ff_bucket_build *b, struct row on,
		uint32_t micro, int64_t sign)
{
	const struct ff_program *p = &e->order.program;
	int64_t weights = b->bytes / FF_F32_BYTES * ff_dtype_bytes(e->g->dtype);

	for (int later = 0; later < 2 && b->way.dropped; later++)
		if (b->opens[later] != FF_NONE)
			ff_columns_add_row(e, on.first, on.n, sign * ff_align64(weights),
					ff_program_gathers(p, later, micro, b->opens[later]),
					ff_program_reads(p, later, micro, b->closes[later]));
	ff_columns_add_row(e, on.first, on.n, sign * b->bytes,
			ff_program_writes(p, micro, b->writes),
			b->way.stage ? ff_program_syncs(p, micro, b->close)
				     : p->sync_once[b->close]);
}

static void count_bucket(struct ff_trial *e, const struct ff_bucket_build *b, int64_t sign)
{
	struct row on;

	for (uint32_t i = 0; i < b->n_devices; i += on.n) {
		on = (struct row){b->device[i], 1};
		while (i + on.n < b->n_devices && b->device[i + on.n] == on.first + on.n)
			on.n++;
		for (uint32_t micro = 0; micro < e->order.program.micro_batches; micro++)
			if (e->order.account.counted[micro])
				count_micro(e, b, on, micro, sign);
	}
}

static bool are_alike(const struct ff_bucket_build *a, const struct ff_bucket_build *b)
{
	return a->way.stage == b->way.stage && a->way.scattered == b->way.scattered &&
	       a->way.dropped == b->way.dropped && a->bytes == b->bytes && a->close == b->close &&
	       a->n_devices == b->n_devices && a->writes == b->writes &&
	       (!a->way.dropped ||
			       (!memcmp(a->opens, b->opens, sizeof(a->opens)) &&
					       !memcmp(a->closes, b->closes, sizeof(a->closes)))) &&
	       !memcmp(a->device, b->device, a->n_devices * sizeof(*a->device));
}

void ff_dropped_count(struct ff_trial *e, const struct ff_bucketing *b,
		const struct ff_bucketing *other, int64_t sign)
{
	for (uint32_t i = 0; i < b->n_buckets && b->n_scattered; i++) {
		const struct ff_bucket_build *k = &b->bucket[i];
		bool same = other && i < other->n_buckets && are_alike(k, &other->bucket[i]);

		if (k->way.scattered && !same)
			count_bucket(e, k, sign);
	}
}
