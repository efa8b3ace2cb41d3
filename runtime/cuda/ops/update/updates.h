/* Updates, as C and their kernels share them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_UPDATES_H
#define FF_CUDA_UPDATES_H

#include <cuda_runtime_api.h>

#include "ff/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FF_UPDATES 16 /* by one launch, at most: its arguments are 4 KiB at most */
/* As struct ff_math_slots has it. */
cudaError_t ff_launch_updates(const struct ff_update *u, uint32_t n, cudaStream_t s);
/* Of at least one number. */
cudaError_t ff_launch_scale(float *values, int64_t n, float factor, cudaStream_t s);
/* As struct ff_squares has it. */
cudaError_t ff_launch_squares(const float *gradient, int64_t n, float *sum, double *scratch,
		bool first, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
