/* Dropout: element i of the whole tensor (row-major, whatever the split) is kept when its
 * Philox number is at least p.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/philox.cuh"
#include "cuda/core/real.cuh"
#include "dropout.h"

template <class T> FF_KERNEL void mask(struct ff_dropout d, const T *in, T *out)
{
	int64_t i = thread_index(), rest = i, index = d.first;
	float u;

	if (i >= d.volume)
		return;
	for (uint32_t k = d.rank; k-- > 0;) {
		int64_t next = k > 0 ? rest / d.n[k] : 0;

		index += (rest - next * d.n[k]) * d.index[k];
		rest = next;
	}
	u = philox_uniform(d.seed, philox_stream(d.node, d.step, d.figures), (uint64_t)index);
	real_put(&out[i], u < d.p ? 0 : real_get(in[i]) * d.scale);
}

cudaError_t ff_launch_dropout(enum ff_dtype type, const struct ff_dropout *d, const void *in,
		void *out, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(mask<uint16_t>, blocks_of(d->volume), dim3(BLOCK), s, *d,
				(const uint16_t *)in, (uint16_t *)out);
	return ff_launch(mask<float>, blocks_of(d->volume), dim3(BLOCK), s, *d, (const float *)in,
			(float *)out);
}
