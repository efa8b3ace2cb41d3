/* Embedding: what embedding.c tells embedding.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_EMBEDDING_H
#define FF_CUDA_EMBEDDING_H

#include <cuda_runtime_api.h>

#include "cuda/core/rows.h"

struct ff_embedding {
	int32_t vocabulary, first; /* rows in all; the part's first */
	int64_t rows, features, positions;
	/* axes of the ids as they lie, outermost first, and where the output has them */
	uint32_t rank, unused;
	int64_t n[6], stride[6];
	int64_t step; /* from one feature of the output to the next */
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_lookup(enum ff_dtype type, const struct ff_embedding *e, const int32_t *ids,
		const void *table, void *out, struct ff_device_error *error, cudaStream_t s);
/* Rows are added up in an order that the shape and the ids alone decide; `adds`: to what is there.
 */
cudaError_t ff_launch_gather(enum ff_dtype type, const struct ff_embedding *e, const int32_t *ids,
		const void *dout, float *gradient, int32_t *rows, bool adds, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
