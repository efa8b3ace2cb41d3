/* Updates, as C and their kernels share them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_UPDATES_H
#define FF_CUDA_UPDATES_H

#include <cuda_runtime_api.h>

#include "ff/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `f`, or, unless `captured` is NULL, what is there in device memory. */
cudaError_t ff_launch_update(const struct ff_optimizer *o, const union ff_factors *f,
		const union ff_factors *captured, float *weight, const float *gradient,
		float *const *state, uint16_t *rounded, int64_t n, const float *squares, float clip,
		uint32_t times, cudaStream_t s);
/* Of at least one number. */
cudaError_t ff_launch_scale(float *values, int64_t n, float factor, cudaStream_t s);
/* As struct ff_squares has it. */
cudaError_t ff_launch_squares(const float *gradient, int64_t n, float *sum, double *scratch,
		bool first, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
