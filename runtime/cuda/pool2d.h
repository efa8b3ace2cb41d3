/* Pooling: what pool2d.c tells pool2d.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_POOL2D_H
#define FF_CUDA_POOL2D_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"

/* Images of N H W C; `pad` lies before the first position, and padding has no memory. */
struct ff_pool {
	int64_t n, c, in[2], out[2];
	int32_t kernel[2], stride[2], pad[2];
	int32_t mean, wide; /* flags; wide: positions are int32, else uint8 */
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_pool(enum ff_dtype type, const struct ff_pool *p, const void *in, void *out,
		void *where, cudaStream_t s);
cudaError_t ff_launch_pool_gradient(enum ff_dtype type, const struct ff_pool *p, const void *dout,
		const void *where, void *din, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
