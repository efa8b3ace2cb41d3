/* What a device is.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_DESCRIBE_H
#define FF_CUDA_DESCRIBE_H

#include "ff/backend.h"

/* Slots of struct ff_backend. */
int ff_cuda_computes(struct ff_device *dev, enum ff_dtype type, struct ff_error *err);
void ff_cuda_describe(struct ff_device *dev, struct ff_device_info *ret);

#endif
