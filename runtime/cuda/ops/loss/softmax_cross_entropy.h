/* The loss: what softmax_cross_entropy.c tells softmax_cross_entropy.cu.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_SOFTMAX_CROSS_ENTROPY_H
#define FF_CUDA_SOFTMAX_CROSS_ENTROPY_H

#include <cuda_runtime_api.h>

#include "cuda/core/rows.h"
#include "logits.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_statistics(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, float *all, float *own, struct ff_device_error *error,
		cudaStream_t s);
/* By position, how much less than the largest of all the logits here are, added up. */
cudaError_t ff_launch_less(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, float *less, cudaStream_t s);
/* By position, how many of the classes here have a larger logit than the label. */
cudaError_t ff_launch_rank(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *own, float *rank, cudaStream_t s);
/* `less` is NULL where nothing is smoothed. */
cudaError_t ff_launch_loss(const struct ff_loss *l, const int32_t *labels, const float *all,
		const float *own, const float *less, float *out, struct ff_device_error *error,
		cudaStream_t s);
cudaError_t ff_launch_loss_gradient(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, void *gradient, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
