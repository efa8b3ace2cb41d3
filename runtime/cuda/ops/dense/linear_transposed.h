/* Linear layers with the transposition of what they write.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_LINEAR_TRANSPOSED_H
#define FF_CUDA_LINEAR_TRANSPOSED_H

#include "ff/error.h"

struct ff_kernel;
struct ff_work;

/* For FF_EPILOGUE_TRANSPOSE and FF_EPILOGUE_TRANSPOSE_SLOPE; `w` is the layer's. */
int ff_cuda_linear_transposed_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);

#endif
