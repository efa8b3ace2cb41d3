/* Pooling: what pool.c tells pool.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_POOL_H
#define FF_CUDA_POOL_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/windows.h"

/* Images of N D H W C, dense in that order; padding has no memory. */
struct ff_pool {
	int64_t n, c, wide; /* a flag: positions are int32, else uint8 */
	struct ff_windows windows;
};

#ifdef __cplusplus
extern "C" {
#endif

/* The largest of each window. */
cudaError_t ff_launch_pool(enum ff_dtype type, const struct ff_pool *p, const void *in, void *out,
		void *where, cudaStream_t s);
cudaError_t ff_launch_pool_gradient(enum ff_dtype type, const struct ff_pool *p, const void *dout,
		const void *where, void *din, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
