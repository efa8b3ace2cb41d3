/* Kernels of functions of one element, and sums.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ELEMENTWISE_H
#define FF_CUDA_ELEMENTWISE_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/unary.h"

#define FF_SUMMANDS 130 /* FF_MAX_INPUTS */

struct ff_summands {
	const void *in[FF_SUMMANDS];
	uint32_t n, unused;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Without `dy` forward: out = f(v); else out = dy f'(v), as unary.h says. */
cudaError_t ff_launch_unary(enum ff_unary f, enum ff_dtype type, const void *v, const void *dy,
		void *out, int64_t n, float a, float b, cudaStream_t s);
cudaError_t ff_launch_add(enum ff_dtype type, const struct ff_summands *x, void *out, int64_t n,
		cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
