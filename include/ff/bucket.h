/* Buckets: parameters that live on the same devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUCKET_H
#define FF_BUCKET_H

#include "ff/codec.h"
#include "ff/optimizer.h"
#include "ff/sparse.h"

/* One shard of a parameter: the same elements on every device of its bucket. */
struct ff_shard {
	uint32_t node, cell, bucket; /* the parameter's node and part */
	struct ff_region region;
	int64_t offset; /* bytes in the bucket; multiple of 64; those of a group are neighbours */
	uint32_t group; /* of parameters (ff/groups.h) */
	/* Of a sparse gradient: how many rows are looked up at most, and where their list lies,
	 * bytes behind the bucket's first; 0: it is dense. */
	int64_t sparse_rows, list;
};

/* Shards of parameters that live on the same devices and are updated together.  Where replicas read
 * a parameter the devices are one replica's: it sums the gradients of its own parts, and the
 * buckets of all replicas are laid out alike, so that they hold the same bits. Where their
 * gradients are synchronised together too (`synced`), an all-reduce sums them in place; the others
 * are brought by moves of their own.  Each device holds arrays of `bytes` (ff_bucket_layout):
 * weights, gradients, the optimizer's states, and, where what is summed is compressed, behind all
 * of them what was not sent yet (float32); last, where gradients wait, as many arrays of them,
 * those of the step before first: there backward writes.
 *
 * A synchronised bucket may be updated flat.  Its elements are cut into equal runs, one a device,
 * whatever parameters they are of.  Instead of the all-reduce a reduce-scatter sums each run where
 * it is updated, and as the next step begins an all-gather brings the weights of all runs to all
 * devices.  Between the two a device knows the weights of its own run alone.
 *
 * There may be fewer runs than devices: these then are groups, neighbours in `device`, of one
 * device a run, and each group holds all runs.  A run is reduce-scattered and gathered within a
 * group, and what groups have summed of it is summed among them, once a step (HYBRID_SHARD of
 * PyTorch's FSDP; MiCS: Zhang et al., VLDB 2022).
 *
 * The gradients of a flat bucket may be scattered: of them, too, a device has its run for good and
 * no more.  Backward puts a micro-batch's gradients into a buffer, from which its reduce-scatter
 * takes them; what that sums is added to the run.
 *
 * Such a bucket may be dropped: of its weights, too, a device has its run and no more.  Those of
 * all runs are gathered into another buffer before they are read forward, and once more before
 * they are read again, in every micro-batch. */
struct ff_bucket {
	bool synced, flat, scattered, dropped;
	const struct ff_codec *codec; /* of several devices, synced; NULL: as they are */
	/* Instead: each device goes its own way with its own gradients, and in every so many
	 * steps its move, behind the updates, makes weights and states the mean of all. */
	bool averaged;
	uint32_t delay; /* steps that gradients wait which backward writes here; 0: it writes none
			 */
	uint32_t replica, replicas; /* which it is of how many that hold the same */
	uint32_t n_devices;
	uint32_t runs; /* equal ones, of its elements; n_devices is a multiple; 1: not flat */
	const uint16_t *device; /* ascending */
	uint32_t first_shard, n_shards;
	int64_t bytes;
	struct ff_sparse sparse;
	const int64_t *offset; /* n_devices: of its arrays, one behind the other */
	/* Of a scattered one, for each micro-batch n_devices buffers of all its gradients; FF_NONE:
	 * backward writes none. */
	const uint32_t *gradients;
};

/* Of a scattered one, by device. */
static inline const uint32_t *ff_bucket_gradients(const struct ff_bucket *b, uint32_t micro)
{
	return b->gradients + (size_t)micro * b->n_devices;
}

/* Which of a parameter's parts is number `k` of those that the `n` devices of a bucket have of cell
 * `cell`: they are numbered replica by replica. */
static inline uint32_t ff_shard_part(
		uint32_t cell, uint32_t cells, uint32_t replica, uint32_t n, uint32_t k)
{
	return cell + cells * (replica * n + k);
}

/* The devices of a bucket are so many groups, each of which holds all of it. */
static inline uint32_t ff_bucket_groups(const struct ff_bucket *b)
{
	return b->n_devices / b->runs;
}

/* Of a bucket's elements those whose squares its device number `position` adds up, of its run, if
 * it is flat; groups and replicas share them. */
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
