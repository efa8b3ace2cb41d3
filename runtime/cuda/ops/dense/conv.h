/* Convolutions: what conv.c tells conv.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CONV_H
#define FF_CUDA_CONV_H

#include <cuda_runtime_api.h>

#include "cuda/libs/filter.h"
#include "ff/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where cuDNN has no convolution: slow, but of any shape. */
cudaError_t ff_launch_filter(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *weight, const void *bias, void *out, cudaStream_t s);
/* `din` is of type `sink`: `type`, or float32. */
cudaError_t ff_launch_filter_data(enum ff_dtype type, enum ff_dtype sink, const struct ff_filter *f,
		const void *dout, const void *weight, void *din, cudaStream_t s);
cudaError_t ff_launch_filter_weight(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *dout, float *dweight, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
