/* Captured work.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CAPTURE_H
#define FF_CUDA_CAPTURE_H

#include "ff/capture.h"

extern const struct ff_captures ff_cuda_captures;

#endif
