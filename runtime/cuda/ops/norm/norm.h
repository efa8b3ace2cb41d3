/* Norms: what norm.c tells norm.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_NORM_H
#define FF_CUDA_NORM_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "ff/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `weight`, `bias` and the gradients of either may be NULL. */
struct ff_norm_values {
	const void *x, *weight, *bias, *dy;
	void *y, *dx;
	float *saved; /* a pair a row: forward writes it */
	float *dweight, *dbias;
	/* which gradients are added to what is there */
	int32_t adds_x, adds_weight, adds_bias, unused;
};

cudaError_t ff_launch_norm(enum ff_dtype type, const struct ff_norm *n,
		const struct ff_norm_values *v, cudaStream_t s);
/* dx. */
cudaError_t ff_launch_norm_gradient(enum ff_dtype type, const struct ff_norm *n,
		const struct ff_norm_values *v, cudaStream_t s);
/* Those of weight and bias, summed in an order that depends on shapes alone, by way of `scratch`.
 */
int64_t ff_norm_scratch(enum ff_dtype type, const struct ff_norm *n);
cudaError_t ff_launch_norm_weights(enum ff_dtype type, const struct ff_norm *n,
		const struct ff_norm_values *v, float *scratch, uint32_t *tickets, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
