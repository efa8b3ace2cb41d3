/* Finding the CUDA backend.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_LOAD_H
#define FF_CUDA_LOAD_H

#include "ff/backend.h"

/* The backend of the module; one whose open() says why, where there is none. */
const struct ff_backend *ff_cuda_load(void);
/* Whether loading it may be of use: there is a driver, or somebody says which module. */
bool ff_cuda_driver(void);

#endif
