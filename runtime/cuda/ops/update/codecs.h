/* Codecs, as C and their kernels share them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CODECS_H
#define FF_CUDA_CODECS_H

#include <cuda_runtime_api.h>

#include "ff/codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As struct ff_coding has it, of at least one element. */
cudaError_t ff_launch_encode(enum ff_codec_id id, const float *values, float *residual,
		void *message, int64_t n, cudaStream_t s);
cudaError_t ff_launch_decode(enum ff_codec_id id, const void *message, float *values, int64_t n,
		bool add, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
