/* Memory of devices, and of the host for them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_MEMORY_H
#define FF_CUDA_MEMORY_H

#include <stddef.h>

#include "ff/error.h"

struct ff_device;

/* Slots of struct ff_backend. */
int ff_cuda_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
void ff_cuda_free(struct ff_device *dev, void *memory);

/* Pinned host memory, which kernels can write to. */
int ff_cuda_pin(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err);
void ff_cuda_unpin(struct ff_device *dev, void *memory);

#endif
