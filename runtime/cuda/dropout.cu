/* Dropout: element i of the whole tensor (row-major, whatever the split) is kept when its
 * Philox number is at least p (graphs/base/philox.c; bit for bit the same numbers).
 * SPDX-License-Identifier: Apache-2.0 */
#include "dropout.h"
#include "real.cuh"

/* The word of element `index`. */
FF_DEVICE uint32_t philox_at(uint64_t key, uint64_t stream, uint64_t index)
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t x0 = (uint32_t)(index / 4), x1 = (uint32_t)(index / 4 >> 32);
	uint32_t x2 = (uint32_t)stream, x3 = (uint32_t)(stream >> 32), lane = index % 4;

	for (int i = 0; i < 10; i++) {
		uint64_t a = UINT64_C(0xD2511F53) * x0, b = UINT64_C(0xCD9E8D57) * x2;

		x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
		x1 = (uint32_t)b;
		x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
		x3 = (uint32_t)a;
		k0 += UINT32_C(0x9E3779B9);
		k1 += UINT32_C(0xBB67AE85);
	}
	return lane < 2 ? (lane == 0 ? x0 : x1) : (lane == 2 ? x2 : x3);
}

/* As ff_philox_stream of node and step. */
FF_DEVICE uint64_t stream_of(const struct ff_dropout &d)
{
	uint64_t step = d.figures ? d.figures->step : d.step;

	return (uint64_t)d.node << 32 | (uint32_t)step;
}

template <class T> FF_KERNEL void mask(struct ff_dropout d, const T *in, T *out)
{
	int64_t i = thread_index(), rest = i, index = d.first;
	float u;

	if (i >= d.volume)
		return;
	for (uint32_t k = d.rank; k-- > 0;) {
		int64_t next = rest / d.n[k];

		index += (rest - next * d.n[k]) * d.index[k];
		rest = next;
	}
	u = (float)(philox_at(d.seed, stream_of(d), (uint64_t)index) >> 8) * (1.0f / 16777216);
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
