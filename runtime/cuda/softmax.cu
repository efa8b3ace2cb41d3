/* Softmax along an axis, and its logarithm.  A block has as many rows as it is wide; threads of one
 * column share a row.  SPDX-License-Identifier: Apache-2.0 */
#include "real.cuh"
#include "softmax.h"

/* The same for all threads of a column, whatever each of them has found. */
FF_DEVICE float join_column(float *part, float x, bool largest)
{
	part[threadIdx.y * blockDim.x + threadIdx.x] = x;
	__syncthreads();
	x = part[threadIdx.x];
	for (unsigned k = 1; k < blockDim.y; k++) {
		float other = part[k * blockDim.x + threadIdx.x];

		x = !largest ? x + other : x > other ? x : other;
	}
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

template <class T> FF_KERNEL void soften(struct ff_soft f, const T *in, T *out)
{
	FF_SHARED float part[BLOCK];
	int64_t length, first = find_row(f, &length);
	float most = -INFINITY, sum = 0;

	for (int64_t i = threadIdx.y; i < length; i += blockDim.y)
		most = fmaxf(most, real_get(in[first + i * f.inner]));
	most = join_column(part, most, true);
	for (int64_t i = threadIdx.y; i < length; i += blockDim.y)
		sum += expf(real_get(in[first + i * f.inner]) - most);
	sum = join_column(part, sum, false);
	for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
		float x = real_get(in[first + i * f.inner]) - most;

		real_put(&out[first + i * f.inner], f.log ? x - logf(sum) : expf(x) / sum);
	}
}

template <class T> FF_KERNEL void soften_back(struct ff_soft f, const T *out, const T *dout, T *din)
{
	FF_SHARED float part[BLOCK];
	int64_t length, first = find_row(f, &length);
	float sum = 0;

	for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
		int64_t at = first + i * f.inner;

		sum += real_get(dout[at]) * (f.log ? 1 : real_get(out[at]));
	}
	sum = join_column(part, sum, false);
	for (int64_t i = threadIdx.y; i < length; i += blockDim.y) {
		int64_t at = first + i * f.inner;
		float y = real_get(out[at]), dy = real_get(dout[at]);

		real_put(&din[at], f.log ? dy - expf(y) * sum : y * (dy - sum));
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

cudaError_t ff_launch_softmax(enum ff_dtype type, const struct ff_soft *f, const void *in,
		void *out, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(soften<uint16_t>, grid_of(f), block_of(f), s, *f,
				(const uint16_t *)in, (uint16_t *)out);
	return ff_launch(soften<float>, grid_of(f), block_of(f), s, *f, (const float *)in,
			(float *)out);
}

cudaError_t ff_launch_softmax_gradient(enum ff_dtype type, const struct ff_soft *f, const void *out,
		const void *dout, void *din, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(soften_back<uint16_t>, grid_of(f), block_of(f), s, *f,
				(const uint16_t *)out, (const uint16_t *)dout, (uint16_t *)din);
	return ff_launch(soften_back<float>, grid_of(f), block_of(f), s, *f, (const float *)out,
			(const float *)dout, (float *)din);
}
