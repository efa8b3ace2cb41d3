/* Tensors one behind the other along an axis.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "axis",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, concat.axis),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.preset = 1,
				.in_key = 1},
};

/* Adds input `slot` to `shape`, which holds the sum of those before it. */
static int join(struct ff_derive *d, uint32_t slot, int32_t *shape, struct ff_error *err)
{
	uint32_t axis = (uint32_t)d->node->attrs.concat.axis;
	const struct ff_value *in, *first = ff_derive_in(d, 0);
	int code = ff_derive_input(d, slot, d->graph->dtype, axis + 1, FF_MAX_RANK, &in, err);
	struct ff_operand *o;
	int64_t sum;
	bool fits;

	if (code < 0)
		return code;
	fits = in->rank == first->rank;
	for (uint32_t i = 0; fits && i < in->rank; i++)
		fits = i == axis || in->shape[i] == first->shape[i];
	if (!fits)
		return ff_derive_fail(d, err,
				"inputs must agree in every axis but %u: input 0 is %s, input %u "
				"is %s",
				axis, ff_shape_text(first->rank, first->shape).text, slot,
				ff_shape_text(in->rank, in->shape).text);
	sum = (slot ? shape[axis] : 0) + (int64_t)in->shape[axis];
	if (sum > INT32_MAX)
		return ff_derive_fail(d, err, "the output exceeds 32 bits along axis %u", axis);
	for (uint32_t i = 0; i < in->rank; i++)
		if (i != axis)
			shape[i] = in->shape[i];
	/* The parts before and behind this input clamp to nothing. */
	o = ff_derive_map(d, slot);
	ff_operand_plain(o);
	o->axis[axis].offset = in->shape[axis] - (int32_t)sum;
	shape[axis] = (int32_t)sum;
	return FF_OK;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *first = ff_derive_in(d, 0);
	int32_t shape[FF_MAX_RANK] = {0};
	int code = FF_OK;

	for (uint32_t i = 0; i < d->node->n_in && code == FF_OK; i++)
		code = join(d, i, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, first->rank, shape, first->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, first->rank, shape);
	ff_operand_plain(d->node->out_map);
	return FF_OK;
}

const struct ff_op_row ff_op_concat = {
		.name = "concat",
		.summary = "tensors one behind the other along an axis",
		.min_in = 1,
		.max_in = 128,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
};
