/* One tensor as several, equal parts of an axis: the reverse of concat.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "axis",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, split.axis),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.preset = 1,
				.in_key = 1},
		{.name = "parts",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, split.parts),
				.min = 1,
				.max = FF_MAX_OUTPUTS,
				.required = 1},
};

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->out = (uint32_t)a->split.parts;
}

/* The iteration space is the input; of it an output has the range that does not
 * clamp to nothing. */
static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_split_attrs *a = &d->node->attrs.split;
	uint32_t axis = (uint32_t)a->axis;
	int32_t shape[FF_MAX_RANK];
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, axis + 1, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	if (in->shape[axis] % a->parts)
		return ff_derive_fail(d, err, "%d parts must divide axis %u of the input %s",
				a->parts, axis, ff_shape_text(in->rank, in->shape).text);
	for (uint32_t i = 0; i < in->rank; i++)
		shape[i] = i == axis ? in->shape[i] / a->parts : in->shape[i];
	ff_derive_axes(d, in->rank, in->shape);
	ff_operand_plain(ff_derive_map(d, 0));
	for (uint32_t k = 0; k < d->node->n_out; k++) {
		struct ff_operand *o = &d->node->out_map[k];

		code = ff_derive_out(d, k, d->graph->dtype, in->rank, shape, in->order, err);
		if (code < 0)
			return code;
		ff_operand_plain(o);
		o->axis[axis].offset = -(int32_t)k * shape[axis];
	}
	return FF_OK;
}

const struct ff_op_row ff_op_split = {
		.name = "split",
		.summary = "equal parts of an axis, an output each",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.count = count,
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "parts" : 2}),
};
