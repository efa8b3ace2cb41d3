/* A relu in other operators' kernels, as kernels/unary.h has it.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_CUDA_RELU_CUH
#define FF_CUDA_RELU_CUH

#include <launch.cuh>

FF_DEVICE float rectify(float x)
{
	return x <= 0 ? 0 : x;
}

/* Its slope where it made `y`. */
FF_DEVICE float rectify_slope(float y)
{
	return y <= 0 ? 0 : 1;
}

#endif
