/* Logits and labels of a loss, as its kernels walk over them.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_CUDA_LOGITS_H
#define FF_CUDA_LOGITS_H

#include "ff/capture.h"

/* As runtime/cpu/ops/loss/softmax_cross_entropy.c has it. */
struct ff_loss {
	int64_t positions, step, valid;
	const struct ff_figures *figures; /* NULL, or where `valid` is */
	double weight, smooth, each;
	int32_t first, classes, all_classes, ignore;
	uint32_t loss; /* its number */
	uint32_t rank;
	int64_t n[6], logit_stride[6], label_stride[6], pair_stride[6];
};

#endif
