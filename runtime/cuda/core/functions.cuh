/* Functions of numbers, as kernels call them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_FUNCTIONS_CUH
#define FF_CUDA_FUNCTIONS_CUH

#include <launch.cuh>

#define FF_FUNCTION FF_DEVICE
FF_FUNCTION float ff_exp(float x)
{
	return expf(x);
}
FF_FUNCTION float ff_log(float x)
{
	return logf(x);
}
FF_FUNCTION float ff_tanh(float x)
{
	return tanhf(x);
}
FF_FUNCTION float ff_erf(float x)
{
	return erff(x);
}
FF_FUNCTION float ff_lgamma(float x)
{
	return lgammaf(x);
}
#include "kernels/functions.h"

/* A relu, as kernels/unary.h has it. */
FF_DEVICE float rectify(float x)
{
	return x <= 0 ? 0 : x;
}

/* Its slope where it made `y`. */
FF_DEVICE float rectify_slope(float y)
{
	return y <= 0 ? 0 : 1;
}

/* The slope of a clip of `x`, likewise. */
FF_DEVICE float clip_slope(float x, float low, float high)
{
	return x >= low && x <= high ? 1 : 0;
}

#endif
