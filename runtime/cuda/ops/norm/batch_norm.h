/* Batch norm: what batch_norm.c tells batch_norm.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_BATCH_NORM_H
#define FF_CUDA_BATCH_NORM_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "ff/norm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of `scratch` for sums of either kernel. */
int64_t ff_batch_scratch(enum ff_dtype type, const struct ff_batch *b);

/* `moments` NULL: by what is kept.  `weight`, `bias` may be NULL. */
struct ff_batch_values {
	const void *x, *weight, *bias;
	void *dy;
	const float *moments;
	float *mean, *variance;            /* kept */
	float *dmoments, *dweight, *dbias; /* NULL where none are wanted */
	const void *beside;                /* forward: NULL, or what the output is added to */
	/* Backward: NULL, or the gradient that comes from behind a relu, a sum or both, or a clip;
	 * then dy is written.  Of the relu the output, of the clip what it clips, of the sum the
	 * other one's gradient; or NULL. */
	const void *behind, *slope_of;
	void *dbeside;
	void *kept;           /* forward: NULL, or what is clipped */
	uint32_t relu, clips; /* so goes the output, or (relu, forward) the sum */
	float low, high;      /* of a clip */
};
cudaError_t ff_launch_batch_norm(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, void *y, cudaStream_t s);
/* The sums over dy, and updates what is kept. */
cudaError_t ff_launch_batch_norm_gradient(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, float *scratch, uint32_t *tickets, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
