/* What kernels share: elements that are float32 or bfloat16 (uint16_t) in memory and float32
 * in between, packs of them, how many threads there are, and how they report.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_REAL_CUH
#define FF_CUDA_REAL_CUH

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cuda_bf16.h>

#include "rows.h"
#include <launch.cuh>

#define BLOCK FF_BLOCK /* threads */

FF_DEVICE float real_get(float x)
{
	return x;
}
FF_DEVICE float real_get(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

FF_DEVICE void real_put(float *to, float x)
{
	*to = x;
}
/* To the nearest, to the even one of two; a NaN stays one.  From compute capability 8.0 on it is
 * one instruction. */
FF_DEVICE void real_put(uint16_t *to, float x)
{
	*to = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

/* As one kernel writes it and another one reads it. */
template <class T> FF_DEVICE float real_rounded(float x)
{
	T rounded;

	real_put(&rounded, x);
	return real_get(rounded);
}

/* What a thread reads and writes at once: 16 bytes, or as many elements as one says. */
template <class T, int N = 16 / sizeof(T)> struct alignas(N * sizeof(T)) pack {
	static const int n = N;
	T x[N];
};

/* Some neighbours, of 16 bytes an access at most. */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) several {
	T x[N];
};

FF_DEVICE int64_t thread_index()
{
	return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Blocks for so many threads; launches of none are refused by the driver. */
static inline dim3 blocks_of(int64_t threads)
{
	return dim3((unsigned)(threads < 1 ? 1 : (threads + BLOCK - 1) / BLOCK));
}

/* The host may look while the kernel runs: what was found is there before it is said to be ("Memory
 * Fence Functions", CUDA C++ Programming Guide). */
FF_DEVICE void report(struct ff_device_error *t)
{
	__threadfence_system();
	t->found = 1;
}

/* Where element `i`, counted over the axes of `l`, is: the last axis is the innermost.  What is
 * left for the first one is less than its extent: nothing to divide. */
FF_DEVICE void loops_at(const struct ff_strided &l, int64_t i, int64_t *source, int64_t *sink)
{
	*source = *sink = 0;
	for (uint32_t axis = l.rank; axis-- > 0;) {
		int64_t next = axis > 0 ? i / l.n[axis] : 0, at = i - next * l.n[axis];

		*source += at * l.source[axis];
		*sink += at * l.sink[axis];
		i = next;
	}
}

#endif
