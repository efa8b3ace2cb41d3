/* Buckets: parameters that live on the same devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUCKET_H
#define FF_BUCKET_H

#include "ff/codec.h"
#include "ff/optimizer.h"
#include "ff/region.h"

/* One shard of a parameter: the same elements on every device of its bucket. */
struct ff_shard {
	uint32_t node, cell, bucket; /* the parameter's node and part */
	struct ff_region region;
	int64_t offset; /* bytes in the bucket; multiple of 64; those of a group are neighbours */
	uint32_t group; /* of parameters (ff/groups.h) */
};

/* Shards of parameters that live on the same devices and are updated together.
 * Where their gradients are synchronised together too (`synced`), an all-reduce
 * sums them in place; the others are brought by moves of their own.  Each device
 * holds arrays of `bytes`: weights, gradients, the optimizer's states, and, where what is summed
 * is compressed, behind all of them what was not sent yet (float32); last, where gradients wait,
 * as many arrays of them, those of the step before first: there backward writes. */
struct ff_bucket {
	bool synced;
	const struct ff_codec *codec; /* of several devices, synced; NULL: as they are */
	/* Instead: each device goes its own way with its own gradients, and in every so many
	 * steps its SYNC, behind the updates, makes weights and states the mean of all. */
	bool averaged;
	uint32_t delay; /* steps that gradients wait which backward writes here; 0: it writes none
			 */
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	uint32_t first_shard, n_shards;
	int64_t bytes;
	const int64_t *offset; /* n_devices: of its arrays, one behind the other */
};

/* Of a bucket's elements those whose squares its device number `position` adds up. */
static inline void ff_norm_share(
		const struct ff_bucket *b, uint32_t position, int64_t *first, int64_t *end)
{
	int64_t n = b->bytes / FF_F32_BYTES;

	*first = n * position / b->n_devices;
	*end = n * (position + 1) / b->n_devices;
}

/* In a bucket whose readers get it as `type`, the first of the arrays of gradients that wait. */
static inline int64_t ff_bucket_waiting(
		const struct ff_bucket *b, const struct ff_optimizer *o, enum ff_dtype type)
{
	return ff_optimizer_bytes(o, type, b->bytes) + (b->codec ? b->bytes : 0);
}
/* All of it on one of its devices. */
static inline int64_t ff_bucket_memory(
		const struct ff_bucket *b, const struct ff_optimizer *o, enum ff_dtype type)
{
	return ff_bucket_waiting(b, o, type) + b->delay * b->bytes;
}

/* What its all-reduce sends, all devices together. */
static inline int64_t ff_bucket_sent_bytes(const struct ff_bucket *b)
{
	int64_t bytes = b->codec ? ff_codec_bytes(b->codec, b->bytes / FF_F32_BYTES) : b->bytes;

	return 2 * (int64_t)(b->n_devices - 1) * bytes;
}

#endif
