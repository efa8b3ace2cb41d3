/* What C files and kernels share: the kernels' arguments, as plain structs without padding,
 * and what launches them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ROWS_H
#define FF_CUDA_ROWS_H

#include <cuda_runtime_api.h>

#include "../binary.h"
#include "../loops.h"
#include "../unary.h"
#include "ff/capture.h"
#include "ff/dtype.h"
#include "ff/norm.h"
#include "ff/reduce.h"
#include "ff/strided.h"

#define FF_SUMMANDS 130 /* FF_MAX_INPUTS */

struct ff_summands {
	const void *in[FF_SUMMANDS];
	uint32_t n, unused;
};

/* One side of a reshape: a dense shard of a tensor. */
struct ff_reshape_side {
	uint32_t rank, unused;
	int64_t lo[6], n[6]; /* of the shard, by axis */
	int64_t index[6];    /* row-major strides in the tensor */
	int64_t stride[6];   /* in the shard */
	uint32_t order[6];   /* axes as they lie, outermost first */
};

struct ff_dropout {
	uint32_t rank, unused;
	int64_t n[6], index[6]; /* axes as they lie: sizes, row-major strides in the tensor */
	int64_t first, volume;  /* index of the shard's first element in the tensor */
	uint64_t seed, step;
	const struct ff_figures *figures; /* NULL, or where the step is */
	uint32_t node, spare;
	float p, scale;
};

/* Trouble that a kernel found, in host memory that it writes to. */
struct ff_trouble {
	int32_t found, value;
	int64_t count;
};

struct ff_embedding {
	int32_t vocabulary, first; /* rows in all; the part's first */
	int64_t rows, features, positions;
	/* axes of the ids as they lie, outermost first, and where the output has them */
	uint32_t rank, unused;
	int64_t n[6], stride[6];
	int64_t step; /* from one feature of the output to the next */
};

/* As runtime/cpu/softmax_cross_entropy.c has it. */
struct ff_loss {
	int64_t positions, step, valid;
	const struct ff_figures *figures; /* NULL, or where `valid` is */
	int32_t first, classes, all_classes;
	uint32_t rank;
	int64_t n[6], logit_stride[6], label_stride[6], pair_stride[6];
};

/* Rows of a softmax: `length` elements, `inner` apart. */
struct ff_soft {
	int64_t rows, length, inner;
	int32_t log, unused;
};

/* Images of N H W C; `pad` lies before the first position, and padding has no memory. */
struct ff_pool {
	int64_t n, c, in[2], out[2];
	int32_t kernel[2], stride[2], pad[2];
	int32_t mean, wide; /* flags; wide: positions are int32, else uint8 */
};
struct ff_filter {
	int64_t n, in[2], out[2];
	int64_t groups, c, k; /* input and output channels of each group */
	int32_t taps[2], stride[2], dilation[2], pad[2];
};

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
/* Every element of `sink`: the one of equal index in `source`, or zero where that is none. */
cudaError_t ff_launch_reshape(const struct ff_reshape_side *source,
		const struct ff_reshape_side *sink, int64_t bytes, const void *from, void *to,
		cudaStream_t s);

/* `f`, or, unless `figures` is NULL, what is there. */
cudaError_t ff_launch_update(const struct ff_optimizer *o, const union ff_factors *f,
		const struct ff_figures *figures, float *weight, const float *gradient,
		float *const *state, uint16_t *rounded, int64_t n, cudaStream_t s);

/* Without `dy` forward: out = f(v); else out = dy f'(v), as unary.h says. */
cudaError_t ff_launch_unary(enum ff_unary f, enum ff_dtype type, const void *v, const void *dy,
		void *out, int64_t n, float a, float b, cudaStream_t s);
cudaError_t ff_launch_add(enum ff_dtype type, const struct ff_summands *x, void *out, int64_t n,
		cudaStream_t s);
cudaError_t ff_launch_dropout(enum ff_dtype type, const struct ff_dropout *d, const void *in,
		void *out, cudaStream_t s);

cudaError_t ff_launch_lookup(enum ff_dtype type, const struct ff_embedding *e, const int32_t *ids,
		const void *table, void *out, struct ff_trouble *trouble, cudaStream_t s);
/* Rows are added up in the order of the positions. */
cudaError_t ff_launch_gather(enum ff_dtype type, const struct ff_embedding *e, const int32_t *ids,
		const void *dout, float *gradient, cudaStream_t s);

cudaError_t ff_launch_statistics(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, float *all, float *own, struct ff_trouble *trouble,
		cudaStream_t s);
cudaError_t ff_launch_loss(const struct ff_loss *l, const int32_t *labels, const float *all,
		const float *own, float *out, struct ff_trouble *trouble, cudaStream_t s);
cudaError_t ff_launch_loss_gradient(enum ff_dtype type, const struct ff_loss *l, const void *logits,
		const int32_t *labels, const float *all, void *gradient, cudaStream_t s);

cudaError_t ff_launch_pool(enum ff_dtype type, const struct ff_pool *p, const void *in, void *out,
		void *where, cudaStream_t s);
cudaError_t ff_launch_pool_gradient(enum ff_dtype type, const struct ff_pool *p, const void *dout,
		const void *where, void *din, cudaStream_t s);

/* Sums of the columns of a row-major matrix, in a fixed order, by way of `scratch`. */
int64_t ff_column_scratch(int64_t rows, int64_t columns);
cudaError_t ff_launch_columns(enum ff_dtype type, int64_t rows, int64_t columns, const void *x,
		float *sum, void *scratch, cudaStream_t s);

/* What loops (../loops.h) write: of every step `part` of a function, of steps that share an element
 * the sum or the largest; times `scale`. */
struct ff_folding {
	struct ff_loops loops;
	int32_t function, part; /* enum ff_binary, enum ff_binary_part */
	int32_t largest;
	float scale;
};
/* What a fold needs beside, and how it runs: `read` by enum FF_LOOP_*, some may be NULL. */
int64_t ff_fold_scratch(const struct ff_folding *f);
cudaError_t ff_launch_fold(const struct ff_folding *f, enum ff_dtype type, enum ff_dtype sink_type,
		const void *const *read, void *sink, void *scratch, cudaStream_t s);

/* The gradients of maxima: `loops` as ff_loops_reduce() has them forward, of the whole axes; of
 * equal ones each gets as much. */
cudaError_t ff_launch_spread(enum ff_dtype type, const struct ff_loops *loops, const void *in,
		const void *out, const void *dout, void *din, cudaStream_t s);

cudaError_t ff_launch_softmax(enum ff_dtype type, const struct ff_soft *f, const void *in,
		void *out, cudaStream_t s);
cudaError_t ff_launch_softmax_gradient(enum ff_dtype type, const struct ff_soft *f, const void *out,
		const void *dout, void *din, cudaStream_t s);

/* `saved`: a pair a row.  `weight`, `bias` and the gradients of either may be NULL; those are
 * summed in an order that depends on shapes alone, by way of `scratch`. */
cudaError_t ff_launch_norm(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *weight, const void *bias, void *y, float *saved, cudaStream_t s);
cudaError_t ff_launch_norm_gradient(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *dy, const void *weight, const float *saved, void *dx, cudaStream_t s);
int64_t ff_norm_scratch(const struct ff_norm *n);
cudaError_t ff_launch_norm_weights(enum ff_dtype type, const struct ff_norm *n, const void *x,
		const void *dy, const float *saved, float *dweight, float *dbias, float *scratch,
		cudaStream_t s);

/* Batch norm.  `moments` has four numbers a channel, as FF_REDUCE_MOMENTS has them; so have
 * its gradients: (a, b, c, d) for d dy + b + c (x - a), which takes the place of dy.  All are
 * summed in an order that depends on shapes alone, by way of `scratch`. */
int64_t ff_batch_scratch(const struct ff_batch *b);
cudaError_t ff_launch_batch_moments(enum ff_dtype type, const struct ff_batch *b, const void *x,
		float *moments, float *scratch, cudaStream_t s);
cudaError_t ff_launch_batch_moments_gradient(enum ff_dtype type, const struct ff_batch *b,
		const void *x, const float *dmoments, void *gradient, cudaStream_t s);

/* `moments` NULL: by what is kept.  `weight`, `bias` may be NULL. */
struct ff_batch_values {
	const void *x, *weight, *bias, *dy;
	const float *moments;
	float *mean, *variance;            /* kept */
	float *dmoments, *dweight, *dbias; /* NULL where none are wanted */
};
cudaError_t ff_launch_batch_norm(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, void *y, cudaStream_t s);
/* The sums over dy, and updates what is kept. */
cudaError_t ff_launch_batch_norm_gradient(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, float *scratch, cudaStream_t s);

/* Where cuDNN has no convolution: slow, but of any shape. */
cudaError_t ff_launch_filter(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *weight, const void *bias, void *out, cudaStream_t s);
cudaError_t ff_launch_filter_data(enum ff_dtype type, const struct ff_filter *f, const void *dout,
		const void *weight, void *din, cudaStream_t s);
cudaError_t ff_launch_filter_weight(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *dout, float *dweight, cudaStream_t s);
/* Adds one number a channel to `rows` pixels. */
cudaError_t ff_launch_bias(enum ff_dtype type, int64_t rows, int64_t channels, const void *bias,
		void *image, cudaStream_t s);

#ifdef __cplusplus
}
#endif

#endif
