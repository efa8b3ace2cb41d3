/* cuDNN's graphs of operations: what they are put together from, plans of them, and how those run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PLAN_H
#define FF_CUDA_PLAN_H

#include "parts.h"

struct ff_dnn;
struct ff_dnn_plan;

void ff_dnn_close(struct ff_dnn *d);

#define FF_PLAN_OPS 40                         /* operations of a graph, at most */
#define FF_PLAN_WORKSPACE ((int64_t)256 << 20) /* bytes that a plan may take */

/* Chooses how, once a problem; the kernel's scratchpad is as large as that needs.  NULL where
 * cuDNN has none.  The device keeps it. */
int ff_dnn_plan_find(struct ff_kernel *k, const struct ff_dnn_plan_problem *q,
		const struct ff_dnn_plan **ret, struct ff_error *err);
/* Runs it on tensors of these ids; `workspace` is the kernel's scratchpad. */
int ff_dnn_plan_run(const struct ff_kernel *k, const struct ff_dnn_plan *plan, cudaStream_t queue,
		int64_t n, const int64_t *ids, const void *const *pointers, void *workspace,
		struct ff_error *err);

#endif
