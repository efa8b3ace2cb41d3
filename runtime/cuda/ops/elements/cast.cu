/* Whole numbers as real ones: a thread an element.  SPDX-License-Identifier: Apache-2.0 */
#include "cast.h"
#include "cuda/core/real.cuh"

template <class T> FF_KERNEL void cast(int64_t n, const int32_t *from, T *to)
{
	int64_t i = thread_index();

	if (i < n)
		real_put(&to[i], (float)from[i]);
}

cudaError_t ff_launch_cast(
		const int32_t *from, enum ff_dtype type, void *to, int64_t n, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(cast<uint16_t>, blocks_of(n), dim3(BLOCK), s, n, from,
				(uint16_t *)to);
	return ff_launch(cast<float>, blocks_of(n), dim3(BLOCK), s, n, from, (float *)to);
}
