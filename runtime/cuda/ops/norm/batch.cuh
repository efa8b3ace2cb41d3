/* Batch norm: blocks that have a strip of channels and a share of the elements (strips.cuh).  Each
 * group has blocks of its own, which count along x behind the channels.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_BATCH_CUH
#define FF_CUDA_BATCH_CUH

#include "cuda/core/strips.cuh"
#include "ff/norm.h"

/* Elements of a thread's channels that its block goes through. */
struct run {
	int64_t c, group, first, end;
};

FF_DEVICE int64_t start_of(const struct ff_batch &b, int64_t group)
{
	int64_t at = group * b.group - b.skip;

	return at < 0 ? 0 : at < b.outer ? at : b.outer;
}

template <int V> FF_DEVICE struct run run_of(const struct ff_batch &b, int64_t share)
{
	int64_t strips = (b.channels + strip<V>::columns - 1) / strip<V>::columns;
	struct run r;

	r.group = blockIdx.x / strips;
	r.c = (blockIdx.x - r.group * strips) * strip<V>::columns;
	r.first = start_of(b, r.group) * b.inner + blockIdx.y * share;
	r.end = start_of(b, r.group + 1) * b.inner;
	if (r.end > r.first + share)
		r.end = r.first + share;
	return r;
}

/* Where element i of channel `c` is. */
template <int V> struct place {
	const struct ff_batch &b;
	int64_t c;

	FF_METHOD int64_t operator()(int64_t i) const
	{
		if (V > 1 || b.inner == 1)
			return i * b.channels + c;
		return (i / b.inner * b.channels + c) * b.inner + i % b.inner;
	}
};

/* Where block `y` leaves what it has of channel `c`. */
FF_DEVICE int64_t share_at(const struct ff_batch &b, int64_t group, int64_t y, int64_t c)
{
	return (group * gridDim.y + y) * b.channels + c;
}

/* Elements of a channel that a group has at most. */
static int64_t most_of(const struct ff_batch *b)
{
	return (b->group < b->outer ? b->group : b->outer) * b->inner;
}

template <int V> static int64_t blocks_across(const struct ff_batch *b)
{
	return strip<V>::count(b->channels) * b->groups;
}

/* Whether packs are of as many channels. */
template <class T> static bool has_packs(const struct ff_batch *b)
{
	return b->inner == 1 && b->channels % pack<T>::n == 0;
}

/* Elements of a share, where so many blocks are wanted.  They depend on the shape alone, and so
 * does every sum. */
template <class T> static int64_t share_of(const struct ff_batch *b, int64_t wanted)
{
	int64_t narrow = blocks_across<1>(b);
	int64_t across = has_packs<T>(b) ? blocks_across<pack<T>::n>(b) : narrow;

	return share_for(most_of(b), across, narrow > FF_TICKETS ? 1 : wanted, 128);
}

static int64_t shares_of(const struct ff_batch *b, int64_t share)
{
	return (most_of(b) + share - 1) / share;
}

template <int V> static dim3 grid_of(const struct ff_batch *b, int64_t share)
{
	return dim3((unsigned)blocks_across<V>(b), (unsigned)shares_of(b, share));
}

template <class T> static int64_t scratch_of(const struct ff_batch *b)
{
	int64_t shares = shares_of(b, share_of<T>(b, FF_STRIP_BLOCKS));

	return b->groups * shares * b->channels * (int64_t)sizeof(struct sums);
}

static bool can_pack(const void *x)
{
	return (uintptr_t)x % 16 == 0;
}

/* launch<T, V>() of elements one by one, or by packs where they can be. */
#define LAUNCH_PACKS(T, launch, packs, ...)                                                        \
	(has_packs<T>(b) && (packs) ? launch<T, pack<T>::n>(__VA_ARGS__)                           \
				    : launch<T, 1>(__VA_ARGS__))
#define LAUNCH(launch, packs, ...)                                                                 \
	(type == FF_BF16 ? LAUNCH_PACKS(uint16_t, launch, packs, __VA_ARGS__)                      \
			 : LAUNCH_PACKS(float, launch, packs, __VA_ARGS__))

#endif
