/* Dropout: what dropout.c tells dropout.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_DROPOUT_H
#define FF_CUDA_DROPOUT_H

#include <cuda_runtime_api.h>

#include "ff/capture.h"
#include "ff/dtype.h"

struct ff_dropout {
	uint32_t rank, unused;
	int64_t n[6], index[6]; /* axes as they lie: sizes, row-major strides in the tensor */
	int64_t first, volume;  /* index of the shard's first element in the tensor */
	uint64_t seed, step;
	const struct ff_figures *figures; /* NULL, or where the step is */
	uint32_t node, spare;
	float p, scale;
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_dropout(enum ff_dtype type, const struct ff_dropout *d, const void *in,
		void *out, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
