/* Maxima along axes: what their preludes write, and their gradients; what else reductions do,
 * binary.cu has.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/places.cuh"
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

struct spreading {
	struct ff_loops loops;
	struct divisor by[FF_MAX_RANK];
	int64_t n;
};

/* Where element `i` of the gradient has its pair, and what it is a share of. */
template <class I> FF_DEVICE void sources_of(const struct spreading &s, I i, int64_t *y, int64_t *z)
{
	for (uint32_t axis = s.loops.rank; axis-- > 0;) {
		I step = i;

		i = axis > 0 ? (I)divided(s.by[axis], &step) : 0;
		*y += (int64_t)step * s.loops.stride[FF_LOOP_Y][axis];
		*z += (int64_t)step * s.loops.stride[FF_LOOP_Z][axis];
	}
}

/* A thread has one element of the gradient; where the largest is no number it is none. */
template <class T>
FF_KERNEL void spread(struct spreading s, const T *in, const float *pairs, const T *dout, T *din)
{
	int64_t i = thread_index(), y = 0, z = 0;
	float most, share;

	if (i >= s.n)
		return;
	if (s.n <= FF_NARROW)
		sources_of(s, (uint32_t)i, &y, &z);
	else
		sources_of(s, i, &y, &z);
	most = pairs[y];
	share = real_get(in[i]) == most ? real_get(dout[z]) / pairs[y + 1] : 0;
	real_put(&din[i], most == most ? share : most);
}

template <class T>
static cudaError_t launch(const struct ff_loops *l, const void *in, const float *pairs,
		const void *dout, void *din, cudaStream_t s)
{
	struct spreading all = {*l, {}, ff_loops_volume(l, 0, l->rank)};

	for (uint32_t i = 0; i < l->rank; i++)
		all.by[i] = divisor_of(l->n[i]);
	return ff_launch(spread<T>, blocks_of(all.n), dim3(BLOCK), s, all, (const T *)in, pairs,
			(const T *)dout, (T *)din);
}

cudaError_t ff_launch_spread(enum ff_dtype type, const struct ff_loops *loops, const void *in,
		const float *pairs, const void *dout, void *din, cudaStream_t s)
{
	return type == FF_BF16 ? launch<uint16_t>(loops, in, pairs, dout, din, s)
			       : launch<float>(loops, in, pairs, dout, din, s);
}
