/* Transposed convolutions: what conv_transpose.c tells conv_transpose.cu.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CONV_TRANSPOSE_H
#define FF_CUDA_CONV_TRANSPOSE_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/transposed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A shard from the dense box of it that `result` is, zeros around that, plus one number a channel
 * unless `bias` is NULL.  They may be the same where the box is all of a dense shard. */
cudaError_t ff_launch_from_box(enum ff_dtype result_type, enum ff_dtype type,
		const struct ff_image_box *b, const void *result, const void *bias, void *out,
		cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
