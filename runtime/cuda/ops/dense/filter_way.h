/* Which of two ways makes gradients of filters.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_FILTER_WAY_H
#define FF_CUDA_FILTER_WAY_H

#include "cuda/libs/dnn.h"
#include "unfold.h"

enum ff_filter_way {
	FF_FILTER_CONVOLVED, /* by cuDNN's plan */
	FF_FILTER_UNFOLDED,
	FF_FILTER_UNKNOWN, /* it is to be timed */
};

/* As was kept; else *ret stays, unless this process times.  `type`: of the images, which are
 * widened for cuDNN where it is not that of `s`. */
int ff_filter_way(const struct ff_kernel *k, const struct ff_conv_shape *s, enum ff_dtype type,
		enum ff_filter_way *ret, struct ff_error *err);
/* Times both; what is faster is kept. */
enum ff_filter_way ff_filter_time(const struct ff_kernel *k, const struct ff_conv_shape *s,
		enum ff_dtype type, const struct ff_dnn_plan *plan, const struct ff_unfold *u);

#endif
