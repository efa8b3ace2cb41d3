/* Where kernels report.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_REPORT_H
#define FF_CUDA_REPORT_H

#include "ff/error.h"

struct ff_device;
struct ff_device_error;

/* A place where a kernel can say what it found, none yet; and giving it back. */
int ff_device_error_take(struct ff_device *dev, struct ff_device_error **ret, struct ff_error *err);
void ff_device_error_give(struct ff_device *dev, struct ff_device_error *t);
void ff_device_errors_close(struct ff_device *dev);

#endif
