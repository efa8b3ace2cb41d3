/* Filters of convolutions, as conv.cu and cuDNN are told of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_FILTER_H
#define FF_CUDA_FILTER_H

#include "kernels/windows.h"

/* Images of N D H W C, dense in that order; filters of K D H W C. */
struct ff_filter {
	int64_t n, groups, c, k; /* input and output channels of each group */
	struct ff_windows windows;
};

#endif
