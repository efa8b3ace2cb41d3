/* What is linear along every axis of images (kernels/resample.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_RESAMPLE_H
#define FF_CUDA_RESAMPLE_H

#include "cuda/core/kernel.h"

struct ff_resample;

/* Of an output along an axis: the inputs that it is made of, counted in the part, the weight of
 * the first and that of the others.  Of an input: the outputs among which its readers are. */
struct ff_resample_run {
	int32_t first, end;
	float weight, others;
};

/* Images of N D H W C, dense in that order. */
struct ff_resampling {
	int64_t n, c, in[3], out[3];
	/* in device memory: of the outputs of all three axes, axis by axis, then of the inputs */
	const struct ff_resample_run *runs;
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_resample(enum ff_dtype type, const struct ff_resampling *r, const void *in,
		void *out, cudaStream_t s);
cudaError_t ff_launch_resample_gradient(enum ff_dtype type, const struct ff_resampling *r,
		const void *dout, void *din, cudaStream_t s);

/* Sets k->run, k->state and k->finish. */
int ff_cuda_resample(struct ff_kernel *k, const struct ff_work *w, const struct ff_resample *r,
		struct ff_error *err);

#ifdef __cplusplus
}
#endif

#endif
