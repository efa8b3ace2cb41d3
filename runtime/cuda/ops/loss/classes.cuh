/* Walks over the classes of a loss's positions, and what is reduced over them.  Classes that lie
 * one behind the other are read 16 bytes at a time by threads that share a position; where
 * positions lie so, threads side by side have positions side by side, one or two each, and those
 * of one column share the classes.  The order of every sum follows from the shape.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CLASSES_CUH
#define FF_CUDA_CLASSES_CUH

#include "cuda/core/real.cuh"
#include "logits.h"

#define EACH 8       /* classes in a column that a thread reads at once */
#define ACROSS 32    /* threads side by side, at most */
#define ENOUGH 128   /* blocks: about as many as a large GPU has multiprocessors */
#define BESIDES 4096 /* blocks of the gradient's: some waves of them */

struct position {
	int64_t logit, pair; /* where its first logit is, where its statistics are */
	int32_t label, own;  /* of all classes, of the part's */
	bool valid;
};

FF_DEVICE struct position find(const struct ff_loss &l, const int32_t *labels, int64_t i)
{
	struct position p = {0, 0, -1, -1, false};
	bool narrow = l.positions <= INT32_MAX; /* divisions of half the width */
	int64_t label = 0;

	for (uint32_t axis = l.rank; axis-- > 0;) {
		int64_t next = axis == 0 ? 0
			       : narrow  ? (int64_t)((uint32_t)i / (uint32_t)l.n[axis])
					 : i / l.n[axis];
		int64_t at = i - next * l.n[axis];

		p.logit += at * l.logit_stride[axis];
		p.pair += at * l.pair_stride[axis];
		label += at * l.label_stride[axis];
		i = next;
	}
	p.label = labels[label];
	p.own = p.label - l.first;
	p.valid = p.label != l.ignore && p.label >= 0 && p.label < l.all_classes;
	return p;
}

/* The classes of a row that lie in whole packs, from the first on; the others are before and
 * behind them. */
struct whole {
	int32_t from, packs;
};

template <class T> FF_DEVICE int32_t behind_boundary(const T *x)
{
	return (int32_t)((uintptr_t)x % sizeof(struct pack<T>) / sizeof(T));
}

template <class T> FF_DEVICE struct whole whole_of(const T *row, int32_t classes)
{
	int32_t behind = behind_boundary(row), from = behind ? pack<T>::n - behind : 0;

	if (from >= classes)
		return {classes, 0};
	return {from, (classes - from) / pack<T>::n};
}

/* Elements side by side, of as many positions. */
template <class T, int P> struct alignas(P * sizeof(T)) beside {
	T x[P];
};

/* What the threads that share a position have, joined: its first thread has all.  `lane` of
 * `lanes`, a power of two, that are `apart` from each other in `part`. */
template <class Op, class Tally>
FF_DEVICE Tally join(Tally *part, Tally own, uint32_t lane, uint32_t lanes, uint32_t apart)
{
	uint32_t at = threadIdx.y * blockDim.x + threadIdx.x;

	part[at] = own;
	for (uint32_t step = lanes / 2; step > 0; step /= 2) {
		__syncthreads();
		if (lane < step)
			part[at] = Op::join(part[at], part[at + step * apart]);
	}
	return part[at];
}

/* The threads of one threadIdx.y have a position; all pass every step. */
template <class T, class Op>
FF_KERNEL void reduce_rows(struct ff_loss l, const T *logits, const int32_t *labels, Op op)
{
	const int N = pack<T>::n;
	FF_SHARED typename Op::tally part[FF_BLOCK];
	int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
	int32_t lane = (int32_t)threadIdx.x, lanes = (int32_t)blockDim.x;
	bool here = i < l.positions;
	struct position p = find(l, labels, here ? i : 0);
	const T *row = logits + p.logit;
	struct whole w = whole_of(row, l.classes);
	const struct pack<T> *packs = (const struct pack<T> *)(row + w.from);
	typename Op::tally t = op.begin(p);

	for (int32_t k = lane; here && k < w.packs; k += 2 * lanes) {
		bool second = k + lanes < w.packs;
		struct pack<T> a = packs[k], b = a;
		float x[N];

		if (second)
			b = packs[k + lanes];
		for (int c = 0; c < N; c++)
			x[c] = real_get(a.x[c]);
		op.add(t, p, x, w.from + k * N);
		for (int c = 0; c < N; c++)
			x[c] = real_get(b.x[c]);
		if (second)
			op.add(t, p, x, w.from + (k + lanes) * N);
	}
	for (int32_t k = lane; here && k < l.classes - w.packs * N; k += lanes) {
		int32_t c = k < w.from ? k : k + w.packs * N;
		float x[1] = {real_get(row[c])};

		op.add(t, p, x, c);
	}
	t = join<Op>(part, t, threadIdx.x, blockDim.x, 1);
	if (here && lane == 0)
		op.end(l, p, i, t, row);
}

/* The threads of one threadIdx.x have P positions; all pass every step. */
template <class T, int P, class Op>
FF_WIDE_KERNEL void reduce_columns(struct ff_loss l, const T *logits, const int32_t *labels, Op op)
{
	FF_SHARED typename Op::tally part[FF_WIDE];
	int64_t i = thread_index() * P;
	bool here = i < l.positions;
	int32_t lane = (int32_t)threadIdx.y, lanes = (int32_t)blockDim.y;
	int32_t chunks = l.classes / EACH;
	typename Op::tally t[P];
	struct position p[P];
	const T *column;

	for (int q = 0; q < P; q++) {
		p[q] = find(l, labels, here ? i + q : q);
		t[q] = op.begin(p[q]);
	}
	column = logits + p[0].logit;
	for (int32_t k = lane; here && k < chunks; k += lanes) {
		const T *from = column + k * EACH * l.step;
		struct beside<T, P> read[EACH];

		for (int c = 0; c < EACH; c++)
			read[c] = *(const struct beside<T, P> *)(from + c * l.step);
		for (int q = 0; q < P; q++) {
			float x[EACH];

			for (int c = 0; c < EACH; c++)
				x[c] = real_get(read[c].x[q]);
			op.add(t[q], p[q], x, k * EACH);
		}
	}
	for (int32_t c = chunks * EACH + lane; here && c < l.classes; c += lanes)
		for (int q = 0; q < P; q++) {
			float x[1] = {real_get(column[c * l.step + q])};

			op.add(t[q], p[q], x, c);
		}
	for (int q = 0; q < P; q++) {
		t[q] = join<Op>(part, t[q], threadIdx.y, blockDim.y, blockDim.x);
		if (here && lane == 0)
			op.end(l, p[q], i + q, t[q], column + q);
		__syncthreads();
	}
}

/* ---- launches ---- */

static inline uint32_t power_of_two(int64_t at_least, uint32_t most)
{
	uint32_t n = 1;

	while (n < most && n < at_least)
		n *= 2;
	return n;
}

/* Threads that share a position whose classes are a row, by as many positions as make a block. */
static inline dim3 block_of_rows(enum ff_dtype type, const struct ff_loss *l)
{
	uint32_t n = power_of_two(l->classes * ff_dtype_bytes(type) / 16 + 1, FF_BLOCK);

	return dim3(n, FF_BLOCK / n);
}

static inline unsigned blocks_over(int64_t n, int64_t each)
{
	return (unsigned)((n + each - 1) / each);
}

/* Whether positions lie two by two, both sides of a multiple of two elements. */
static inline bool lie_in_pairs(enum ff_dtype type, const struct ff_loss *l, uintptr_t addresses)
{
	uint32_t last = l->rank - 1;

	if (l->rank == 0 || l->logit_stride[last] != 1 || l->n[last] % 2 || l->step % 2 ||
			addresses % (uintptr_t)(2 * ff_dtype_bytes(type)))
		return false;
	for (uint32_t i = 0; i < last; i++)
		if (l->logit_stride[i] % 2)
			return false;
	return true;
}

/* What of each position `op` says. */
template <class T, class Op>
static cudaError_t reduce_classes(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, Op op, cudaStream_t s)
{
	int64_t chunks = (l->classes + EACH - 1) / EACH;
	bool pairs = lie_in_pairs(type, l, (uintptr_t)logits) &&
		     l->positions >= 2 * ACROSS * ENOUGH;
	uint32_t across = ACROSS, each = pairs ? 2 : 1;
	dim3 block = block_of_rows(type, l), grid(blocks_over(l->positions, block.y));

	if (l->step == 1)
		return ff_launch(reduce_rows<T, Op>, grid, block, s, *l, (const T *)logits, labels,
				op);
	while (across > 8 && l->positions < (int64_t)across * ENOUGH)
		across /= 2;
	block = dim3(across, power_of_two(chunks, FF_WIDE / across));
	grid = dim3(blocks_over(l->positions, (int64_t)across * each));
	if (pairs)
		return ff_launch<FF_WIDE>(reduce_columns<T, 2, Op>, grid, block, s, *l,
				(const T *)logits, labels, op);
	return ff_launch<FF_WIDE>(reduce_columns<T, 1, Op>, grid, block, s, *l, (const T *)logits,
			labels, op);
}

#endif
