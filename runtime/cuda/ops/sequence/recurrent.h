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

/* Gradients, backward. */
struct ff_cell_gradients {
	const void *dy, *dlast_cell, *dleft; /* read */
	const float *dleft_cell;
	void *dx, *dstate, *dfirst_cell; /* written */
	float *dcarried_cell;
};

/* A part of a recurrence, forward or backward.  Steps count in the order of time, and what a kernel
 * is told by number is one of `halves` of a step.  NULL stands for zeros where it is read, and for
 * nothing where it is written.  x, y and their gradients lie as their strides say; all else that
 * has samples is dense. */
struct ff_cells {
	int64_t samples, hidden, steps, halves, x_sample, x_step, y_sample, y_step;
	int32_t reverse, need_states; /* need_states: gradients of what the first step finds */
	const void *weight, *bias, *x, *first_state, *first_cell;
	const float *carried_cell;  /* in the place of first_cell */
	void *states;               /* saved: before each half of each step */
	float *kept, *cells;        /* saved of each step */
	void *y, *last_cell, *left; /* forward; backward y is read */
	float *left_cell;           /* carried on, as `left` */
	struct ff_cell_gradients grad;
	/* Workspace, dense.  `operand` is what the next product reads: the steps of what lies step
	 * by step need not begin where cuBLASLt would have them. */
	float *product, *cell, *through; /* of the step at hand; backward `cell` is its gradient */
	void *operand, *du;              /* du: of all halves */
	void *turned;                    /* persistent, backward: the weights, transposed */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Half `i`, between its product and the next. */
cudaError_t ff_launch_cell_step(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t i, cudaStream_t s);
cudaError_t ff_launch_cell_slope(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t i, cudaStream_t s);
/* Gradients of what the first step finds. */
cudaError_t ff_launch_cell_states(enum ff_dtype type, const struct ff_cells *c, cudaStream_t s);

/* All steps, products included, by one launch of at most `blocks` blocks, which the device can run
 * at once; of cells that have a step in one piece.  Backward, gradients of the first states
 * too. */
cudaError_t ff_launch_cell_steps(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t blocks, cudaStream_t s);
cudaError_t ff_launch_cell_slopes(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t blocks, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
