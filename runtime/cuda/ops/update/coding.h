/* Codecs of gradients.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CODING_H
#define FF_CUDA_CODING_H

#include "cuda/core/stream.h"

/* Slots of struct ff_backend. */
int ff_cuda_encode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err);
int ff_cuda_decode(struct ff_stream *s, const struct ff_coding *c, struct ff_error *err);

#endif
