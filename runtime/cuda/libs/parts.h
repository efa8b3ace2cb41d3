/* Descriptors that cuDNN's graphs are put together from, what is asked of it, and running a plan.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PARTS_H
#define FF_CUDA_PARTS_H

#include <cudnn.h>
#include <stdbool.h>

#include "cuda/core/kernel.h"

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
struct ff_dnn_plan_problem {
	const char *what, *verb; /* "convolution", "describe a convolution" */
	const void *shape;
	size_t bytes;
	bool exact; /* float32 that must not be rounded on its way */
	/* Its operations, p->shape in hand; how many. */
	int64_t (*describe)(struct ff_parts *p, cudnnBackendDescriptor_t *ops);
	/* Ids and bytes of its tensors; how many.  NULL: its plans are not timed. */
	int64_t (*tensors)(const void *shape, int64_t *id, int64_t *bytes);
};

#define FF_PLAN_TENSORS 8 /* of a problem whose plans are timed, at most */

/* After a failure: what it is, in words. */
int ff_parts_fail(const struct ff_kernel *k, cudnnStatus_t status, const char *verb,
		struct ff_error *err);
void ff_parts_check(struct ff_parts *p, cudnnStatus_t status);
void ff_parts_drop(struct ff_parts *p);

/* Runs an execution plan on `n` tensors of these ids, which lie at `pointers`. */
int ff_parts_run(const struct ff_kernel *k, cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
		cudaStream_t queue, int64_t n, const int64_t *ids, const void *const *pointers,
		void *workspace, struct ff_error *err);

#endif
