/* The one way in which kernels are declared and launched.  The tests have another file of this
 * name, with which the same kernels run on the host; so kernels use threadIdx, blockIdx,
 * blockDim, gridDim, FF_SHARED arrays, __syncthreads(), ticket.cuh, tell() of real.cuh and
 * mathematics, and nothing else.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_LAUNCH_CUH
#define FF_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

/* Threads of a block, at most: the compiler gives each so few registers that these can start. */
#define FF_BLOCK 256
#define FF_WIDE 1024
#define FF_KERNEL static __global__ __launch_bounds__(FF_BLOCK)
/* So many blocks a multiprocessor are enough: where the compiler, left alone, spills registers for
 * more of them. */
#define FF_KERNEL_BESIDE(blocks) static __global__ __launch_bounds__(FF_BLOCK, blocks)
#define FF_WIDE_KERNEL static __global__ __launch_bounds__(FF_WIDE) /* ff_launch<FF_WIDE>() */
#define FF_DEVICE static __device__ __forceinline__
#define FF_METHOD __device__ __forceinline__ /* a struct's, static */
#define FF_SHARED __shared__

template <unsigned most = FF_BLOCK, class... P, class... A>
static inline cudaError_t ff_launch(
		void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	return [&](P... p) {
		void *pointers[] = {(void *)&p...};

		return cudaLaunchKernel((const void *)kernel, grid, block, pointers, 0, stream);
	}(args...);
}

#endif
