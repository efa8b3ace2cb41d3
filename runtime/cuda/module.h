/* The module's door: what load.c looks up in it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_MODULE_H
#define FF_CUDA_MODULE_H

#include "ff/backend.h"
#include "ff/comm.h"

#define FF_CUDA_DOOR "ff_cuda_module"

/* The backend, or NULL where the module is of another version than the program. */
typedef const struct ff_backend *(*ff_cuda_door)(
		const char *version, size_t backend_bytes, size_t comm_bytes);
const struct ff_backend *ff_cuda_module(
		const char *version, size_t backend_bytes, size_t comm_bytes);

#endif
