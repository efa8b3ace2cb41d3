/* Whole numbers as real ones: what cast.c tells cast.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CAST_H
#define FF_CUDA_CAST_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_cast(
		const int32_t *from, enum ff_dtype type, void *to, int64_t n, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
