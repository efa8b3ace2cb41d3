/* Elements of one axis in an order that is known.  A part may need any of them, so it reads the
 * axis whole; of an element that is there several times gradients are added, of one that is not
 * there it is zero.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, gather.field)
static const struct ff_attr_row attrs[] = {
		{.name = "axis",
				.type = FF_ATTR_INT,
				.offset = AT(axis),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.preset = 1,
				.in_key = 1},
		{.name = "indices",
				.type = FF_ATTR_LIST,
				.offset = AT(indices),
				.max = INT32_MAX,
				.required = 1},
};
#undef AT

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_gather_attrs *a = &d->node->attrs.gather;
	uint32_t axis = (uint32_t)a->axis;
	int32_t shape[FF_MAX_RANK];
	const struct ff_value *in;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, axis + 1, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	for (int64_t i = 0; i < a->indices.n; i++)
		if (a->indices.at[i] != (int32_t)a->indices.at[i] ||
				a->indices.at[i] >= in->shape[axis])
			return ff_derive_fail(d, err,
					"indices[%lld] is %g, which is no element of axis %u of "
					"the "
					"input %s",
					(long long)i, a->indices.at[i], axis,
					ff_shape_text(in->rank, in->shape).text);
	if (a->indices.n > INT32_MAX)
		return ff_derive_fail(d, err, "the output exceeds 32 bits along axis %u", axis);
	for (uint32_t i = 0; i < in->rank; i++)
		shape[i] = i == axis ? (int32_t)a->indices.n : in->shape[i];
	code = ff_derive_out(d, 0, d->graph->dtype, in->rank, shape, in->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, in->rank, shape);
	ff_operand_plain(d->node->out_map);
	o = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++)
		if (i != axis)
			ff_axis_plain(o, i, (int32_t)i);
	ff_derive_flops(d, 0, 1);
	return FF_OK;
}

const struct ff_op_row ff_op_gather = {
		.name = "gather",
		.summary = "elements of one axis in another order, any number of times",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.kernel_class = FF_KERNEL_LOOKUP,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "indices" : [ 3, 1, 0, 2 ]}),
};
