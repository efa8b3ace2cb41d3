/* Norms: what norm.c tells norm.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_NORM_H
#define FF_CUDA_NORM_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "ff/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which gradients are added to what is there. */
struct ff_norm_adds {
	int32_t weight, bias;
};

/* `saved`: a pair a row.  `weight`, `bias` and the gradients of either may be NULL; those are
 * summed in an order that depends on shapes alone, by way of `scratch`. */
cudaError_t ff_launch_norm(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *weight, const void *bias, void *y, float *saved, cudaStream_t s);
cudaError_t ff_launch_norm_gradient(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *dy, const void *weight, const float *saved, void *dx, bool adds,
		cudaStream_t s);
int64_t ff_norm_scratch(enum ff_dtype type, const struct ff_norm *n);
cudaError_t ff_launch_norm_weights(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *dy, const float *saved, float *dweight, float *dbias,
		struct ff_norm_adds adds, float *scratch, uint32_t *tickets, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
