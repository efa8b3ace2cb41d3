/* The CUDA device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_DEVICE_H
#define FF_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "ff/backend.h"

struct ff_blas;  /* blas.h */
struct ff_dnn;   /* plan.h */
struct ff_plans; /* plans.h */
struct ff_device_error;
struct ff_report_page;
struct ff_ledger; /* stream.c */

struct ff_device {
	int ordinal;      /* CUDA's */
	cudaStream_t own; /* of what is waited for where it is called; NULL: never entered */
	struct ff_device *entered; /* before it, by this process */
	struct ff_blas *blas;      /* NULL until a kernel asks for them */
	struct ff_dnn *dnn;
	struct ff_plans *plans;
	struct ff_ledger *ledgers;        /* of all streams so far */
	struct ff_report_page *page;      /* where kernels report */
	struct ff_figures *figures;       /* NULL until somebody captures; device memory */
	struct ff_captured *capturing;    /* what streams are given goes there; or NULL */
	const struct ff_watcher *watcher; /* of what was posted to a stream, or NULL */
	bool lost;                        /* it never came to an end, and nobody waits for it */
	bool bf16;                        /* tensor cores know it */
	bool tf32; /* FF_CUDA_TF32=1: float32 products may be of inputs rounded to TF32 */
	bool sdpa; /* unless FF_CUDA_SDPA=0: attention by cuDNN where it can */
	int64_t unfold_bytes; /* FF_CUDA_UNFOLD: what unfolded images take, unless one has more */
	/* Blocks of a kernel whose blocks meet, at most; 0: none, or FF_CUDA_PERSISTENT=0. */
	int persistent;
};

#endif
