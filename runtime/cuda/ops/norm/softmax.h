/* Softmax: what softmax.c tells softmax.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_SOFTMAX_H
#define FF_CUDA_SOFTMAX_H

#include <cuda_runtime_api.h>

#include "kernels/softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With pairs of all of the axis (FF_REDUCE_LOG_SUM_EXP), or, where they are NULL, of the part that
 * is all of it. */
cudaError_t ff_launch_softmax(enum ff_dtype type, const struct ff_soft *f, const void *in,
		const float *pairs, void *out, cudaStream_t s);
/* Pairs of the part. */
cudaError_t ff_launch_soft_statistics(enum ff_dtype type, const struct ff_soft *f, const void *in,
		float *pairs, cudaStream_t s);
/* What the part adds to the gradient of `pairs`. */
cudaError_t ff_launch_soft_share(enum ff_dtype type, const struct ff_soft *f, const void *in,
		const float *pairs, const void *dout, float *dpairs, cudaStream_t s);
/* In place of the output's gradient, with that of pairs, or NULL. */
cudaError_t ff_launch_soft_slope(enum ff_dtype type, const struct ff_soft *f, const void *in,
		const float *dpairs, void *gradient, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
