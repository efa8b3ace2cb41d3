/* A range of one axis, or every so many elements of it.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, slice.field)
static const struct ff_attr_row attrs[] = {
		{.name = "axis",
				.type = FF_ATTR_INT,
				.offset = AT(axis),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.preset = 1},
		{.name = "start", .type = FF_ATTR_INT, .offset = AT(start), .max = INT32_MAX},
		{.name = "stop",
				.type = FF_ATTR_INT,
				.offset = AT(stop),
				.min = 1,
				.max = INT32_MAX,
				.required = 1},
		{.name = "step",
				.type = FF_ATTR_INT,
				.offset = AT(step),
				.max = INT32_MAX,
				.preset = 1,
				.in_key = 1,
				.later = 1},
};
#undef AT

static int derive(struct ff_derive *d, struct ff_error *err)
{
	struct ff_slice_attrs *a = &d->node->attrs.slice;
	uint32_t axis = (uint32_t)a->axis;
	int32_t shape[FF_MAX_RANK];
	const struct ff_value *in;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, axis + 1, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	if (a->start >= a->stop || a->stop > in->shape[axis])
		return ff_derive_fail(d, err,
				"elements %d to %d are no range of axis %u of the input %s",
				a->start, a->stop, axis, ff_shape_text(in->rank, in->shape).text);
	if (!a->step)
		a->step = 1;
	for (uint32_t i = 0; i < in->rank; i++)
		shape[i] = i == axis ? (a->stop - a->start - 1) / a->step + 1 : in->shape[i];
	code = ff_derive_out(d, 0, d->graph->dtype, in->rank, shape, in->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, in->rank, shape);
	ff_operand_plain(d->node->out_map);
	/* The gradient of what is left out is zero: redistribution fills what no part
	 * covers. */
	o = ff_derive_map(d, 0);
	ff_operand_plain(o);
	o->axis[axis].offset = a->start;
	o->axis[axis].term[0].step = a->step;
	return FF_OK;
}

const struct ff_op_row ff_op_slice = {
		.name = "slice",
		.summary = "a range of one axis, or every so many elements of it",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "stop" : 6}),
};
