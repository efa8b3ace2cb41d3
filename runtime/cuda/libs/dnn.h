/* Convolutions by cuDNN behind two verbs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_DNN_H
#define FF_CUDA_DNN_H

#include "cuda/core/device.h"
#include "cuda/core/epilogue.h"
#include "filter.h"

struct ff_dnn_plan;
struct ff_kernel;

enum ff_conv_pass { FF_CONV_FORWARD, FF_CONV_DATA, FF_CONV_WEIGHT };

/* Images are stored channels last, filters likewise.  Of what is written the type is `sink`;
 * sums are float32. */
struct ff_conv_shape {
	enum ff_conv_pass pass;
	struct ff_filter filter;
	enum ff_dtype type, sink;
	bool has_bias;                    /* forward: added before rounding */
	enum ff_epilogue epilogue;        /* forward: behind that */
	bool tf32;                        /* float32 inputs may be rounded to TF32 */
	bool adds;                        /* to what is there */
	int64_t weight_align, bias_align; /* bytes; images begin at multiples of 64 */
};

/* The largest power of two, up to 64, that divides `bytes`. */
static inline int64_t ff_conv_alignment(int64_t bytes)
{
	int64_t a = 64;

	while (bytes % a)
		a /= 2;
	return a;
}

/* Chooses how, once a shape; the kernel's scratchpad is as large as that needs.  NULL where
 * cuDNN has none of that shape.  The device keeps it. */
int ff_conv_find(struct ff_kernel *k, const struct ff_conv_shape *shape,
		const struct ff_dnn_plan **ret, struct ff_error *err);
/* The pass says which of them is written; `bias` is NULL where the shape has none. */
int ff_conv_run(const struct ff_kernel *k, const struct ff_dnn_plan *plan, cudaStream_t queue,
		const void *image, const void *weight, const void *bias, const void *out,
		void *scratch, struct ff_error *err);

#endif
