/* The CUDA device, and CUDA's own streams and memory behind a few verbs.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_DEVICE_H
#define FF_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "ff/backend.h"

struct ff_blas;  /* blas.h */
struct ff_dnn;   /* plan.h */
struct ff_plans; /* plans.h */
struct ff_trouble;
struct ff_trouble_page;
struct ff_ledger; /* stream.c */

struct ff_device {
	int ordinal;      /* CUDA's */
	cudaStream_t own; /* of what is waited for where it is called; NULL: never entered */
	struct ff_device *entered; /* before it, by this process */
	struct ff_blas *blas;      /* NULL until a kernel asks for them */
	struct ff_dnn *dnn;
	struct ff_plans *plans;
	struct ff_ledger *ledgers;        /* of all streams so far */
	struct ff_trouble_page *page;     /* where kernels report */
	struct ff_figures *figures;       /* NULL until somebody captures; device memory */
	struct ff_captured *capturing;    /* what streams are given goes there; or NULL */
	const struct ff_watcher *watcher; /* of what was posted to a stream, or NULL */
	bool lost;                        /* it never came to an end, and nobody waits for it */
	bool bf16;                        /* tensor cores know it */
	bool tf32; /* FF_CUDA_TF32=1: float32 products may be of inputs rounded to TF32 */
	bool sdpa; /* unless FF_CUDA_SDPA=0: attention by cuDNN where it can */
};

/* FF_E_RUN with "CUDA device 0 failed to <verb>: <reason>" unless `code` is success. */
int ff_cuda_check(cudaError_t code, const struct ff_device *dev, const char *verb,
		struct ff_error *err);
/* What follows is for this device; a thread has one at a time.  The first makes its context. */
int ff_cuda_enter(struct ff_device *dev, struct ff_error *err);
/* Before it is closed: no other reaches it from now on. */
void ff_cuda_leave(const struct ff_device *dev);

/* Slots of struct ff_backend. */
int ff_cuda_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err);
void ff_cuda_close(struct ff_device *dev);
int ff_cuda_computes(struct ff_device *dev, enum ff_dtype type, struct ff_error *err);
void ff_cuda_describe(struct ff_device *dev, struct ff_device_info *ret);
int ff_cuda_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
void ff_cuda_free(struct ff_device *dev, void *memory);

/* Pinned host memory, which kernels can write to. */
int ff_cuda_pin(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
void ff_cuda_unpin(struct ff_device *dev, void *memory);

/* report.c: a place where a kernel can say what it found, none yet; and giving it back. */
int ff_trouble_take(struct ff_device *dev, struct ff_trouble **ret, struct ff_error *err);
void ff_trouble_give(struct ff_device *dev, struct ff_trouble *t);
void ff_trouble_close(struct ff_device *dev);

#endif
