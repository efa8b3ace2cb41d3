/* The largest of windows: kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_POOL_MAX_H
#define FF_CPU_POOL_MAX_H

#include "kernel.h"

/* Of a pool whose mode is that; backward its input's gradient is wanted. */
int ff_cpu_pool_max(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);

#endif
