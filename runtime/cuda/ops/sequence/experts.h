/* Rows of places and of slots: what experts.c tells experts.cu.  SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef FF_CUDA_EXPERTS_H
#define FF_CUDA_EXPERTS_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"
#include "kernels/slots.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By place and expert the slot that it has, or -1. */
cudaError_t ff_launch_slot_table(
		const struct ff_slots *p, const int32_t *places, int32_t *table, cudaStream_t s);
/* Of every slot the row of its place, by share unless `shares` is NULL. */
cudaError_t ff_launch_fill_slots(enum ff_dtype type, const struct ff_slots *p,
		const int32_t *places, const void *rows, const void *shares, void *slots,
		cudaStream_t s);
/* Of every place the sum of its slots, in the order of the experts, by share likewise. */
cudaError_t ff_launch_add_slots(enum ff_dtype type, const struct ff_slots *p, const int32_t *table,
		const void *slots, const void *shares, void *rows, cudaStream_t s);
/* Of every place and expert what its row and its slot's agree in. */
cudaError_t ff_launch_share_gradients(enum ff_dtype type, const struct ff_slots *p,
		const int32_t *table, const void *slots, const void *rows, void *shares,
		cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
