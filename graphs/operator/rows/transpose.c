/* The axes in another order; the samples stay first.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "perm",
				.type = FF_ATTR_SHAPE,
				.offset = offsetof(union ff_attrs, transpose.rank),
				.max = FF_MAX_RANK - 1,
				.required = 1,
				.in_key = 1},
};

static bool is_permutation(const struct ff_transpose_attrs *a)
{
	uint32_t seen = 0;

	for (int32_t i = 0; i < a->rank; i++)
		seen |= 1u << a->perm[i];
	return seen == (1u << a->rank) - 1 && a->perm[0] == 0;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_transpose_attrs *a = &d->node->attrs.transpose;
	uint32_t rank = (uint32_t)a->rank;
	int32_t shape[FF_MAX_RANK];
	const struct ff_value *in;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, 1, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	if (rank != in->rank || !is_permutation(a))
		return ff_derive_fail(d, err,
				"\"perm\" %s is no order of the axes 0 to %u of the input with 0, "
				"the samples, first",
				ff_shape_text(rank, a->perm).text, in->rank - 1);
	for (uint32_t i = 0; i < rank; i++)
		shape[i] = in->shape[a->perm[i]];
	code = ff_derive_out(d, 0, d->graph->dtype, rank, shape, ff_derive_order(rank), err);
	if (code < 0)
		return code;
	ff_derive_axes(d, rank, shape);
	ff_operand_plain(d->node->out_map);
	o = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < rank; i++)
		ff_axis_plain(o, (uint32_t)a->perm[i], (int32_t)i);
	return FF_OK;
}

const struct ff_op_row ff_op_transpose = {
		.name = "transpose",
		.summary = "the axes in another order; the samples stay first",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "perm" : [ 0, 2, 3, 1 ]}),
};
