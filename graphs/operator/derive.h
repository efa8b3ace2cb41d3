/* Helpers for derive(), the function of an operator's row that fills a node.  Extents are checked
 * here, once, so that rows may multiply freely. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPHS_DERIVE_H
#define FF_GRAPHS_DERIVE_H

#include <float.h>

#include "ff/graph.h"
#include "ff/work.h"

/* Limits, checked while a graph is built.  With them these fit 64 bits: the bytes of all tensors on
 * one device, of one tensor or of all parameters on 4,096 devices, and the FLOPs of a step.  The
 * bytes of all tensors on all devices are summed with saturation.  Elements are those that all
 * nodes read, write and train; a parameter counts once a reader.  GPT-3 on 1,536 times 2,048 words
 * has some 2^47.2. */
#define FF_MAX_TENSOR_ELEMENTS ((int64_t)1 << 44)
#define FF_MAX_PARAMETER_ELEMENTS ((int64_t)1 << 46)
#define FF_MAX_GRAPH_ELEMENTS ((int64_t)1 << 50)
#define FF_MAX_GRAPH_FLOPS ((int64_t)1 << 62)

#define FF_OP_EXTERN(e, row) extern const struct ff_op_row ff_op_##row;
FF_OPS(FF_OP_EXTERN)
#undef FF_OP_EXTERN

/* The attribute of every loss: its weight in the sum of its graph's losses. */
#define FF_LOSS_WEIGHT                                                                             \
	{                                                                                          \
		.name = "weight", .type = FF_ATTR_REAL,                                            \
		.offset = offsetof(union ff_attrs, loss.weight), .max = FLT_MAX, .preset = 1,      \
		.later = 1                                                                         \
	}

/* An example of the operator, for tests and docs: attributes as in a graph file, "in": shapes of
 * its data, "labels": shapes of the int32 inputs after those. */
#define FF_EXAMPLE(...) #__VA_ARGS__

/* One node under construction; the nodes before it are complete. */
struct ff_derive {
	struct ff_graph *graph; /* its nodes' parameters are written too */
	struct ff_node *node;
	const struct ff_json *place; /* the node in its file; NULL when built in code */
};

/* "file: nodes[3]: conv2d "conv1": " or "graph "g": conv2d "conv1": " and the
 * sentence, as FF_E_INPUT. */
void ff_derive_error(const struct ff_derive *d, struct ff_error *err, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
#define ff_derive_fail(d, err, ...)                                                                \
	(ff_derive_error(d, err, __VA_ARGS__), ff_error_code(FF_E_INPUT))

/* The value at input `slot`. */
const struct ff_value *ff_derive_in(const struct ff_derive *d, uint32_t slot);
/* Output number `port`. */
struct ff_value *ff_derive_value(const struct ff_derive *d, uint32_t port);
/* ff_derive_in after checking its type and rank. */
int ff_derive_input(const struct ff_derive *d, uint32_t slot, enum ff_dtype dtype,
		uint32_t min_rank, uint32_t max_rank, const struct ff_value **ret,
		struct ff_error *err);
/* "[64, 1, 28, 28]" */
struct ff_shape_text {
	char text[96];
};
struct ff_shape_text ff_shape_text(uint32_t rank, const int32_t *shape);

/* Output extent of a sliding window along one axis, as in PyTorch:
 * (in + pad[0] + pad[1] - dilation (kernel - 1) - 1) / stride + 1, rounded down; with `ceil` up,
 * but no window begins in the padding after the last element. */
struct ff_window {
	const char *name; /* "height" */
	int32_t in, kernel, stride, dilation, pad[2];
	bool ceil;
};
int ff_derive_window(const struct ff_derive *d, const struct ff_window *w, int32_t *out,
		struct ff_error *err);

/* Appends a dim to the iteration space and returns its number. */
int32_t ff_derive_dim(struct ff_derive *d, enum ff_label label, const char *name, int32_t extent);
/* The name of axis `axis` of a tensor of `rank` axes: "sample", "channel", ... */
const char *ff_axis_name(uint32_t rank, uint32_t axis);
/* The name of spatial axis `axis` of `axes`: "length"; "height", "width"; "depth" before these. */
const char *ff_spatial_name(uint32_t axes, uint32_t axis);
/* Appends one dim for each axis of `shape`: S for the first, A for the rest. */
void ff_derive_axes(struct ff_derive *d, uint32_t rank, const int32_t *shape);

/* The preset order of axes in memory: by rank alone, so that tensors of one shape have the same. */
static inline const uint8_t *ff_derive_order(uint32_t rank)
{
	return rank == 4 ? ff_order_image : rank == 5 ? ff_order_volume : ff_order_plain;
}
/* The order of axes of filters with `axes` spatial axes: channels innermost. */
static inline const uint8_t *ff_derive_filter_order(uint32_t axes)
{
	return axes == 1 ? ff_order_line : ff_derive_order(2 + axes);
}
/* Sets output `port`, stored in `order`; its axes are whole until mapped. */
int ff_derive_out(struct ff_derive *d, uint32_t port, enum ff_dtype dtype, uint32_t rank,
		const int32_t *shape, const uint8_t *order, struct ff_error *err);
/* Sets parameter number `i`; of a tied parameter, checks that its first reader made the same.  Its
 * axes are whole until mapped. */
int ff_derive_param(struct ff_derive *d, uint32_t i, uint32_t rank, const int32_t *shape,
		const uint8_t *order, int64_t fan_in, struct ff_operand **ret,
		struct ff_error *err);
/* A weight whose first two axes are `dim_out` and `dim_in` and whose others are whole. */
struct ff_weight {
	uint32_t rank;
	const int32_t *shape;
	const uint8_t *order;
	int64_t fan_in;
	int32_t dim_out, dim_in;
};
/* Sets parameter 0 and, if `bias`, parameter 1 with an element for each of `dim_out`. */
int ff_derive_weights(
		struct ff_derive *d, const struct ff_weight *w, bool bias, struct ff_error *err);
/* Shape of input `slot`; its axes are whole until mapped. */
struct ff_operand *ff_derive_map(struct ff_derive *d, uint32_t slot);
/* A value carried along dim `dim`, which is axis `axis` of its shape; `down`: towards the dim's
 * start.  Along that axis `shape` has the dim's extent: an element is the state between two steps.
 */
struct ff_carry {
	enum ff_dtype dtype;
	uint32_t rank;
	const int32_t *shape;
	uint32_t axis;
	int32_t dim;
	bool down;
	/* Set by ff_derive_carry: the operands by which a part writes it, and reads it.  Axes other
	 * than `axis` are whole until mapped. */
	struct ff_operand *left, *found;
};
/* Sets carried value number `i`. */
int ff_derive_carry(struct ff_derive *d, uint32_t i, struct ff_carry *c, struct ff_error *err);
/* All of derive() for an operator whose inputs and single output have the same shape, dims and
 * layout, with plain axes. */
int ff_derive_alike(struct ff_derive *d, int64_t forward, int64_t backward, struct ff_error *err);

/* Maps of one axis. */
void ff_axis_plain(struct ff_operand *o, uint32_t axis, int32_t dim);
void ff_axis_window(struct ff_operand *o, uint32_t axis, int32_t dim, const struct ff_window *w);
/* Adds a term; the first one replaces "whole" by offset 0 and window 1. */
struct ff_axis_map *ff_axis_term(struct ff_operand *o, uint32_t axis, struct ff_term term);
/* Axis i is dim i, for all axes. */
void ff_operand_plain(struct ff_operand *o);

/* Sets the FLOPs: `forward` and `backward` operations for each output element. */
void ff_derive_flops(struct ff_derive *d, int64_t forward, int64_t backward);
/* Sets the FLOPs of an operator whose output elements are sums of `fan_in` products, perhaps with a
 * bias. Backward has as many products for the weights, and as many for input 0 if that needs a
 * gradient. */
void ff_derive_products(struct ff_derive *d, int64_t fan_in, bool bias);
bool ff_derive_needs_grad(const struct ff_derive *d, uint32_t slot);

#endif
