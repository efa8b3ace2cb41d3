/* Kernels by operator.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_KERNELS_H
#define FF_CPU_KERNELS_H

#include "cpu/core/device.h"

/* Slots of struct ff_backend that kernels.c fills, or without.c. */
int ff_cpu_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err);
void ff_cpu_kernel_close(struct ff_kernel *k);
int64_t ff_cpu_workspace(const struct ff_kernel *k);

#endif
