/* The loss: the statistics of each label's logits, the mean over all labels, the gradient; as
 * runtime/cpu/ops/loss/softmax_cross_entropy.c has them.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "softmax_cross_entropy.h"

#define WIDE 256        /* classes from which a position has a block of its own */
#define LANES 32        /* threads of a position with fewer */
#define THREADS FF_WIDE /* of the one block that adds up */

struct position {
	int64_t logit, pair; /* where its column begins, where its statistics are */
	int32_t label;
	bool valid;
};

FF_DEVICE struct position find(const struct ff_loss &l, const int32_t *labels, int64_t i)
{
	struct position p = {0, 0, -1, false};
	int64_t label = 0;

	for (uint32_t axis = l.rank; axis-- > 0;) {
		int64_t at = i % l.n[axis];

		p.logit += at * l.logit_stride[axis];
		p.pair += at * l.pair_stride[axis];
		label += at * l.label_stride[axis];
		i /= l.n[axis];
	}
	p.label = labels[label];
	p.valid = p.label != l.ignore && p.label >= 0 && p.label < l.all_classes;
	return p;
}

/* Of the whole batch. */
FF_DEVICE int64_t valid_of(const struct ff_loss &l)
{
	return l.figures ? l.figures->valid[l.loss] : l.valid;
}

struct top {
	float most;
	int32_t at; /* the first class that has it */
};

FF_DEVICE struct top top_of(struct top a, struct top b)
{
	return b.most > a.most || (b.most == a.most && b.at < a.at) ? b : a;
}

/* What the threads of a row have, added up: of its first thread; the others get parts of it.
 * `sums` is the block's. */
FF_DEVICE float sum_row(float *sums, float own)
{
	uint32_t lane = threadIdx.x, at = threadIdx.y * blockDim.x + lane;

	sums[at] = own;
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (lane < step)
			sums[at] += sums[at + step];
	}
	return sums[at];
}

/* The threads of one threadIdx.y have a position; all pass every step. */
template <class T>
FF_KERNEL void statistics(struct ff_loss l, const T *logits, const int32_t *labels, float *all,
		float *own, struct ff_device_error *error)
{
	FF_SHARED struct top tops[WIDE];
	FF_SHARED float before[WIDE], sums[WIDE];
	int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
	uint32_t lane = threadIdx.x, base = threadIdx.y * blockDim.x;
	bool here = i < l.positions;
	struct position p = find(l, labels, here ? i : 0);
	struct top top = {-INFINITY, INT32_MAX};
	float smaller = -INFINITY, sum = 0;
	int32_t label = p.label - l.first;

	for (int32_t c = (int32_t)lane; here && c < l.classes; c += (int32_t)blockDim.x) {
		float x = real_get(logits[p.logit + c * l.step]);
		struct top other = {x, c};

		top = top_of(top, other);
		if (c < label && x > smaller)
			smaller = x;
	}
	tops[base + lane] = top;
	before[base + lane] = smaller;
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (lane < step) {
			tops[base + lane] = top_of(tops[base + lane], tops[base + lane + step]);
			if (before[base + lane + step] > before[base + lane])
				before[base + lane] = before[base + lane + step];
		}
	}
	__syncthreads();
	top = tops[base];
	if (top.at == INT32_MAX)
		top.most = NAN; /* as all of them are */
	for (int32_t c = (int32_t)lane; here && c < l.classes; c += (int32_t)blockDim.x)
		if (c != top.at)
			sum += expf(real_get(logits[p.logit + c * l.step]) - top.most);
	sum = sum_row(sums, sum);
	if (!here || lane > 0)
		return;
	if (p.label != l.ignore && !p.valid) {
		error->value = p.label;
		report(error);
	}
	all[p.pair] = p.valid ? top.most : 0;
	all[p.pair + 1] = p.valid && top.most != -INFINITY ? sum : 0;
	own[p.pair] = !p.valid                          ? 0
		      : label >= 0 && label < l.classes ? real_get(logits[p.logit + label * l.step])
							: -INFINITY;
	own[p.pair + 1] = p.valid ? before[base] : 0;
}

template <class T>
FF_KERNEL void less_than_largest(struct ff_loss l, const T *logits, const int32_t *labels,
		const float *all, float *less)
{
	FF_SHARED float sums[WIDE];
	int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
	uint32_t lane = threadIdx.x;
	bool here = i < l.positions;
	struct position p = find(l, labels, here ? i : 0);
	float most = all[p.pair], sum = 0;

	for (int32_t c = (int32_t)lane; here && c < l.classes; c += (int32_t)blockDim.x)
		sum += most - real_get(logits[p.logit + c * l.step]);
	sum = sum_row(sums, sum);
	if (here && lane == 0)
		less[i] = sum;
}

/* By position, how many of the classes here have a larger logit than the label. */
template <class T>
FF_KERNEL void larger_than_label(struct ff_loss l, const T *logits, const int32_t *labels,
		const float *own, float *rank)
{
	FF_SHARED float sums[WIDE];
	int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
	uint32_t lane = threadIdx.x;
	bool here = i < l.positions;
	struct position p = find(l, labels, here ? i : 0);
	float label = own[p.pair], sum = 0;

	for (int32_t c = (int32_t)lane; here && c < l.classes; c += (int32_t)blockDim.x)
		sum += real_get(logits[p.logit + c * l.step]) <= label ? 0 : 1;
	sum = sum_row(sums, sum);
	if (here && lane == 0)
		rank[i] = p.valid ? sum : (float)l.all_classes;
}

struct share {
	double sum;
	int64_t valid, correct;
};

/* One block.  Of parts that have classes of the same labels, the first counts them, and each adds
 * what its classes have of a smoothed target. */
FF_WIDE_KERNEL void loss(struct ff_loss l, const int32_t *labels, const float *all,
		const float *own, const float *less, float *out, struct ff_device_error *error)
{
	FF_SHARED struct share shares[THREADS];
	struct share s = {0, 0, 0};
	int64_t valid;

	for (int64_t i = threadIdx.x; (l.first == 0 || less) && i < l.positions; i += blockDim.x) {
		struct position p = find(l, labels, i);
		float most = all[p.pair], label = own[p.pair];

		if (!p.valid)
			continue;
		if (less)
			s.sum += l.each * (double)less[i];
		if (l.first)
			continue;
		s.sum += log1p((double)all[p.pair + 1]) +
			 (1 - l.smooth) * ((double)most - (double)label);
		/* of equally large ones, the first class is the prediction */
		s.correct += label >= most && own[p.pair + 1] < label;
		s.valid++;
	}
	shares[threadIdx.x] = s;
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (threadIdx.x < step) {
			shares[threadIdx.x].sum += shares[threadIdx.x + step].sum;
			shares[threadIdx.x].valid += shares[threadIdx.x + step].valid;
			shares[threadIdx.x].correct += shares[threadIdx.x + step].correct;
		}
	}
	if (threadIdx.x > 0)
		return;
	s = shares[0];
	valid = valid_of(l);
	if (s.valid > valid) {
		error->count = s.valid;
		report(error);
	}
	out[0] = valid ? (float)(s.sum / (double)valid) : 0;
	out[1] = (float)s.correct;
}

/* weight (softmax - target) / valid; nothing for labels that are ignored. */
template <class T>
FF_KERNEL void gradient(
		struct ff_loss l, const T *logits, const int32_t *labels, const float *all, T *din)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
	struct position p;
	float most, rest, scale, share, more;

	if (i >= l.positions)
		return;
	p = find(l, labels, i);
	most = all[p.pair];
	rest = all[p.pair + 1];
	scale = (float)(l.weight / ((1 + (double)rest) * (double)valid_of(l)));
	share = (float)((1 + (double)rest) * l.each);
	more = (float)((1 + (double)rest) * (l.smooth - l.each));
	for (int32_t c = (int32_t)threadIdx.x; c < l.classes; c += (int32_t)blockDim.x) {
		int64_t at = p.logit + c * l.step;
		float e = p.valid ? expf(real_get(logits[at]) - most) : 0;

		/* softmax - 1 without the rounding of what is nearly 1 */
		if (c == p.label - l.first)
			e = e - 1 - rest + more;
		else
			e -= share;
		real_put(&din[at], p.valid ? e * scale : 0);
	}
}

/* Threads of a block: of one position, or of several. */
static dim3 block_of(const struct ff_loss *l)
{
	return l->classes > WIDE ? dim3(WIDE, 1) : dim3(LANES, WIDE / LANES);
}

static dim3 grid_of(const struct ff_loss *l)
{
	unsigned each = block_of(l).y;

	return dim3((unsigned)((l->positions + each - 1) / each));
}

cudaError_t ff_launch_statistics(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, float *all, float *own, struct ff_device_error *error,
		cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(statistics<uint16_t>, grid_of(l), block_of(l), s, *l,
				(const uint16_t *)logits, labels, all, own, error);
	return ff_launch(statistics<float>, grid_of(l), block_of(l), s, *l, (const float *)logits,
			labels, all, own, error);
}

cudaError_t ff_launch_less(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, float *less, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(less_than_largest<uint16_t>, grid_of(l), block_of(l), s, *l,
				(const uint16_t *)logits, labels, all, less);
	return ff_launch(less_than_largest<float>, grid_of(l), block_of(l), s, *l,
			(const float *)logits, labels, all, less);
}

cudaError_t ff_launch_rank(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *own, float *rank, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(larger_than_label<uint16_t>, grid_of(l), block_of(l), s, *l,
				(const uint16_t *)logits, labels, own, rank);
	return ff_launch(larger_than_label<float>, grid_of(l), block_of(l), s, *l,
			(const float *)logits, labels, own, rank);
}

cudaError_t ff_launch_loss(const struct ff_loss *l, const int32_t *labels, const float *all,
		const float *own, const float *less, float *out, struct ff_device_error *error,
		cudaStream_t s)
{
	return ff_launch<FF_WIDE>(loss, dim3(1), dim3(l->positions > WIDE ? THREADS : LANES), s, *l,
			labels, all, own, less, out, error);
}

cudaError_t ff_launch_loss_gradient(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, void *din, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(gradient<uint16_t>, grid_of(l), block_of(l), s, *l,
				(const uint16_t *)logits, labels, all, (uint16_t *)din);
	return ff_launch(gradient<float>, grid_of(l), block_of(l), s, *l, (const float *)logits,
			labels, all, (float *)din);
}
