/* The CPU device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_CPU_H
#define FF_CPU_CPU_H

#include "dnnl.h"

struct ff_device {
	struct ff_dnnl dnnl;
};

/* Slots of struct ff_backend that kernel.c fills. */
int ff_cpu_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err);
void ff_cpu_kernel_close(struct ff_kernel *k);
int64_t ff_cpu_workspace(const struct ff_kernel *k);

/* update.c: the kernel of the update's optimizer. */
void ff_cpu_update(const struct ff_update *u);

#endif
