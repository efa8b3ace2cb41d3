/* The CPU device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_CPU_H
#define FF_CPU_CPU_H

#include "ff/backend.h"

struct ff_dnnl; /* dnnl.h; NULL in a build without oneDNN */

struct ff_device {
	struct ff_dnnl *dnnl;
};

/* dnnl.c, or without.c, which says that there is none where something is to be computed. */
int ff_dnnl_open(struct ff_dnnl **ret, struct ff_error *err);
void ff_dnnl_close(struct ff_dnnl *d);
/* "oneDNN 2.6.3" */
void ff_dnnl_version(char *text, size_t size);
/* FF_E_INPUT with a sentence unless the library computes in `type` (float32, bfloat16) on
 * this processor. */
int ff_dnnl_computes(const struct ff_dnnl *d, enum ff_dtype type, struct ff_error *err);

/* Slots of struct ff_backend that kernel.c fills, or without.c. */
int ff_cpu_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err);
void ff_cpu_kernel_close(struct ff_kernel *k);
int64_t ff_cpu_workspace(const struct ff_kernel *k);

/* update.c: the kernel of the update's optimizer. */
void ff_cpu_update(const struct ff_update *u);
void ff_cpu_squares(const struct ff_squares *u);
void ff_cpu_scale(float *values, int64_t n, float factor);

/* codec.c: the kernels of the codec. */
void ff_cpu_encode(const struct ff_coding *c);
void ff_cpu_decode(const struct ff_coding *c);

#endif
