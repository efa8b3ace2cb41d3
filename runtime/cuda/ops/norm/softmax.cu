/* Softmax along an axis, its logarithm, and their preludes.  A block has as many rows as it is
 * wide; threads of one column share a row.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/real.cuh"
#include "softmax.h"

FF_DEVICE float joined(float x, float other, bool largest)
{
	return largest ? ff_larger(x, other) : x + other;
}

/* The same for all threads of a column, whatever each of them has found.  Where a block has one
 * column, warps join theirs first. */
FF_DEVICE float join_column(float *part, float x, bool largest)
{
	const unsigned lanes = blockDim.x == 1 ? 32 : 1;

	for (unsigned apart = lanes / 2; apart > 0; apart /= 2)
		x = joined(x, __shfl_xor_sync(0xffffffff, x, (int)apart), largest);
	if (threadIdx.y % lanes == 0)
		part[threadIdx.y / lanes * blockDim.x + threadIdx.x] = x;
	__syncthreads();
	x = part[threadIdx.x];
	for (unsigned k = 1; k < blockDim.y / lanes; k++)
		x = joined(x, part[k * blockDim.x + threadIdx.x], largest);
	__syncthreads();
	return x;
}

/* The row of a thread: its first element, and how many there are, none behind the last row. */
FF_DEVICE int64_t find_row(const struct ff_soft &f, int64_t *length)
{
	int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, outer = row / f.inner;

	*length = row < f.rows ? f.length : 0;
	return outer * f.length * f.inner + (row - outer * f.inner);
}

/* The two numbers of a thread's row; behind the last row none. */
FF_DEVICE int64_t pair_at(const struct ff_soft &f)
{
	int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, at = 0;

	for (uint32_t a = f.axes; a-- > 0; row /= f.n[a])
		at += row % f.n[a] * f.step[a];
	return at;
}

/* The largest of what the part has of a row, and the sum of exp(x - that). */
template <class T>
FF_DEVICE float find_sum(const struct ff_soft &f, const T *in, int64_t first, int64_t length,
		float *part, float *most)
{
	float sum = 0;

	*most = -INFINITY;
	for (int64_t i = threadIdx.y; i < length; i += blockDim.y)
		*most = ff_larger(real_get(in[first + i * f.inner]), *most);
	*most = join_column(part, *most, true);
	for (int64_t i = threadIdx.y; i < length; i += blockDim.y)
		sum += expf(real_get(in[first + i * f.inner]) - *most);
	return join_column(part, sum, false);
}

/* The same of all of a row. */
template <class T>
FF_DEVICE float find_all(const struct ff_soft &f, const T *in, const float *pairs, int64_t first,
		int64_t length, float *part, float *most)
{
	if (!pairs)
		return find_sum(f, in, first, length, part, most);
	if (!length)
		return 1;
	*most = pairs[pair_at(f)];
	return 1 + pairs[pair_at(f) + 1];
}

template <class T> FF_KERNEL void soften(struct ff_soft f, const T *in, const float *pairs, T *out)
{
	FF_SHARED float part[BLOCK];
	int64_t length, first = find_row(f, &length);
	float most, sum = find_all(f, in, pairs, first, length, part, &most);

	for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
		float x = real_get(in[first + i * f.inner]) - most;

		real_put(&out[first + i * f.inner], f.log ? x - logf(sum) : expf(x) / sum);
	}
}

/* A part that has nothing but -infinity knows of no others. */
template <class T> FF_KERNEL void statistics(struct ff_soft f, const T *in, float *pairs)
{
	FF_SHARED float part[BLOCK];
	int64_t length, first = find_row(f, &length);
	float most, sum = find_sum(f, in, first, length, part, &most);

	if (threadIdx.y || !length)
		return;
	pairs[pair_at(f)] = most;
	pairs[pair_at(f) + 1] = most != -INFINITY ? sum - 1 : 0;
}

/* The part's share of what the slope has of all elements of a row: the sum of y dy, or of dy. */
template <class T>
FF_DEVICE float find_share(const struct ff_soft &f, const T *in, const T *dout, int64_t first,
		int64_t length, float most, float sum, float *part)
{
	float share = 0;

	for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
		int64_t at = first + i * f.inner;
		float y = f.log ? 1 : expf(real_get(in[at]) - most) / sum;

		share += y * real_get(dout[at]);
	}
	return join_column(part, share, false);
}

template <class T>
FF_KERNEL void share_sums(
		struct ff_soft f, const T *in, const float *pairs, const T *dout, float *dpairs)
{
	FF_SHARED float part[BLOCK];
	int64_t length, first = find_row(f, &length);
	float most = 0, sum = find_all(f, in, pairs, first, length, part, &most);
	float share = find_share(f, in, dout, first, length, most, sum, part);

	if (threadIdx.y || !length)
		return;
	dpairs[pair_at(f)] = share;
	dpairs[pair_at(f) + 1] = f.leads ? most + logf(sum) : 0;
}

template <class T>
FF_KERNEL void slope(struct ff_soft f, const T *in, const float *dpairs, T *gradient)
{
	FF_SHARED float part[BLOCK];
	int64_t length, first = find_row(f, &length);
	float most = 0, sum = 1, all = 0;

	if (!dpairs) {
		sum = find_sum(f, in, first, length, part, &most);
		all = find_share(f, in, gradient, first, length, most, sum, part);
	} else if (length) {
		all = dpairs[pair_at(f)];
		most = dpairs[pair_at(f) + 1];
	}
	for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
		int64_t at = first + i * f.inner;
		float y = expf(real_get(in[at]) - most) / sum, dy = real_get(gradient[at]);

		real_put(&gradient[at], f.log ? dy - y * all : y * (dy - all));
	}
}

/* Neighbouring threads read neighbours. */
static dim3 block_of(const struct ff_soft *f)
{
	unsigned wide = f->inner > 1 || f->length < 64 ? 32 : 1;

	return dim3(wide, BLOCK / wide);
}

static dim3 grid_of(const struct ff_soft *f)
{
	unsigned wide = block_of(f).x;

	return dim3((unsigned)((f->rows + wide - 1) / wide));
}

#define LAUNCH(kernel, ...)                                                                        \
	ff_launch(kernel, grid_of(f), block_of(f), s, *f, (const T *)in, __VA_ARGS__)

template <class T>
static cudaError_t launch_softmax(const struct ff_soft *f, const void *in, const float *pairs,
		void *out, cudaStream_t s)
{
	return LAUNCH(soften<T>, pairs, (T *)out);
}

template <class T>
static cudaError_t launch_statistics(
		const struct ff_soft *f, const void *in, float *pairs, cudaStream_t s)
{
	return LAUNCH(statistics<T>, pairs);
}

template <class T>
static cudaError_t launch_share(const struct ff_soft *f, const void *in, const float *pairs,
		const void *dout, float *dpairs, cudaStream_t s)
{
	return LAUNCH(share_sums<T>, pairs, (const T *)dout, dpairs);
}

template <class T>
static cudaError_t launch_slope(const struct ff_soft *f, const void *in, const float *dpairs,
		void *gradient, cudaStream_t s)
{
	return LAUNCH(slope<T>, dpairs, (T *)gradient);
}

cudaError_t ff_launch_softmax(enum ff_dtype type, const struct ff_soft *f, const void *in,
		const float *pairs, void *out, cudaStream_t s)
{
	return type == FF_BF16 ? launch_softmax<uint16_t>(f, in, pairs, out, s)
			       : launch_softmax<float>(f, in, pairs, out, s);
}

cudaError_t ff_launch_soft_statistics(enum ff_dtype type, const struct ff_soft *f, const void *in,
		float *pairs, cudaStream_t s)
{
	return type == FF_BF16 ? launch_statistics<uint16_t>(f, in, pairs, s)
			       : launch_statistics<float>(f, in, pairs, s);
}

cudaError_t ff_launch_soft_share(enum ff_dtype type, const struct ff_soft *f, const void *in,
		const float *pairs, const void *dout, float *dpairs, cudaStream_t s)
{
	return type == FF_BF16 ? launch_share<uint16_t>(f, in, pairs, dout, dpairs, s)
			       : launch_share<float>(f, in, pairs, dout, dpairs, s);
}

cudaError_t ff_launch_soft_slope(enum ff_dtype type, const struct ff_soft *f, const void *in,
		const float *dpairs, void *gradient, cudaStream_t s)
{
	return type == FF_BF16 ? launch_slope<uint16_t>(f, in, dpairs, gradient, s)
			       : launch_slope<float>(f, in, dpairs, gradient, s);
}
