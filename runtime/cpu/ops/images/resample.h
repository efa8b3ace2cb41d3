/* Kernels of what is linear along every axis (kernels/resample.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_RESAMPLE_H
#define FF_CPU_RESAMPLE_H

#include "cpu/core/kernel.h"
#include "kernels/windows.h"

#define FF_RESAMPLE_FN static inline
#include "kernels/resample.h"

/* Sets k->run and k->state. */
int ff_cpu_resample(struct ff_kernel *k, const struct ff_work *w, const struct ff_resample *r,
		struct ff_error *err);

#endif
