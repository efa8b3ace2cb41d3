/* Softmax: what softmax.c tells softmax.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_SOFTMAX_H
#define FF_CUDA_SOFTMAX_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"

/* Rows of a softmax: `length` elements, `inner` apart. */
struct ff_soft {
	int64_t rows, length, inner;
	int32_t log, unused;
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_softmax(enum ff_dtype type, const struct ff_soft *f, const void *in,
		void *out, cudaStream_t s);
cudaError_t ff_launch_softmax_gradient(enum ff_dtype type, const struct ff_soft *f, const void *out,
		const void *dout, void *din, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
