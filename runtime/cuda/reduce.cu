/* Gradients of maxima along axes; what else reductions do, binary.cu has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"
#include "real.cuh"

FF_DEVICE int64_t place_of(const struct ff_loops &l, uint32_t first, uint32_t end, int64_t i)
{
	int64_t at = 0;

	for (uint32_t axis = end; axis-- > first;) {
		int64_t rest = i / l.n[axis];

		at += (i - rest * l.n[axis]) * l.stride[FF_LOOP_X][axis];
		i = rest;
	}
	return at;
}

/* A thread has one maximum. */
template <class T>
FF_KERNEL void spread(struct ff_loops l, const T *in, const T *out, const T *dout, T *din,
		int64_t kept, int64_t steps)
{
	int64_t i = thread_index(), first, equal = 0;
	float y;

	if (i >= kept)
		return;
	first = place_of(l, 0, l.kept, i);
	y = real_get(out[i]);
	for (int64_t k = 0; k < steps; k++)
		equal += real_get(in[first + place_of(l, l.kept, l.rank, k)]) == y;
	for (int64_t k = 0; k < steps; k++) {
		int64_t at = first + place_of(l, l.kept, l.rank, k);

		real_put(&din[at], real_get(in[at]) == y ? real_get(dout[i]) / (float)equal : 0);
	}
}

template <class T>
static cudaError_t launch(const struct ff_loops *l, const void *in, const void *out,
		const void *dout, void *din, cudaStream_t s)
{
	int64_t kept = ff_loops_volume(l, 0, l->kept);

	return ff_launch(spread<T>, blocks_of(kept), dim3(BLOCK), s, *l, (const T *)in,
			(const T *)out, (const T *)dout, (T *)din, kept,
			ff_loops_volume(l, l->kept, l->rank));
}

cudaError_t ff_launch_spread(enum ff_dtype type, const struct ff_loops *loops, const void *in,
		const void *out, const void *dout, void *din, cudaStream_t s)
{
	return type == FF_BF16 ? launch<uint16_t>(loops, in, out, dout, din, s)
			       : launch<float>(loops, in, out, dout, din, s);
}
