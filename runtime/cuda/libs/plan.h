/* cuDNN's graphs of operations: what they are put together from, plans of them, and how those run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PLAN_H
#define FF_CUDA_PLAN_H

#include <cudnn.h>
#include <stdbool.h>

#include "cuda/core/kernel.h"

struct ff_dnn;
struct ff_plan;

void ff_dnn_close(struct ff_dnn *d);

#define FF_PARTS 160 /* descriptors of a graph, at most */

/* What a graph is put together from, to be destroyed.  After the first failure nothing is done. */
struct ff_parts {
	const struct ff_kernel *k;
	const char *verb;  /* for errors: "describe a convolution" */
	const void *shape; /* of what, the caller knows */
	cudnnBackendDescriptor_t made[FF_PARTS];
	uint32_t n;
	bool missing; /* cuDNN says that it has no such thing */
	int code;     /* first failure */
	struct ff_error *err;
};

cudnnBackendDescriptor_t ff_parts_make(struct ff_parts *p, cudnnBackendDescriptorType_t type);
void ff_parts_set(struct ff_parts *p, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t n, const void *value);
void ff_parts_set_part(struct ff_parts *p, cudnnBackendDescriptor_t d,
		cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part);
void ff_parts_finish(struct ff_parts *p, cudnnBackendDescriptor_t d);
cudnnDataType_t ff_parts_type(enum ff_dtype t);

/* One of `what`: its graph depends on the bytes of `shape` alone, zeroed before they were filled.
 */
struct ff_plan_problem {
	const char *what, *verb; /* "convolution", "describe a convolution" */
	const void *shape;
	size_t bytes;
	bool exact; /* float32 that must not be rounded on its way */
	/* Its operations, p->shape in hand; how many. */
	int64_t (*describe)(struct ff_parts *p, cudnnBackendDescriptor_t *ops);
};

#define FF_PLAN_OPS 40                         /* operations of a graph, at most */
#define FF_PLAN_WORKSPACE ((int64_t)256 << 20) /* bytes that a plan may take */

/* Chooses how, once a problem; the kernel's scratchpad is as large as that needs.  NULL where
 * cuDNN has none.  The device keeps it. */
int ff_plan_find(struct ff_kernel *k, const struct ff_plan_problem *q, const struct ff_plan **ret,
		struct ff_error *err);
int64_t ff_plan_workspace(const struct ff_plan *plan);
/* Runs it on tensors of these ids; `workspace` has at least ff_plan_workspace() bytes. */
int ff_plan_run(const struct ff_kernel *k, const struct ff_plan *plan, cudaStream_t queue,
		int64_t n, const int64_t *ids, const void *const *pointers, void *workspace,
		struct ff_error *err);

#endif
