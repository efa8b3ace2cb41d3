/* Losses that compare each element with a target's: the mean and the gradient, as
 * runtime/cpu/ops/loss/point_loss.c has them.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/real.cuh"
#include "point_loss.h"

#define MOST 1024 /* blocks that add up */
#define EACH 4096 /* elements of a block, or more */

#define LOSS(name, loss, slope, right)                                                             \
	case FF_POINT_LOSS_##name:                                                                 \
		return loss;
#define SLOPE(name, loss, slope, right)                                                            \
	case FF_POINT_LOSS_##name:                                                                 \
		return slope;
#define RIGHT(name, loss, slope, right)                                                            \
	case FF_POINT_LOSS_##name:                                                                 \
		return right;
/* All threads take one way. */
FF_DEVICE float loss_of(int32_t function, float x, float t)
{
	switch (function) {
		FF_POINT_LOSSES(LOSS)
	}
	return 0;
}
FF_DEVICE float slope_of(int32_t function, float x, float t)
{
	switch (function) {
		FF_POINT_LOSSES(SLOPE)
	}
	return 0;
}
FF_DEVICE bool right_of(int32_t function, float x, float t)
{
	switch (function) {
		FF_POINT_LOSSES(RIGHT)
	}
	return false;
}
#undef LOSS
#undef SLOPE
#undef RIGHT

/* Of the whole batch. */
FF_DEVICE int64_t valid_of(const struct ff_points &p)
{
	return p.figures ? p.figures->valid[p.loss] : p.valid;
}

/* A target, or of a label one that counts or not. */
template <class T> FF_DEVICE float target_of(const struct ff_points &, T target)
{
	return real_get(target);
}
FF_DEVICE float target_of(const struct ff_points &p, int32_t label)
{
	return label == p.ignore ? NAN : 0;
}

/* Element `i` as what is predicted lies, and its target. */
template <class T, class L>
FF_DEVICE void take(
		const struct ff_points &p, const T *xs, const L *ts, int64_t i, float *x, float *t)
{
	int64_t at = 0, of_target = 0;

	for (uint32_t axis = p.loops.rank; axis-- > 0;) {
		int64_t rest = axis > 0 ? i / p.loops.n[axis] : 0,
			step = i - rest * p.loops.n[axis];

		at += step * p.loops.stride[FF_LOOP_X][axis];
		of_target += step * p.loops.stride[FF_LOOP_Y][axis];
		i = rest;
	}
	*x = real_get(xs[at]);
	*t = target_of(p, ts[of_target]);
}

FF_DEVICE void join(struct ff_points_share *a, const struct ff_points_share &b)
{
	a->sum += b.sum;
	a->valid += b.valid;
	a->right += b.right;
}

/* The threads' shares become the first one's. */
FF_DEVICE void add_up(struct ff_points_share *shares)
{
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (threadIdx.x < step)
			join(&shares[threadIdx.x], shares[threadIdx.x + step]);
	}
}

template <class T, class L>
FF_KERNEL void points(struct ff_points p, const T *xs, const L *ts, int64_t each,
		struct ff_points_share *out)
{
	FF_SHARED struct ff_points_share shares[BLOCK];
	int64_t first = blockIdx.x * each, end = first + each < p.n ? first + each : p.n;
	struct ff_points_share s = {0, 0, 0};

	for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
		float x, t;

		take(p, xs, ts, i, &x, &t);
		if (t != t)
			continue;
		s.sum += (double)loss_of(p.function, x, t);
		s.valid++;
		s.right += right_of(p.function, x, t);
	}
	shares[threadIdx.x] = s;
	add_up(shares);
	if (threadIdx.x == 0)
		out[blockIdx.x] = shares[0];
}

/* One block. */
FF_KERNEL void join_points(struct ff_points p, const struct ff_points_share *in, int64_t n,
		float *out, struct ff_device_error *error)
{
	FF_SHARED struct ff_points_share shares[BLOCK];
	struct ff_points_share s = {0, 0, 0};
	int64_t valid;

	for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
		join(&s, in[i]);
	shares[threadIdx.x] = s;
	add_up(shares);
	if (threadIdx.x > 0)
		return;
	s = shares[0];
	valid = valid_of(p);
	if (s.valid > valid) {
		error->count = s.valid;
		report(error);
	}
	out[0] = valid ? (float)(s.sum / (double)valid) : 0;
	out[1] = (float)s.right;
}

template <class T, class L>
FF_KERNEL void points_gradient(struct ff_points p, const T *xs, const L *ts, T *din)
{
	int64_t i = thread_index(), valid = valid_of(p);
	float scale = valid ? (float)((double)p.weight / (double)valid) : 0, x, t;

	if (i >= p.n)
		return;
	take(p, xs, ts, i, &x, &t);
	real_put(&din[i], t != t ? 0 : slope_of(p.function, x, t) * scale);
}

static int64_t each_of(int64_t n)
{
	int64_t least = (n + MOST - 1) / MOST;

	return least > EACH ? least : EACH;
}

static int64_t blocks_for(int64_t n)
{
	return n < 1 ? 1 : (n + each_of(n) - 1) / each_of(n);
}

int64_t ff_points_scratch(int64_t n)
{
	return blocks_for(n) * (int64_t)sizeof(struct ff_points_share);
}

template <class T, class L>
static cudaError_t launch(const struct ff_points *p, const void *x, const void *target,
		struct ff_points_share *shares, float *out, struct ff_device_error *error,
		cudaStream_t s)
{
	dim3 grid((unsigned)blocks_for(p->n));
	cudaError_t code = ff_launch(points<T, L>, grid, dim3(BLOCK), s, *p, (const T *)x,
			(const L *)target, each_of(p->n), shares);

	if (code != cudaSuccess)
		return code;
	return ff_launch(join_points, dim3(1), dim3(BLOCK), s, *p,
			(const struct ff_points_share *)shares, blocks_for(p->n), out, error);
}

template <class T, class L>
static cudaError_t launch_gradient(const struct ff_points *p, const void *x, const void *target,
		void *gradient, cudaStream_t s)
{
	return ff_launch(points_gradient<T, L>, blocks_of(p->n), dim3(BLOCK), s, *p, (const T *)x,
			(const L *)target, (T *)gradient);
}

cudaError_t ff_launch_points(enum ff_dtype type, const struct ff_points *p, const void *x,
		const void *target, struct ff_points_share *shares, float *out,
		struct ff_device_error *error, cudaStream_t s)
{
	if (type == FF_BF16)
		return (p->labels ? launch<uint16_t, int32_t> : launch<uint16_t, uint16_t>)(p, x,
				target, shares, out, error, s);
	return (p->labels ? launch<float, int32_t> : launch<float, float>)(p, x, target, shares,
			out, error, s);
}

cudaError_t ff_launch_points_gradient(enum ff_dtype type, const struct ff_points *p, const void *x,
		const void *target, void *gradient, cudaStream_t s)
{
	if (type == FF_BF16)
		return (p->labels ? launch_gradient<uint16_t, int32_t>
				  : launch_gradient<uint16_t, uint16_t>)(p, x, target, gradient, s);
	return (p->labels ? launch_gradient<float, int32_t> : launch_gradient<float, float>)(p, x,
			target, gradient, s);
}
