/* Recurrences: what recurrent.c tells recurrent.cu.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_RECURRENT_H
#define FF_CUDA_RECURRENT_H

#include <cuda_runtime_api.h>

#include "ff/dtype.h"

/* In the order of FF_CELLS (kernels/cells.h). */
enum ff_cell {
	FF_CELL_rnn,
	FF_CELL_lstm,
	FF_CELL_gru,
	FF_CELL_gru_reset,
	FF_CELL_gru_fresh,
	FF_CELL_COUNT
};

/* The cells of one step; all that has samples is dense but x and y.  NULL stands for zeros where
 * it is read, and for nothing where it is written.  `operand` is what the next product reads: the
 * steps of what lies step by step need not begin where cuBLASLt would have them. */
struct ff_cell_step {
	int64_t samples, hidden, x_sample, y_sample;
	const void *x, *bias, *before, *first_cell; /* first_cell: read where `first` */
	const float *u, *carried_cell;              /* carried_cell: in the place of first_cell */
	void *y, *next, *operand, *before_kept, *last_cell;
	float *kept, *cell, *cells, *left_cell;
	int32_t first, unused;
};

/* Their gradients; where it is the `last` step none come from behind but dlast_cell, or dleft and
 * dleft_cell. */
struct ff_cell_slope {
	int64_t samples, hidden, x_sample, y_sample;
	const void *dy, *y, *before, *dlast_cell, *dleft;
	const float *kept, *cells, *carry, *dleft_cell;
	float *through, *dcell;
	void *dx, *du, *operand;
	int32_t last, unused;
};

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t ff_launch_cell_step(enum ff_cell cell, enum ff_dtype type, const struct ff_cell_step *p,
		cudaStream_t s);
cudaError_t ff_launch_cell_slope(enum ff_cell cell, enum ff_dtype type,
		const struct ff_cell_slope *p, cudaStream_t s);
/* Gradients of the first step's state and cell, or of one that was carried; any may be NULL. */
cudaError_t ff_launch_cell_states(enum ff_dtype type, int64_t n, const float *through,
		const float *carry, const float *dcell, void *dstate, void *dfirst_cell,
		float *dcarried_cell, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
