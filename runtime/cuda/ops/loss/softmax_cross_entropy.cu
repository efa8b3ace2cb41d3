/* The loss: the statistics of each label's logits, the mean over all labels, the gradient; as
 * runtime/cpu/ops/loss/softmax_cross_entropy.c has them.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "classes.cuh"
#include "softmax_cross_entropy.h"

#define WIDE 256        /* positions from which the block that adds up is as wide as can be */
#define LANES 32        /* its threads with fewer */
#define THREADS FF_WIDE /* of the one block that adds up */

/* Of the whole batch. */
FF_DEVICE int64_t valid_of(const struct ff_loss &l)
{
	return l.figures ? l.figures->valid[l.loss] : l.valid;
}

/* The largest logit of what was seen, the others' exponentials as shares of its, and the largest
 * before the label's. */
struct seen {
	float most, rest, before;
};

/* Logits that are NaN are passed over but by `rest`. */
struct statistics {
	typedef struct seen tally;
	float *all, *own;
	struct ff_device_error *error;

	FF_METHOD struct seen begin(const struct position &) const
	{
		return {-INFINITY, 0, -INFINITY};
	}
	/* Where all are -INFINITY, each is nothing of any other. */
	template <int N>
	FF_METHOD void add(struct seen &t, const struct position &p, const float (&x)[N],
			int32_t c) const
	{
		float most = x[0], base;
		bool rises;

		for (int k = 1; k < N; k++)
			most = fmaxf(most, x[k]);
		if (c + N <= p.own)
			t.before = fmaxf(t.before, most);
		else
			for (int k = 0; k < N; k++)
				t.before = c + k < p.own ? fmaxf(t.before, x[k]) : t.before;
		rises = most > t.most;
		if (rises) {
			t.rest = (t.rest + 1) * expf(t.most - most);
			t.most = most;
		}
		base = t.most == -INFINITY ? 0 : t.most;
		for (int k = 0; k < N; k++) {
			bool itself = rises && x[k] == base;

			t.rest += itself ? 0 : expf(x[k] - base);
			rises = rises && !itself;
		}
	}
	FF_METHOD static struct seen join(const struct seen &a, const struct seen &b)
	{
		struct seen y = a.most >= b.most ? a : b, x = a.most >= b.most ? b : a;

		y.rest += x.most == -INFINITY ? x.rest : (1 + x.rest) * expf(x.most - y.most);
		y.before = fmaxf(x.before, y.before);
		return y;
	}
	template <class T>
	FF_METHOD void end(const struct ff_loss &l, const struct position &p, int64_t,
			const struct seen &t, const T *logits) const
	{
		bool none = t.most == -INFINITY;
		bool here = p.own >= 0 && p.own < l.classes;

		if (p.label != l.ignore && !p.valid) {
			error->value = p.label;
			report(error);
		}
		all[p.pair] = !p.valid ? 0 : none && isnan(t.rest) ? NAN : t.most;
		all[p.pair + 1] = !p.valid || (none && !isnan(t.rest)) ? 0 : t.rest;
		own[p.pair] = !p.valid ? 0 : here ? real_get(logits[p.own * l.step]) : -INFINITY;
		own[p.pair + 1] = p.valid ? t.before : 0;
	}
};

/* By position, how much less than the largest of all the logits are. */
struct less_than_largest {
	struct tally {
		float most, sum;
	};
	const float *all;
	float *less;

	FF_METHOD struct tally begin(const struct position &p) const
	{
		return {all[p.pair], 0};
	}
	template <int N>
	FF_METHOD void add(struct tally &t, const struct position &, const float (&x)[N],
			int32_t) const
	{
		for (int k = 0; k < N; k++)
			t.sum += t.most - x[k];
	}
	FF_METHOD static struct tally join(const struct tally &a, const struct tally &b)
	{
		return {a.most, a.sum + b.sum};
	}
	template <class T>
	FF_METHOD void end(const struct ff_loss &, const struct position &, int64_t i,
			const struct tally &t, const T *) const
	{
		less[i] = t.sum;
	}
};

/* By position, how many of the classes here have a larger logit than the label. */
struct larger_than_label {
	struct tally {
		float label, sum;
	};
	const float *own;
	float *rank;

	FF_METHOD struct tally begin(const struct position &p) const
	{
		return {own[p.pair], 0};
	}
	template <int N>
	FF_METHOD void add(struct tally &t, const struct position &, const float (&x)[N],
			int32_t) const
	{
		for (int k = 0; k < N; k++)
			t.sum += x[k] <= t.label ? 0 : 1;
	}
	FF_METHOD static struct tally join(const struct tally &a, const struct tally &b)
	{
		return {a.label, a.sum + b.sum};
	}
	template <class T>
	FF_METHOD void end(const struct ff_loss &l, const struct position &p, int64_t i,
			const struct tally &t, const T *) const
	{
		rank[i] = p.valid ? t.sum : (float)l.all_classes;
	}
};

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
struct slope {
	float most, rest, scale, share, more;
};

FF_DEVICE struct slope slope_of(const struct ff_loss &l, const float *all, const struct position &p)
{
	float rest = all[p.pair + 1];

	return {all[p.pair], rest, (float)(l.weight / ((1 + (double)rest) * (double)valid_of(l))),
			(float)((1 + (double)rest) * l.each),
			(float)((1 + (double)rest) * (l.smooth - l.each))};
}

/* Of class `c`: for the label's, softmax - 1 without the rounding of what is nearly 1. */
FF_DEVICE float slope_at(const struct slope &s, const struct position &p, float x, int32_t c)
{
	float e = expf(x - s.most);

	e = c == p.own ? e - 1 - s.rest + s.more : e - s.share;
	return p.valid ? e * s.scale : 0;
}

template <class T>
FF_DEVICE struct pack<T> slopes_at(const struct slope &s, const struct position &p,
		const struct pack<T> &x, int32_t c) {
	struct pack<T> y;

	for (int k = 0; k < x.n; k++)
		real_put(&y.x[k], slope_at(s, p, real_get(x.x[k]), c + k));
	return y;
}

/* Threads as reduce_rows has them; the blocks of one blockIdx.x share the classes. */
template <class T>
FF_KERNEL void gradient_rows(
		struct ff_loss l, const T *logits, const int32_t *labels, const float *all, T *din)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
	int32_t lane = (int32_t)(blockIdx.y * blockDim.x + threadIdx.x);
	int32_t lanes = (int32_t)(gridDim.y * blockDim.x);
	struct position p;
	struct slope s;
	struct whole w;
	const struct pack<T> *from;
	struct pack<T> *to;

	if (i >= l.positions)
		return;
	p = find(l, labels, i);
	s = slope_of(l, all, p);
	logits += p.logit;
	din += p.logit;
	w = whole_of(logits, l.classes);
	if (behind_boundary(logits) != behind_boundary(din))
		w = {l.classes, 0};
	from = (const struct pack<T> *)(logits + w.from);
	to = (struct pack<T> *)(din + w.from);
	for (int32_t k = lane; k < w.packs; k += 2 * lanes) {
		int32_t second = k + lanes, c = w.from + k * from->n;
		struct pack<T> a = from[k], b = a;

		if (second < w.packs)
			b = from[second];
		to[k] = slopes_at(s, p, a, c);
		if (second < w.packs)
			to[second] = slopes_at(s, p, b, c + lanes * from->n);
	}
	for (int32_t k = lane; k < l.classes - w.packs * from->n; k += lanes) {
		int32_t c = k < w.from ? k : k + w.packs * from->n;

		real_put(&din[c], slope_at(s, p, real_get(logits[c]), c));
	}
}

/* Threads as reduce_columns has them; the blocks of one blockIdx.x share the classes. */
template <class T, int P>
FF_KERNEL void gradient_columns(
		struct ff_loss l, const T *logits, const int32_t *labels, const float *all, T *din)
{
	int64_t i = thread_index() * P;
	int32_t lane = (int32_t)(blockIdx.y * blockDim.y + threadIdx.y);
	int32_t lanes = (int32_t)(gridDim.y * blockDim.y);
	struct position p[P];
	struct slope s[P];

	if (i >= l.positions)
		return;
	for (int q = 0; q < P; q++) {
		p[q] = find(l, labels, i + q);
		s[q] = slope_of(l, all, p[q]);
	}
	for (int32_t first = lane * EACH; first < l.classes; first += lanes * EACH) {
		int64_t at = p[0].logit + first * l.step;
		struct beside<T, P> x[EACH];

		for (int c = 0; c < EACH; c++)
			if (first + c < l.classes)
				x[c] = *(const struct beside<T, P> *)(logits + at + c * l.step);
		for (int c = 0; c < EACH; c++) {
			if (first + c >= l.classes)
				break;
			for (int q = 0; q < P; q++)
				real_put(&x[c].x[q], slope_at(s[q], p[q], real_get(x[c].x[q]),
								     first + c));
			*(struct beside<T, P> *)(din + at + c * l.step) = x[c];
		}
	}
}

cudaError_t ff_launch_statistics(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, float *all, float *own, struct ff_device_error *error,
		cudaStream_t s)
{
	struct statistics op = {all, own, error};

	if (type == FF_BF16)
		return reduce_classes<uint16_t>(type, l, logits, labels, op, s);
	return reduce_classes<float>(type, l, logits, labels, op, s);
}

cudaError_t ff_launch_less(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, float *less, cudaStream_t s)
{
	struct less_than_largest op = {all, less};

	if (type == FF_BF16)
		return reduce_classes<uint16_t>(type, l, logits, labels, op, s);
	return reduce_classes<float>(type, l, logits, labels, op, s);
}

cudaError_t ff_launch_rank(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *own, float *rank, cudaStream_t s)
{
	struct larger_than_label op = {own, rank};

	if (type == FF_BF16)
		return reduce_classes<uint16_t>(type, l, logits, labels, op, s);
	return reduce_classes<float>(type, l, logits, labels, op, s);
}

cudaError_t ff_launch_loss(const struct ff_loss *l, const int32_t *labels, const float *all,
		const float *own, const float *less, float *out, struct ff_device_error *error,
		cudaStream_t s)
{
	return ff_launch<FF_WIDE>(loss, dim3(1), dim3(l->positions > WIDE ? THREADS : LANES), s, *l,
			labels, all, own, less, out, error);
}

/* Blocks that share the classes of the positions of one: so many that all are enough, and that
 * threads have some `each` classes still. */
static unsigned shared_by(int64_t blocks, int64_t classes, int64_t each)
{
	int64_t wanted = BESIDES / blocks, most = classes / (4 * each);

	wanted = wanted < most ? wanted : most;
	return (unsigned)(wanted < 1 ? 1 : wanted);
}

template <class T>
static cudaError_t launch_gradient(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, void *din, cudaStream_t s)
{
	bool pairs = lie_in_pairs(type, l, (uintptr_t)logits | (uintptr_t)din);
	dim3 block = block_of_rows(type, l), grid(blocks_over(l->positions, block.y));

	if (l->step == 1) {
		grid.y = shared_by(grid.x, l->classes, (int64_t)block.x * pack<T>::n);
		return ff_launch(gradient_rows<T>, grid, block, s, *l, (const T *)logits, labels,
				all, (T *)din);
	}
	block = dim3(ACROSS, power_of_two((l->classes + EACH - 1) / EACH, FF_BLOCK / ACROSS));
	grid.x = blocks_over(l->positions, ACROSS * (pairs ? 2 : 1));
	grid.y = shared_by(grid.x, l->classes, (int64_t)block.y * EACH);
	return ff_launch(pairs ? gradient_columns<T, 2> : gradient_columns<T, 1>, grid, block, s,
			*l, (const T *)logits, labels, all, (T *)din);
}

cudaError_t ff_launch_loss_gradient(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, void *din, cudaStream_t s)
{
	if (type == FF_BF16)
		return launch_gradient<uint16_t>(type, l, logits, labels, all, din, s);
	return launch_gradient<float>(type, l, logits, labels, all, din, s);
}
