/* Numbers that a kernel is prepared with, in device memory.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_TABLE_H
#define FF_CUDA_TABLE_H

#include "device.h"

/* A copy of `bytes` of the host's in the device's memory, which ff_cuda_free() frees. */
int ff_cuda_table(struct ff_device *dev, const void *host, size_t bytes, void **ret,
		struct ff_error *err);

#endif
