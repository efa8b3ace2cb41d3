/* Functions of two elements, one from each of two tensors, as NumPy broadcasts them: shapes are
 * compared from the last axis on, and an operand has an axis whole or one element of it, or lacks
 * it.  The second operand may be a parameter of the node's own.  What they compute,
 * runtime/kernels/binary.h says.
 *
 * A part reads what its part of the output needs of each operand, so parts may read the same
 * elements of one that is broadcast; as with a layer's input, its gradient is the sum of theirs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {{.name = "shape",
		.type = FF_ATTR_SHAPE,
		.offset = offsetof(union ff_attrs, binary.rank),
		.min = 1,
		.max = INT32_MAX}};

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->params = a->binary.rank ? 1 : 0;
}

/* Widens `shape` by an operand's, or says that they do not fit. */
static int join(struct ff_derive *d, const char *what, uint32_t rank, const int32_t *own,
		uint32_t all, int32_t *shape, struct ff_error *err)
{
	for (uint32_t i = 0; i < rank; i++) {
		int32_t *to = &shape[all - rank + i];

		if (own[i] != 1 && *to != 1 && *to != own[i])
			return ff_derive_fail(d, err,
					"%s %s does not broadcast to %s: axes counted from the "
					"last must agree or be 1",
					what, ff_shape_text(rank, own).text,
					ff_shape_text(all, shape).text);
		*to = own[i] > *to ? own[i] : *to;
	}
	return FF_OK;
}

/* Tensors have one rank and as many samples: which axis is which must not depend on a number of
 * samples that happens to be equal to another size. */
static int join_data(struct ff_derive *d, uint32_t *rank, int32_t *shape, struct ff_error *err)
{
	const struct ff_value *first = ff_derive_in(d, 0), *in;
	int code = FF_OK;

	for (uint32_t i = 0; i < d->node->n_data && code == FF_OK; i++) {
		code = ff_derive_input(d, i, d->graph->dtype, 1, FF_MAX_RANK, &in, err);
		if (code == FF_OK && (in->rank != first->rank || in->shape[0] != first->shape[0]))
			code = ff_derive_fail(d, err,
					"inputs must have as many axes and samples: input 0 is "
					"%s, input %u is %s",
					ff_shape_text(first->rank, first->shape).text, i,
					ff_shape_text(in->rank, in->shape).text);
		for (uint32_t k = 0; code == FF_OK && !i && k < in->rank; k++)
			shape[k] = in->shape[k];
		if (code == FF_OK)
			code = join(d, i ? "input 1" : "input 0", in->rank, in->shape, in->rank,
					shape, err);
	}
	*rank = first->rank;
	return code;
}

static void map_operand(struct ff_operand *o, uint32_t rank)
{
	for (uint32_t i = 0; i < o->rank; i++)
		if (o->shape[i] > 1)
			ff_axis_plain(o, i, (int32_t)(rank - o->rank + i));
}

/* Axes of one element in the output too have a dim all the same. */
static void map_data(struct ff_derive *d, uint32_t slot, const int32_t *shape)
{
	struct ff_operand *o = ff_derive_map(d, slot);

	for (uint32_t i = 0; i < o->rank; i++)
		if (o->shape[i] > 1 || shape[i] == 1)
			ff_axis_plain(o, i, (int32_t)i);
}

/* `fan_in`: how a parameter starts.  FLOPs of a gradient: `slope` an element. */
static int derive(struct ff_derive *d, int64_t fan_in, int64_t slope, struct ff_error *err)
{
	const struct ff_binary_attrs *a = &d->node->attrs.binary;
	uint32_t rank, own = (uint32_t)a->rank;
	int32_t shape[FF_MAX_RANK] = {0};
	struct ff_operand *o;
	int code;

	if (d->node->n_data + (own ? 1 : 0) != 2)
		return ff_derive_fail(d, err,
				"expected 2 inputs, or 1 and the \"shape\" of a "
				"parameter");
	code = join_data(d, &rank, shape, err);
	if (code == FF_OK && own > rank)
		code = ff_derive_fail(d, err, "\"shape\" %s has more axes than the input",
				ff_shape_text(own, a->shape).text);
	if (code == FF_OK && own == rank && a->shape[0] != 1)
		code = ff_derive_fail(d, err, "\"shape\" %s has an axis of samples: expected 1",
				ff_shape_text(own, a->shape).text);
	if (code == FF_OK)
		code = join(d, "\"shape\"", own, a->shape, rank, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(
				d, 0, d->graph->dtype, rank, shape, ff_derive_in(d, 0)->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, rank, shape);
	ff_operand_plain(d->node->out_map);
	for (uint32_t i = 0; i < d->node->n_data; i++)
		map_data(d, i, shape);
	if (own) {
		code = ff_derive_param(d, 0, own, a->shape, ff_derive_order(own), fan_in, &o, err);
		if (code < 0)
			return code;
		map_operand(o, rank);
	}
	ff_derive_flops(d, 1, slope * (ff_derive_needs_grad(d, 0) + ff_derive_needs_grad(d, 1)));
	return FF_OK;
}

/* More than two, which have one shape. */
static int derive_sum(struct ff_derive *d, struct ff_error *err)
{
	if (d->node->attrs.binary.rank)
		return ff_derive_fail(d, err, "a sum of more than two has no parameter");
	return ff_derive_alike(d, (int64_t)d->node->n_in - 1, 0, err);
}

static int derive_add(struct ff_derive *d, struct ff_error *err)
{
	return d->node->n_data > 2 ? derive_sum(d, err) : derive(d, 0, 0, err);
}

static int derive_sub(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 0, 1, err);
}

/* The gradient by the other operand, or by where each is the one. */
static int derive_mul(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, FF_FAN_ONE, 1, err);
}

static int derive_div(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, FF_FAN_ONE, 3, err);
}

static int derive_choice(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 0, 2, err);
}

static int derive_angle(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, FF_FAN_ONE, 4, err);
}

#define BINARY(row, text, most, what, how)                                                         \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = (text),                                                         \
			.min_in = 1,                                                               \
			.max_in = (most),                                                          \
			.flags = (what),                                                           \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.param = {"weight"},                                                       \
			.count = count,                                                            \
			.derive = derive_##how,                                                    \
			.example = FF_EXAMPLE({"in" : [ [ 4, 8, 6, 6 ], [ 4, 8, 6, 6 ] ]})}

BINARY(add, "sum of two tensors, or of more of one shape", 128, 0, add);
BINARY(sub, "difference of two tensors", 2, 0, sub);
BINARY(mul, "product of two tensors, element by element", 2, FF_OP_BACKWARD_IN, mul);
BINARY(div, "quotient of two tensors, element by element", 2, FF_OP_BACKWARD_IN, div);
BINARY(min, "the smaller of two elements", 2, FF_OP_BACKWARD_IN, choice);
BINARY(max, "the larger of two elements", 2, FF_OP_BACKWARD_IN, choice);
BINARY(atan2, "angle of the point whose height is the first and whose other side is the second", 2,
		FF_OP_BACKWARD_IN, angle);
BINARY(mask, "the first where the second is above 0, else 0", 2, FF_OP_BACKWARD_IN, choice);
