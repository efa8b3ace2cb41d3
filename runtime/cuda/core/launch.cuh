/* The one way in which kernels are declared and launched.  The tests have another file of this
 * name, with which the same kernels run on the host; so kernels use threadIdx, blockIdx,
 * blockDim, gridDim, FF_SHARED arrays, __syncthreads(), shuffles, ticket.cuh, report() of real.cuh,
 * ff_meet(), ff_plus(), __stwb() and mathematics, and nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_LAUNCH_CUH
#define FF_CUDA_LAUNCH_CUH

#include <cooperative_groups.h>
#include <cuda_runtime.h>

/* Threads of a block, at most: the compiler gives each so few registers that these can start. */
#define FF_BLOCK 256
#define FF_WIDE 1024
#define FF_KERNEL static __global__ __launch_bounds__(FF_BLOCK)
/* So many blocks a multiprocessor are enough: where the compiler, left alone, spills registers for
 * more of them. */
#define FF_KERNEL_BESIDE(blocks) static __global__ __launch_bounds__(FF_BLOCK, blocks)
#define FF_WIDE_KERNEL static __global__ __launch_bounds__(FF_WIDE, 1) /* ff_launch<FF_WIDE>() */
#define FF_DEVICE static __device__ __forceinline__
#define FF_METHOD __device__ __forceinline__ /* a struct's, static */
#define FF_SHARED __shared__
#define FF_UNROLL _Pragma("unroll 4") /* before a loop whose loads are to be in flight at once */

template <unsigned most = FF_BLOCK, class... P, class... A>
static inline cudaError_t ff_launch(
		void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	return [&](P... p) {
		void *pointers[] = {(void *)&p...};

		return cudaLaunchKernel((const void *)kernel, grid, block, pointers, 0, stream);
	}(args...);
}

/* The same for a kernel whose blocks meet, which are no more than the device runs at once: one a
 * multiprocessor always is ("Grid Synchronization", CUDA C++ Programming Guide).  For the double's
 * sake it has no FF_SHARED arrays, and whole warps. */
template <class... P, class... A>
static inline cudaError_t ff_launch_together(
		void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	return [&](P... p) {
		void *pointers[] = {(void *)&p...};

		return cudaLaunchCooperativeKernel(
				(const void *)kernel, grid, block, pointers, 0, stream);
	}(args...);
}

/* Before a loop of a constant number of turns: arrays that it goes through stay in registers. */
#define FF_UNROLL_ALL _Pragma("unroll")

/* A sum that is rounded by itself, not with a product before it. */
FF_DEVICE float ff_plus(float x, float y)
{
	return __fadd_rn(x, y);
}

/* All threads of all blocks come here, and see behind it what each wrote before it. */
FF_DEVICE void ff_meet()
{
	cooperative_groups::this_grid().sync();
}

#endif
