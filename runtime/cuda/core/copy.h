/* Copies, reductions and fills in device memory.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_COPY_H
#define FF_CUDA_COPY_H

#include "stream.h"

#include "ff/strided.h"

/* Of elements of `type`; the sides do not overlap. */
cudaError_t ff_cuda_strided(const struct ff_strided *s, enum ff_dtype type, const void *source,
		void *sink, cudaStream_t queue);
/* What struct ff_copy says. */
cudaError_t ff_cuda_region(const struct ff_copy *c, cudaStream_t queue);
/* So many elements, one behind the other. */
cudaError_t ff_cuda_run_of(
		enum ff_dtype type, const void *source, void *sink, int64_t n, cudaStream_t queue);

/* Slots of struct ff_backend. */
int ff_cuda_copy(struct ff_stream *s, const struct ff_copy *copy, struct ff_error *err);
int ff_cuda_fill(struct ff_stream *s, void *memory, enum ff_dtype type, int64_t n, uint32_t bits,
		struct ff_error *err);

#endif
