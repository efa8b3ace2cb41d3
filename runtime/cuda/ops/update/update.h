/* Updates.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_UPDATE_H
#define FF_CUDA_UPDATE_H

#include "cuda/core/stream.h"

/* Slots of struct ff_backend. */
int ff_cuda_update(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err);
int ff_cuda_scale(
		struct ff_stream *s, float *values, int64_t n, float factor, struct ff_error *err);
int ff_cuda_squares(struct ff_stream *s, const struct ff_squares *n, struct ff_error *err);

#endif
