/* Updates.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_UPDATE_H
#define FF_CPU_UPDATE_H

#include "ff/backend.h"

/* The kernel of the update's optimizer. */
void ff_cpu_update(const struct ff_update *u);
void ff_cpu_squares(const struct ff_squares *u);
void ff_cpu_scale(float *values, int64_t n, float factor);

#endif
