/* Two sums at a time of many columns, of channels or weights: a block has ACROSS columns and DOWN
 * threads for each.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_SUMS_CUH
#define FF_CUDA_SUMS_CUH

#include <launch.cuh>

#define ACROSS 32
#define DOWN 8

struct sums {
	float a, b;
};

/* Of the threads of a column, in a fixed order; its first thread has them. */
FF_DEVICE struct sums add_down(struct sums (*part)[ACROSS], struct sums sum)
{
	part[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	for (int k = 1; k < DOWN && threadIdx.y == 0; k++) {
		sum.a += part[k][threadIdx.x].a;
		sum.b += part[k][threadIdx.x].b;
	}
	return sum;
}

#endif
