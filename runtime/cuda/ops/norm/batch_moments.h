/* Batch norm's moments: what batch_norm.c tells batch_moments.cu.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_CUDA_BATCH_MOMENTS_H
#define FF_CUDA_BATCH_MOMENTS_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "ff/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `moments` has four numbers a channel, of each group, as FF_REDUCE_MOMENTS has them; so have
 * its gradients: (a, b, c, d) for d dy + b + c (x - a), which takes the place of dy, or (`sum` not
 * NULL) is added there.  All are summed in an order that depends on shapes alone, by way of
 * `scratch`. */
cudaError_t ff_launch_batch_moments(enum ff_dtype type, const struct ff_batch *b, const void *x,
		float *moments, float *scratch, uint32_t *tickets, cudaStream_t s);
cudaError_t ff_launch_batch_moments_gradient(enum ff_dtype type, const struct ff_batch *b,
		const void *x, const float *dmoments, void *gradient, void *sum, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
