/* Attributes of operators.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ATTRS_H
#define FF_ATTRS_H

#include <stdint.h>

#include "ff/region.h"

#define FF_MAX_SPATIAL 3 /* spatial axes: depth, height, width, or the last one or two of these */

/* A list of any length. */
struct ff_numbers {
	int64_t n;
	const double *at;
};
/* Attributes by operator.  An array of FF_MAX_SPATIAL is used as far as there are spatial axes.
 *
 * Input: with `sums` the input is a batch statistic, one number, the same for every sample: the sum
 * of the elements of the graph's input number `of` over the whole batch.  A real element counts
 * itself times sums[0].  For integers `sums` has runs: a number of classes, and what each of these
 * counts. */
struct ff_input_attrs {
	int32_t rank, shape[FF_MAX_RANK];
	int32_t dtype, classes, of;
	struct ff_numbers sums;
};
/* pad: before the first and after the last element; a transposed convolution removes it from its
 * output, and adds output_pad after the last element. */
struct ff_conv_attrs {
	int32_t out_channels, kernel[FF_MAX_SPATIAL], stride[FF_MAX_SPATIAL];
	int32_t pad[2][FF_MAX_SPATIAL], dilation[FF_MAX_SPATIAL], groups, bias;
	int32_t output_pad[FF_MAX_SPATIAL];
};
struct ff_linear_attrs {
	int32_t out_features, bias;
};
enum ff_pool_mode { FF_POOL_MAX, FF_POOL_AVG };
struct ff_pool_attrs {
	int32_t mode, kernel[FF_MAX_SPATIAL], stride[FF_MAX_SPATIAL], pad[2][FF_MAX_SPATIAL];
	int32_t ceil, count_pad; /* round the output's size up; the mean counts the padding */
};
/* size: of the output's spatial axes. */
enum ff_resize_mode { FF_RESIZE_NEAREST, FF_RESIZE_LINEAR };
struct ff_resize_attrs {
	int32_t axes, size[FF_MAX_RANK], mode, corners; /* corners: align_corners */
};
struct ff_response_attrs {
	double alpha, beta, k;
	int32_t size; /* channels */
};
struct ff_concat_attrs {
	int32_t axis;
};
struct ff_slice_attrs {
	int32_t axis, start, stop, step; /* of elements start .. stop - 1 every step-th */
};
/* Padding is a constant, the mirrored elements next to the border, or the border's element. */
enum ff_pad_mode { FF_PAD_CONSTANT, FF_PAD_REFLECT, FF_PAD_EDGE };
struct ff_pad_attrs { /* by axis, 0 for samples; negative: removes elements */
	int32_t rank, before[FF_MAX_RANK], rank_after, after[FF_MAX_RANK];
	double value;
	int32_t mode;
};
/* Expands its input to `shape`, or a parameter of its own that has the shape `own` (own_rank > 0).
 */
struct ff_expand_attrs {
	int32_t rank, shape[FF_MAX_RANK], own_rank, own[FF_MAX_RANK];
};
struct ff_gather_attrs {
	int32_t axis;
	struct ff_numbers indices;
};
struct ff_constant_attrs {
	int32_t rank, shape[FF_MAX_RANK];
	struct ff_numbers runs; /* a sample's elements, run-length coded: length, value, ... */
};
struct ff_split_attrs {
	int32_t axis, parts;
};
struct ff_transpose_attrs {
	int32_t rank, perm[FF_MAX_RANK]; /* axis i of the output is axis perm[i] of the input */
};
struct ff_embedding_attrs {
	int32_t vocabulary, features;
	int32_t sparse; /* the table's gradient has only the rows that were looked up */
};
struct ff_reshape_attrs {
	int32_t rank, shape[FF_MAX_RANK]; /* as asked: 0 keeps the axis, one -1 is inferred */
};
enum ff_dropout_per { FF_DROP_ELEMENT, FF_DROP_SAMPLE };
struct ff_dropout_attrs {
	double p;
	int32_t per;
};
/* Functions of one element: their constants, and the variant of the operator. */
struct ff_unary_attrs {
	double a, b;
	int32_t form;
};
/* Functions of two elements: the shape of the parameter that is the second operand; rank 0: the
 * second operand is an input. */
struct ff_binary_attrs {
	int32_t rank, shape[FF_MAX_RANK];
};
struct ff_reduce_attrs {
	int32_t n_axes, axis[FF_MAX_RANK], keep; /* keep: reduced axes stay, with extent 1 */
};
struct ff_matmul_attrs {
	int32_t transpose_a, transpose_b; /* the last two axes */
};
struct ff_attention_attrs {
	int32_t head_dim, causal;
	double scale;   /* 0: 1 / sqrt(head_dim) */
	double dropout; /* share of the weights that is zeroed while training */
};
struct ff_rope_attrs {
	int32_t head_dim;
	double base;
};
struct ff_softmax_attrs {
	int32_t axis;
};
/* All normalisations; each uses some. */
struct ff_norm_attrs {
	int32_t axes, groups, affine, bias, sync, group;
	double epsilon, momentum;
};
/* Recurrent layers.  reverse: from the last step to the first; cell: the last cell state is an
 * output. */
struct ff_recurrent_attrs {
	int32_t bias, reverse, cell, reset_first;
};
struct ff_route_attrs {
	int32_t choices, capacity; /* experts a place; places a sample and expert, 0: no limit */
	int32_t index; /* writes each slot's place by number, instead of ones and zeros */
};
/* All losses; each has `weight` and uses some of the others. */
struct ff_loss_attrs {
	double weight, smoothing;
	int32_t ignore;
};
union ff_attrs {
	struct ff_input_attrs input;
	struct ff_conv_attrs conv;
	struct ff_linear_attrs linear;
	struct ff_pool_attrs pool;
	struct ff_resize_attrs resize;
	struct ff_response_attrs response;
	struct ff_concat_attrs concat;
	struct ff_split_attrs split;
	struct ff_slice_attrs slice;
	struct ff_pad_attrs pad;
	struct ff_expand_attrs expand;
	struct ff_gather_attrs gather;
	struct ff_constant_attrs constant;
	struct ff_reshape_attrs reshape;
	struct ff_transpose_attrs transpose;
	struct ff_embedding_attrs embedding;
	struct ff_dropout_attrs dropout;
	struct ff_reduce_attrs reduce;
	struct ff_matmul_attrs matmul;
	struct ff_attention_attrs attention;
	struct ff_rope_attrs rope;
	struct ff_softmax_attrs softmax;
	struct ff_unary_attrs unary;
	struct ff_binary_attrs binary;
	struct ff_norm_attrs norm;
	struct ff_recurrent_attrs recurrent;
	struct ff_route_attrs route;
	struct ff_loss_attrs loss;
};

#endif
