/* Rotary position embedding: the kernel's arguments, and what launches it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ROPE_H
#define FF_CUDA_ROPE_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"

struct ff_rope {
	int64_t rows, positions, first; /* rows of all samples; of each; the first one's place */
	int64_t heads, half;
	double base;
	double sign; /* -1: backward */
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_rope(enum ff_dtype type, const struct ff_rope *r, const void *x, void *y,
		cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
