/* Buckets: parameters on the same devices, whose gradients travel together.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUCKET_H
#define FF_BUCKET_H

#include "ff/codec.h"
#include "ff/optimizer.h"
#include "ff/sparse.h"

/* One shard of a parameter: the same elements on every device of its bucket. */
struct ff_shard {
	uint32_t node, cell, bucket; /* the parameter's node and part */
	struct ff_region region;
	int64_t offset; /* bytes in the bucket, a multiple of 64; shards of a group are contiguous
			 */
	uint32_t group; /* of parameters (ff/groups.h) */
	/* Sparse gradient: the most rows that are looked up, and the offset of their list, bytes
	 * from the bucket's start.  0: the gradient is dense. */
	int64_t sparse_rows, list;
};

/* Shards of parameters that live on the same devices and are updated together.
 *
 * Memory.  Each device holds arrays of `bytes` (ff_bucket_layout): weights, gradients, optimizer
 * states; with a codec also the error feedback (float32); with delayed gradients also one array of
 * gradients a step of delay, the newest first, which is where backward writes.
 *
 * Replicas.  Where replicas read a parameter, each replica has a bucket of its own, with its own
 * devices.  It sums the gradients of its own parts.  All replicas' buckets are laid out alike and
 * so hold the same bits.
 *
 * `synced`: one all-reduce sums all gradients of the bucket in place.  In a bucket that is not
 * synced each parameter's gradient is brought by moves of its own.
 *
 * `flat` (ZeRO-1): the elements of a synced bucket are cut into equal runs, one a device, across
 * the borders of parameters.  A reduce-scatter sums each run on the device that updates it; at the
 * start of the next step an all-gather brings all weights to all devices.  In between a device has
 * current weights only in its own run.
 *
 * Groups (hybrid sharding): with fewer runs than devices, the devices form groups, neighbours in
 * `device`, of one device a run.  Reduce-scatter and all-gather stay within a group; once a step
 * the groups' sums are added up among the devices that hold the same run (HYBRID_SHARD of PyTorch's
 * FSDP; MiCS: Zhang et al., VLDB 2022).
 *
 * `scattered` (ZeRO-2): of a flat bucket's gradients, too, a device keeps only its run.  Backward
 * writes each micro-batch's gradients to a buffer; a reduce-scatter adds the buffer to the run.
 *
 * `dropped` (ZeRO-3, FSDP): of a scattered bucket's weights, too, a device keeps only its run.  In
 * every micro-batch an all-gather brings all weights into a buffer before forward reads them, and
 * again before backward does. */
struct ff_bucket {
	bool synced, flat, scattered, dropped;
	const struct ff_codec *codec; /* compresses what is summed; NULL: it is sent as it is */
	/* Local SGD: each device updates by its own gradients; every few steps weights and states
	 * become the mean over the devices, after the updates. */
	bool averaged;
	uint32_t delay; /* steps by which the gradients that backward writes here are late; 0: none
			 */
	uint32_t replica, replicas; /* number of this one, and how many there are */
	uint32_t n_devices;
	uint32_t runs;          /* n_devices is a multiple of it; 1: not flat */
	const uint16_t *device; /* ascending */
	uint32_t first_shard, n_shards;
	int64_t bytes;
	struct ff_sparse sparse;
	const int64_t *offset; /* by device: where its arrays begin */
	/* Scattered: by micro-batch and device, the buffer of gradients; FF_NONE: backward writes
	 * none. */
	const uint32_t *gradients;
};

/* By device: the buffers of a scattered bucket. */
static inline const uint32_t *ff_bucket_gradients(const struct ff_bucket *b, uint32_t micro)
{
	return b->gradients + (size_t)micro * b->n_devices;
}

/* The part of a parameter that device number `k` of a bucket's `n` holds of cell `cell`.  Parts are
 * numbered replica by replica. */
static inline uint32_t ff_shard_part(
		uint32_t cell, uint32_t cells, uint32_t replica, uint32_t n, uint32_t k)
{
	return cell + cells * (replica * n + k);
}

/* How many groups its devices form, each of which holds the whole bucket. */
static inline uint32_t ff_bucket_groups(const struct ff_bucket *b)
{
	return b->n_devices / b->runs;
}

/* The global norm of gradients: elements [*first, *end) of the bucket are those whose squares
 * device number `position` adds up.  They lie in its run; groups and replicas share the work. */
static inline void ff_norm_share(
		const struct ff_bucket *b, uint32_t position, int64_t *first, int64_t *end)
{
	int64_t run = b->bytes / FF_F32_BYTES / b->runs;
	int64_t shares = (int64_t)ff_bucket_groups(b) * b->replicas;
	int64_t share = (int64_t)(position / b->runs) * b->replicas + b->replica;
	int64_t begin = position % b->runs * run;

	*first = begin + run * share / shares;
	*end = begin + run * (share + 1) / shares;
}

#endif
