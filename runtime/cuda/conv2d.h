/* Convolutions: what conv2d.c tells conv2d.cu, and cuDNN.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CONV2D_H
#define FF_CUDA_CONV2D_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"

/* Images of N H W C; `pad` lies before the first position. */
struct ff_filter {
	int64_t n, in[2], out[2];
	int64_t groups, c, k; /* input and output channels of each group */
	int32_t taps[2], stride[2], dilation[2], pad[2];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Where cuDNN has no convolution: slow, but of any shape. */
cudaError_t ff_launch_filter(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *weight, const void *bias, void *out, cudaStream_t s);
cudaError_t ff_launch_filter_data(enum ff_dtype type, const struct ff_filter *f, const void *dout,
		const void *weight, void *din, cudaStream_t s);
cudaError_t ff_launch_filter_weight(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *dout, float *dweight, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
