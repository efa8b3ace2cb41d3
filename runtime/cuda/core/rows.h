/* Kernels that several files launch.  What one operator's C file tells its kernels is in a header
 * of its name: arguments as plain structs without padding, and what launches them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ROWS_H
#define FF_CUDA_ROWS_H

#include <cuda_runtime_api.h>

#include "ff/capture.h"
#include "ff/dtype.h"
#include "ff/reduce.h"
#include "ff/strided.h"

/* An error that a kernel found, in host memory that it writes to. */
struct ff_device_error {
	int32_t found, value;
	int64_t count;
};

/* Counters of a stream, 0 between its launches, for ticket.cuh: so many, and one of the whole. */
#define FF_TICKETS 4096

#ifdef __cplusplus
extern "C" {
#endif

/* Units of 1, 2, 4, 8 or 16 bytes as bits. */
cudaError_t ff_launch_copy(const struct ff_strided *l, int64_t bytes, const void *source,
		void *sink, cudaStream_t s);
/* sink = sink op source; pairs of a log-sum-exp are counted as one. */
cudaError_t ff_launch_reduce(const struct ff_strided *l, enum ff_dtype type, enum ff_reduce op,
		const void *source, void *sink, cudaStream_t s);
cudaError_t ff_launch_fill(void *memory, int64_t bytes, int64_t n, uint32_t bits, cudaStream_t s);
/* Elements of one type to float32 or the other way. */
cudaError_t ff_launch_convert(enum ff_dtype from, const void *source, enum ff_dtype to, void *sink,
		int64_t n, cudaStream_t s);

/* Sums of the columns of a row-major matrix, in a fixed order, by way of `scratch`. */
int64_t ff_column_scratch(int64_t rows, int64_t columns);
cudaError_t ff_launch_columns(enum ff_dtype type, int64_t rows, int64_t columns, const void *x,
		float *sum, void *scratch, cudaStream_t s);

/* Adds one number a channel to `rows` pixels. */
cudaError_t ff_launch_bias(enum ff_dtype type, int64_t rows, int64_t channels, const void *bias,
		void *image, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
