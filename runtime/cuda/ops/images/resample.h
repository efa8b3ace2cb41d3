/* What is linear along every axis of images (kernels/resample.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_RESAMPLE_H
#define FF_CUDA_RESAMPLE_H

#include "cuda/core/kernel.h"

struct ff_resample;

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_resample(enum ff_dtype type, const struct ff_resample *r, const void *in,
		void *out, cudaStream_t s);
cudaError_t ff_launch_resample_gradient(enum ff_dtype type, const struct ff_resample *r,
		const void *dout, void *din, cudaStream_t s);

/* Sets k->run and k->state. */
int ff_cuda_resample(struct ff_kernel *k, const struct ff_work *w, const struct ff_resample *r,
		struct ff_error *err);

#ifdef __cplusplus
}
#endif

#endif
