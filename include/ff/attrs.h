/* Attributes of operators.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ATTRS_H
#define FF_ATTRS_H

#include <stdint.h>

#include "ff/region.h"

#define FF_MAX_SPATIAL                                                                             \
	3 /* axes that windows go along: depth, height, width, or the last of those */

/* Numbers, as many as a file has. */
struct ff_numbers {
	int64_t n;
	const double *at;
};
/* Typed attributes; of those with a number for each spatial axis, as many count as there are.
 * sums: no numbers, or the input has one number a sample, the same for all: what the elements of
 * input `of` (of the graph's, from 0) add up to in the whole batch.  Real numbers count for
 * themselves, times sums[0]; of integers there are runs, of how many classes each counts for how
 * much. */
struct ff_input_attrs {
	int32_t rank, shape[FF_MAX_RANK];
	int32_t dtype, classes, of;
	struct ff_numbers sums;
};
/* pad: before the first element, behind the last one; of a transposed one, taken away there, and
 * output_pad: added behind. */
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
/* The spatial axes of the output; of an enlargement how. */
enum ff_resize_mode { FF_RESIZE_NEAREST, FF_RESIZE_LINEAR };
struct ff_resize_attrs {
	int32_t axes, size[FF_MAX_RANK], mode, corners; /* corners: they stay where they are */
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
/* What is around: a number; the elements next to the border, mirrored at its outermost; or that. */
enum ff_pad_mode { FF_PAD_CONSTANT, FF_PAD_REFLECT, FF_PAD_EDGE };
struct ff_pad_attrs { /* by axis, samples too, of which there are none; negative: taken away */
	int32_t rank, before[FF_MAX_RANK], rank_after, after[FF_MAX_RANK];
	double value;
	int32_t mode;
};
/* Of an input, or of a parameter that has the shape `own`; rank 0: none. */
struct ff_expand_attrs {
	int32_t rank, shape[FF_MAX_RANK], own_rank, own[FF_MAX_RANK];
};
struct ff_gather_attrs {
	int32_t axis;
	struct ff_numbers indices;
};
struct ff_constant_attrs {
	int32_t rank, shape[FF_MAX_RANK];
	struct ff_numbers runs; /* of one sample: how many elements, their value; and so on */
};
struct ff_split_attrs {
	int32_t axis, parts;
};
struct ff_transpose_attrs {
	int32_t rank, perm[FF_MAX_RANK]; /* axis i of the output is axis perm[i] of the input */
};
struct ff_embedding_attrs {
	int32_t vocabulary, features;
	int32_t sparse; /* the gradient of the table has the rows that are read, no others */
};
struct ff_reshape_attrs {
	int32_t rank, shape[FF_MAX_RANK]; /* as asked: 0 keeps the axis, one -1 is inferred */
};
enum ff_dropout_per { FF_DROP_ELEMENT, FF_DROP_SAMPLE };
struct ff_dropout_attrs {
	double p;
	int32_t per;
};
/* Of functions of one element: the numbers in them, and which of several forms of one
 * operator it is. */
struct ff_unary_attrs {
	double a, b;
	int32_t form;
};
/* Of functions of two elements: the shape of a parameter that is the second; rank 0: none. */
struct ff_binary_attrs {
	int32_t rank, shape[FF_MAX_RANK];
};
struct ff_reduce_attrs {
	int32_t n_axes, axis[FF_MAX_RANK], keep; /* keep: those axes stay, of one element */
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
/* Of every normalisation those that it has. */
struct ff_norm_attrs {
	int32_t axes, groups, affine, bias, sync, group;
	double epsilon, momentum;
};
/* Of recurrences: whether the last step comes first, and whether the last cell is written. */
struct ff_recurrent_attrs {
	int32_t bias, reverse, cell, reset_first;
};
struct ff_route_attrs {
	int32_t choices, capacity; /* of a place; of an expert: places of a sample, 0: all */
	int32_t index;             /* says who has slots, and which places by number */
};
/* Of losses those that they have; `weight` every one. */
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
