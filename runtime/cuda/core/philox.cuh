/* Numbers of the element at a place (graphs/base/philox.c; bit for bit the same).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PHILOX_CUH
#define FF_CUDA_PHILOX_CUH

#include <launch.cuh>

#include "ff/capture.h"

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

/* As ff_philox_stream of node and step, which `figures` has where it is not NULL. */
FF_DEVICE uint64_t philox_stream(uint32_t node, uint64_t step, const struct ff_figures *figures)
{
	return (uint64_t)node << 32 | (uint32_t)(figures ? figures->step : step);
}

/* As ff_philox_uniform of one element. */
FF_DEVICE float philox_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
	return (float)(philox_at(seed, stream, index) >> 8) * (1.0f / 16777216);
}

#endif
