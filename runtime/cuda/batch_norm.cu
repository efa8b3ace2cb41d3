/* Batch norm: sums of each channel by blocks that have 32 channels and a share of the elements,
 * then of those; everything else by element.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm.h"
#include "real.cuh"

#define ACROSS 32
#define DOWN 8
#define MOST 64  /* shares of the elements of a channel */
#define CHUNK 32 /* elements of which a thread makes moments at a time */

struct moments {
	float count, mean, squares, unused;
};
struct two {
	float a, b;
};

FF_DEVICE struct moments merge(struct moments x, struct moments y)
{
	float count = x.count + y.count, apart = x.mean - y.mean;

	if (x.count == 0)
		return y;
	if (y.count == 0)
		return x;
	x.mean = x.mean * (x.count / count) + y.mean * (y.count / count);
	x.squares += y.squares + apart * apart * (x.count * y.count / count);
	x.count = count;
	return x;
}

/* Element `i` of channel `c`. */
FF_DEVICE int64_t locate(const struct ff_batch &b, int64_t c, int64_t i)
{
	if (b.inner == 1)
		return i * b.channels + c;
	return (i / b.inner * b.channels + c) * b.inner + i % b.inner;
}

FF_DEVICE int64_t channel_of(const struct ff_batch &b, int64_t i)
{
	return i / b.inner % b.channels;
}

/* Up to CHUNK elements from `first` on, DOWN apart, as distances from the first. */
template <class T>
FF_DEVICE struct moments read_chunk(
		const struct ff_batch &b, const T *x, int64_t c, int64_t first, int64_t end)
{
	float origin = real_get(x[locate(b, c, first)]), sum = 0, squares = 0, n = 0;
	struct moments m;

	for (int64_t i = first; i < end && i < first + CHUNK * DOWN; i += DOWN) {
		float d = real_get(x[locate(b, c, i)]) - origin;

		sum += d;
		squares += d * d;
		n += 1;
	}
	m.count = n;
	m.mean = origin + sum / n;
	m.squares = squares - sum * (sum / n);
	m.unused = 0;
	return m;
}

template <class T>
FF_KERNEL void share_moments(struct ff_batch b, int64_t share, const T *x, struct moments *all)
{
	FF_SHARED struct moments part[DOWN][ACROSS];
	int64_t c = (int64_t)blockIdx.x * ACROSS + threadIdx.x, first = blockIdx.y * share;
	int64_t end = b.outer * b.inner;
	struct moments m = {0, 0, 0, 0};

	if (end > first + share)
		end = first + share;
	for (int64_t i = first + threadIdx.y; c < b.channels && i < end; i += CHUNK * DOWN)
		m = merge(m, read_chunk(b, x, c, i, end));
	part[threadIdx.y][threadIdx.x] = m;
	__syncthreads();
	if (threadIdx.y > 0 || c >= b.channels)
		return;
	for (int k = 1; k < DOWN; k++)
		m = merge(m, part[k][threadIdx.x]);
	all[blockIdx.y * b.channels + c] = m;
}

FF_KERNEL void merge_shares(
		int64_t channels, int64_t shares, const struct moments *all, struct moments *out)
{
	int64_t c = thread_index();
	struct moments m = {0, 0, 0, 0};

	if (c >= channels)
		return;
	for (int64_t i = 0; i < shares; i++)
		m = merge(m, all[i * channels + c]);
	out[c] = m;
}

/* As the sums came back: d g + b + c (x - a). */
template <class T>
FF_KERNEL void moments_gradient(struct ff_batch b, int64_t n, const T *x, const float *sums, T *g)
{
	int64_t i = thread_index();
	const float *s;

	if (i >= n)
		return;
	s = sums + 4 * channel_of(b, i);
	real_put(&g[i], s[3] * real_get(g[i]) + s[1] + s[2] * (real_get(x[i]) - s[0]));
}

FF_DEVICE float rate_of(const struct ff_batch &b, const struct ff_batch_values &v, int64_t c)
{
	float variance = v.moments ? v.moments[4 * c + 2] / v.moments[4 * c] : v.variance[c];

	return 1 / sqrtf(variance + b.epsilon);
}

template <class T>
FF_KERNEL void forward(struct ff_batch b, int64_t n, struct ff_batch_values v, T *y)
{
	int64_t i = thread_index(), c;
	float x;

	if (i >= n)
		return;
	c = channel_of(b, i);
	x = real_get(((const T *)v.x)[i]) - (v.moments ? v.moments[4 * c + 1] : v.mean[c]);
	x *= rate_of(b, v, c);
	if (v.weight)
		x *= real_get(((const T *)v.weight)[c]);
	if (v.bias)
		x += real_get(((const T *)v.bias)[c]);
	real_put(&y[i], x);
}

/* dy and dy (x - mean). */
template <class T>
FF_KERNEL void share_sums(
		struct ff_batch b, int64_t share, struct ff_batch_values v, struct two *all)
{
	FF_SHARED struct two part[DOWN][ACROSS];
	int64_t c = (int64_t)blockIdx.x * ACROSS + threadIdx.x, first = blockIdx.y * share;
	int64_t end = b.outer * b.inner;
	float mean = c < b.channels ? v.moments[4 * c + 1] : 0;
	struct two sum = {0, 0};

	if (end > first + share)
		end = first + share;
	for (int64_t i = first + threadIdx.y; c < b.channels && i < end; i += DOWN) {
		int64_t at = locate(b, c, i);
		float d = real_get(((const T *)v.dy)[at]);

		sum.a += d;
		sum.b += d * (real_get(((const T *)v.x)[at]) - mean);
	}
	part[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y > 0 || c >= b.channels)
		return;
	for (int k = 1; k < DOWN; k++) {
		sum.a += part[k][threadIdx.x].a;
		sum.b += part[k][threadIdx.x].b;
	}
	all[blockIdx.y * b.channels + c] = sum;
}

/* What comes of the sums over this part, and what is kept. */
template <class T>
FF_KERNEL void write_sums(
		struct ff_batch b, int64_t shares, struct ff_batch_values v, const struct two *all)
{
	int64_t c = thread_index();
	struct two sum = {0, 0};
	const float *m = v.moments + 4 * c;
	float rate, scale;

	if (c >= b.channels)
		return;
	for (int64_t i = 0; i < shares; i++) {
		sum.a += all[i * b.channels + c].a;
		sum.b += all[i * b.channels + c].b;
	}
	rate = scale = rate_of(b, v, c);
	if (v.weight)
		scale *= real_get(((const T *)v.weight)[c]);
	if (v.dweight)
		v.dweight[c] = sum.b * rate;
	if (v.dbias)
		v.dbias[c] = sum.a;
	if (v.dmoments) {
		v.dmoments[4 * c] = m[1] * ((float)(b.outer * b.inner) / m[0]);
		v.dmoments[4 * c + 1] = -scale * sum.a / m[0];
		v.dmoments[4 * c + 2] = -scale * rate * rate * sum.b / m[0];
		v.dmoments[4 * c + 3] = scale * ((float)(b.outer * b.inner) / m[0]);
	}
	v.mean[c] += b.momentum * (m[1] - v.mean[c]);
	v.variance[c] += b.momentum * (m[2] / (m[0] - 1) - v.variance[c]);
}

/* How many there are depends on the shape alone, and so does every sum. */
static int64_t share_of(const struct ff_batch *b)
{
	int64_t least = (b->outer * b->inner + MOST - 1) / MOST;

	return least > 256 ? least : 256;
}

static int64_t shares_of(const struct ff_batch *b)
{
	return (b->outer * b->inner + share_of(b) - 1) / share_of(b);
}

static dim3 grid_of(const struct ff_batch *b)
{
	return dim3((unsigned)((b->channels + ACROSS - 1) / ACROSS), (unsigned)shares_of(b));
}

static int64_t volume(const struct ff_batch *b)
{
	return b->outer * b->channels * b->inner;
}

int64_t ff_batch_scratch(const struct ff_batch *b)
{
	return shares_of(b) * b->channels * (int64_t)sizeof(struct moments);
}

cudaError_t ff_launch_batch_moments(enum ff_dtype type, const struct ff_batch *b, const void *x,
		float *moments, float *scratch, cudaStream_t s)
{
	struct moments *all = (struct moments *)scratch;
	dim3 block(ACROSS, DOWN);
	cudaError_t code;

	if (type == FF_BF16)
		code = ff_launch(share_moments<uint16_t>, grid_of(b), block, s, *b, share_of(b),
				(const uint16_t *)x, all);
	else
		code = ff_launch(share_moments<float>, grid_of(b), block, s, *b, share_of(b),
				(const float *)x, all);
	if (code != cudaSuccess)
		return code;
	return ff_launch(merge_shares, blocks_of(b->channels), dim3(BLOCK), s, b->channels,
			shares_of(b), (const struct moments *)all, (struct moments *)moments);
}

cudaError_t ff_launch_batch_moments_gradient(enum ff_dtype type, const struct ff_batch *b,
		const void *x, const float *dmoments, void *gradient, cudaStream_t s)
{
	int64_t n = volume(b);

	if (type == FF_BF16)
		return ff_launch(moments_gradient<uint16_t>, blocks_of(n), dim3(BLOCK), s, *b, n,
				(const uint16_t *)x, dmoments, (uint16_t *)gradient);
	return ff_launch(moments_gradient<float>, blocks_of(n), dim3(BLOCK), s, *b, n,
			(const float *)x, dmoments, (float *)gradient);
}

cudaError_t ff_launch_batch_norm(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, void *y, cudaStream_t s)
{
	int64_t n = volume(b);

	if (type == FF_BF16)
		return ff_launch(forward<uint16_t>, blocks_of(n), dim3(BLOCK), s, *b, n, *v,
				(uint16_t *)y);
	return ff_launch(forward<float>, blocks_of(n), dim3(BLOCK), s, *b, n, *v, (float *)y);
}

template <class T>
static cudaError_t launch_gradient(const struct ff_batch *b, const struct ff_batch_values *v,
		float *scratch, cudaStream_t s)
{
	struct two *all = (struct two *)scratch;
	cudaError_t code = ff_launch(
			share_sums<T>, grid_of(b), dim3(ACROSS, DOWN), s, *b, share_of(b), *v, all);

	if (code != cudaSuccess)
		return code;
	return ff_launch(write_sums<T>, blocks_of(b->channels), dim3(BLOCK), s, *b, shares_of(b),
			*v, (const struct two *)all);
}

cudaError_t ff_launch_batch_norm_gradient(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, float *scratch, cudaStream_t s)
{
	return type == FF_BF16 ? launch_gradient<uint16_t>(b, v, scratch, s)
			       : launch_gradient<float>(b, v, scratch, s);
}
