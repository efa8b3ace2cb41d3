/* Maxima along axes: what their preludes write, and their gradients; what else reductions do,
 * binary.cu has.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "fold.h"

template <class T>
FF_KERNEL void pair_up(const T *most, const float *count, float *pairs, int64_t n)
{
	int64_t i = thread_index();

	if (i >= n)
		return;
	pairs[2 * i] = real_get(most[i]);
	pairs[2 * i + 1] = count[i];
}

cudaError_t ff_launch_pair(enum ff_dtype type, const void *most, const float *count, float *pairs,
		int64_t n, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(pair_up<uint16_t>, blocks_of(n), dim3(BLOCK), s,
				(const uint16_t *)most, count, pairs, n);
	return ff_launch(pair_up<float>, blocks_of(n), dim3(BLOCK), s, (const float *)most, count,
			pairs, n);
}

/* A thread has one element of the gradient; where the largest is no number it is none. */
template <class T>
FF_KERNEL void spread(struct ff_loops l, const T *in, const float *pairs, const T *dout, T *din,
		int64_t n)
{
	int64_t i = thread_index(), left = i, y = 0, z = 0;
	float most, share;

	if (i >= n)
		return;
	for (uint32_t axis = l.rank; axis-- > 0;) {
		int64_t rest = axis > 0 ? left / l.n[axis] : 0, step = left - rest * l.n[axis];

		y += step * l.stride[FF_LOOP_Y][axis];
		z += step * l.stride[FF_LOOP_Z][axis];
		left = rest;
	}
	most = pairs[y];
	share = real_get(in[i]) == most ? real_get(dout[z]) / pairs[y + 1] : 0;
	real_put(&din[i], most == most ? share : most);
}

template <class T>
static cudaError_t launch(const struct ff_loops *l, const void *in, const float *pairs,
		const void *dout, void *din, cudaStream_t s)
{
	int64_t n = ff_loops_volume(l, 0, l->rank);

	return ff_launch(spread<T>, blocks_of(n), dim3(BLOCK), s, *l, (const T *)in, pairs,
			(const T *)dout, (T *)din, n);
}

cudaError_t ff_launch_spread(enum ff_dtype type, const struct ff_loops *loops, const void *in,
		const float *pairs, const void *dout, void *din, cudaStream_t s)
{
	return type == FF_BF16 ? launch<uint16_t>(loops, in, pairs, dout, din, s)
			       : launch<float>(loops, in, pairs, dout, din, s);
}
