/* A reshape: what moves.c tells copy.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_RESHAPE_H
#define FF_CUDA_RESHAPE_H

#include <cuda_runtime_api.h>

/* One side of a reshape: a dense shard of a tensor. */
struct ff_reshape_side {
	uint32_t rank, unused;
	int64_t lo[6], n[6]; /* of the shard, by axis */
	int64_t index[6];    /* row-major strides in the tensor */
	int64_t stride[6];   /* in the shard */
	uint32_t order[6];   /* axes as they lie, outermost first */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Every element of `sink`: the one of equal index in `source`, or zero where that is none. */
cudaError_t ff_launch_reshape(const struct ff_reshape_side *source,
		const struct ff_reshape_side *sink, int64_t bytes, const void *from, void *to,
		cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
