/* Losses by element: what point_loss.c tells point_loss.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_POINT_LOSS_H
#define FF_CUDA_POINT_LOSS_H

#include <cuda_runtime_api.h>

#include "cuda/core/rows.h"
#include "ff/capture.h"
#include "kernels/loops.h"
#include "kernels/point_loss.h"

/* As runtime/cpu/ops/loss/point_loss.c has it. */
struct ff_points {
	struct ff_loops loops;
	int64_t n, valid;
	const struct ff_figures *figures; /* NULL, or where `valid` of loss number `loss` is */
	uint32_t loss;
	float weight;
	int32_t function;               /* enum ff_point_loss */
	int32_t labels, ignore, unused; /* whether targets are labels; which counts for nothing */
};

/* What a block's elements give. */
struct ff_points_share {
	double sum;
	int64_t valid, right;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of scratch that the loss takes. */
int64_t ff_points_scratch(int64_t n);
cudaError_t ff_launch_points(enum ff_dtype type, const struct ff_points *p, const void *x,
		const void *target, struct ff_points_share *shares, float *out,
		struct ff_device_error *error, cudaStream_t s);
cudaError_t ff_launch_points_gradient(enum ff_dtype type, const struct ff_points *p, const void *x,
		const void *target, void *gradient, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
