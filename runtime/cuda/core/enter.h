/* Devices as a process enters them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ENTER_H
#define FF_CUDA_ENTER_H

#include <cuda_runtime_api.h>

#include "ff/error.h"

struct ff_device;

/* FF_E_RUN with "CUDA device 0 failed to <verb>: <reason>" unless `code` is success. */
int ff_cuda_check(cudaError_t code, const struct ff_device *dev, const char *verb,
		struct ff_error *err);
/* What follows is for this device; a thread has one at a time.  The first makes its context. */
int ff_cuda_enter(struct ff_device *dev, struct ff_error *err);
/* Before it is closed: no other reaches it from now on. */
void ff_cuda_leave(const struct ff_device *dev);

#endif
