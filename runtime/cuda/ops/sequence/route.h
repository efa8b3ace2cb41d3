/* Routing: what route.c tells route.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ROUTE_H
#define FF_CUDA_ROUTE_H

#include <cuda_runtime_api.h>

#include "kernels/route.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `choice`: an int32 for every choice of every place, choices of a sample one behind the other.
 * `places`: by index the second output. */
cudaError_t ff_launch_route(enum ff_dtype type, const struct ff_route *r, const void *in,
		int32_t *choice, void *out, int32_t *places, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
