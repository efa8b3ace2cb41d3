/* Devices are opened and closed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_OPEN_H
#define FF_CUDA_OPEN_H

#include "ff/backend.h"

/* Slots of struct ff_backend. */
int ff_cuda_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err);
void ff_cuda_close(struct ff_device *dev);

#endif
