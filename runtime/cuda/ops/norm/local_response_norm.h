/* Local response normalisation: what local_response_norm.c tells local_response_norm.cu.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_LOCAL_RESPONSE_NORM_H
#define FF_CUDA_LOCAL_RESPONSE_NORM_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/response.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_response(enum ff_dtype type, const struct ff_response *r, const void *in,
		void *out, cudaStream_t s);
/* `shares`: two float32 for each element that was written. */
cudaError_t ff_launch_response_shares(enum ff_dtype type, const struct ff_response *r,
		const void *in, const void *dout, float *shares, cudaStream_t s);
cudaError_t ff_launch_response_gradient(enum ff_dtype type, const struct ff_response *r,
		const void *in, const float *shares, void *din, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
