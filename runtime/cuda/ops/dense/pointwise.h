/* Convolutions of one tap, as matrix products.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_POINTWISE_H
#define FF_CUDA_POINTWISE_H

#include "cuda/core/kernel.h"

/* Prepares a convolution whose windows have one element and no padding, of one group, a whole one,
 * if its pass is done so: backward always, forward in float32.  *ret: it is prepared. */
int ff_pointwise_prepare(
		struct ff_kernel *k, const struct ff_work *w, bool *ret, struct ff_error *err);

#endif
