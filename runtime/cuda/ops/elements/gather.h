/* Arguments of gather's kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_GATHER_H
#define FF_CUDA_GATHER_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/indices.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `table` as ff_gather_table() has it, in device memory. */
cudaError_t ff_launch_pick(enum ff_dtype type, const struct ff_gather *g, const int32_t *table,
		const void *in, void *out, cudaStream_t s);
/* Rows are added up in their order. */
cudaError_t ff_launch_pick_gradient(enum ff_dtype type, const struct ff_gather *g,
		const int32_t *table, const void *dout, void *din, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
