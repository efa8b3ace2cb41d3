/* Plans of cuDNN are timed on the device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_TUNE_PLAN_H
#define FF_CUDA_TUNE_PLAN_H

#include "parts.h"

#define FF_TRIED 6 /* plans of a problem, in the order of heuristics */

struct ff_tried {
	cudnnBackendDescriptor_t plan, config;
	int64_t workspace;
};

/* The number of the fastest of `n` plans on made-up tensors; the first where there is no memory for
 * them, or nothing runs. */
int64_t ff_tune_plans(const struct ff_kernel *k, cudnnHandle_t handle,
		const struct ff_dnn_plan_problem *q, const struct ff_tried *tried, int64_t n);

#endif
