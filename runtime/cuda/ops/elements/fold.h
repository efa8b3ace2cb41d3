/* Functions of two elements over loops, and reductions: binary.cu, reduce.cu.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_FOLD_H
#define FF_CUDA_FOLD_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/binary.h"
#include "kernels/loops.h"

/* What loops (kernels/loops.h) write: of every step `part` of a function, of steps that share an
 * element the sum or the largest; times `scale`. */
struct ff_folding {
	struct ff_loops loops;
	int32_t function, part; /* enum ff_binary, enum ff_binary_part */
	int32_t largest;
	float scale;
	int32_t relu, unused; /* then that of it, where no steps share an element */
};

#ifdef __cplusplus
extern "C" {
#endif

/* What a fold needs beside, and how it runs: `read` by enum FF_LOOP_*, some may be NULL. */
int64_t ff_fold_scratch(const struct ff_folding *f);
cudaError_t ff_launch_fold(const struct ff_folding *f, enum ff_dtype type, enum ff_dtype sink_type,
		const void *const *read, void *sink, void *scratch, cudaStream_t s);

/* Two such that write as many elements, none of which steps share (ff_fold_alike()), at once.  What
 * is read is `read` for both, or, where `relu_out` is not NULL, in place of z the gradient of a
 * relu of z, of which that is the output. */
bool ff_fold_alike(const struct ff_folding f[2], const enum ff_dtype sink_type[2]);
cudaError_t ff_launch_fold_two(const struct ff_folding f[2], enum ff_dtype type,
		enum ff_dtype sink_type, const void *const *read, const void *relu_out,
		void *const sink[2], cudaStream_t s);

/* Maxima and how many elements are as large, as a prelude's neighbours. */
cudaError_t ff_launch_pair(enum ff_dtype type, const void *most, const float *count, float *pairs,
		int64_t n, cudaStream_t s);
/* The gradients of maxima: `loops` as ff_loops_largest() has them backward, `pairs` as the prelude
 * wrote them; of equal ones each gets as much. */
cudaError_t ff_launch_spread(enum ff_dtype type, const struct ff_loops *loops, const void *in,
		const float *pairs, const void *dout, void *din, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
