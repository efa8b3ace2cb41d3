/* Backends by name.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BACKENDS_H
#define FF_BACKENDS_H

#include "ff/backend.h"

/* NULL when there is no backend of that name.  "cuda" is loaded when it is asked for; where
 * it cannot be, its open() says why. */
const struct ff_backend *ff_backend_find(const char *name);
/* The CUDA backend where it was built and a GPU answers, else the CPU. */
const struct ff_backend *ff_backend_preset(void);
/* Opens a device, asks it, and closes it again. */
int ff_backend_computes(const struct ff_backend *b, enum ff_dtype type, struct ff_error *err);
/* From now on backends of this process time what libraries offer for a kernel, once where such
 * choices are kept, unless FF_CUDA_TUNE says something else. */
int ff_backends_tune(struct ff_error *err);

#endif
