/* A tensor broadcast to a shape, or a parameter of the node's own, which has no samples.  Parts may
 * read the same elements; as with a layer's input, its gradient is the sum of theirs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, expand.field)
static const struct ff_attr_row attrs[] = {
		{.name = "shape",
				.type = FF_ATTR_SHAPE,
				.offset = AT(rank),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.of_batch = 1},
		{.name = "weight",
				.type = FF_ATTR_SHAPE,
				.offset = AT(own_rank),
				.min = 1,
				.max = INT32_MAX},
};
#undef AT

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->params = a->expand.own_rank ? 1 : 0;
}

/* What is expanded, and whether it fits. */
static int find_source(
		struct ff_derive *d, uint32_t *rank, const int32_t **from, struct ff_error *err)
{
	const struct ff_expand_attrs *a = &d->node->attrs.expand;
	const struct ff_value *in;
	int code;

	*rank = (uint32_t)a->own_rank;
	*from = a->own;
	if (d->node->n_data + (*rank ? 1 : 0) != 1)
		return ff_derive_fail(d, err, "expected 1 input, or the shape of a \"weight\"");
	if (!*rank) {
		code = ff_derive_input(d, 0, d->graph->dtype, 1, FF_MAX_RANK, &in, err);
		if (code < 0)
			return code;
		*rank = in->rank;
		*from = in->shape;
		if ((int32_t)in->rank != a->rank || in->shape[0] != a->shape[0])
			return ff_derive_fail(d, err,
					"\"shape\" %s must have as many axes and samples as the "
					"input %s",
					ff_shape_text((uint32_t)a->rank, a->shape).text,
					ff_shape_text(in->rank, in->shape).text);
	} else if (a->own_rank > a->rank || (a->own_rank == a->rank && a->own[0] != 1)) {
		return ff_derive_fail(d, err, "\"weight\" %s has no samples to become \"shape\" %s",
				ff_shape_text(*rank, *from).text,
				ff_shape_text((uint32_t)a->rank, a->shape).text);
	}
	for (uint32_t i = 0; i < *rank; i++)
		if ((*from)[i] != 1 && (*from)[i] != a->shape[(uint32_t)a->rank - *rank + i])
			return ff_derive_fail(d, err, "%s does not broadcast to \"shape\" %s",
					ff_shape_text(*rank, *from).text,
					ff_shape_text((uint32_t)a->rank, a->shape).text);
	return FF_OK;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_expand_attrs *a = &d->node->attrs.expand;
	uint32_t rank = (uint32_t)a->rank, own;
	const int32_t *from;
	struct ff_operand *o;
	int code = find_source(d, &own, &from, err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, rank, a->shape,
				a->own_rank ? ff_derive_order(rank) : ff_derive_in(d, 0)->order,
				err);
	if (code == FF_OK && a->own_rank)
		code = ff_derive_param(d, 0, own, from, ff_derive_order(own), 0, &o, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, rank, a->shape);
	ff_operand_plain(d->node->out_map);
	if (!a->own_rank)
		o = ff_derive_map(d, 0);
	/* axes of one element in the output too are cut all the same, but for the samples of a
	 * parameter */
	for (uint32_t i = 0; i < own; i++)
		if (from[i] > 1 || (!a->own_rank && a->shape[i] == 1))
			ff_axis_plain(o, i, (int32_t)(rank - own + i));
	ff_derive_flops(d, 0, 1);
	return FF_OK;
}

const struct ff_op_row ff_op_expand = {
		.name = "expand",
		.summary = "a tensor broadcast to a shape, or a parameter",
		.min_in = 0,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.param = {"weight"},
		.count = count,
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 1, 6, 6 ]], "shape" : [ 4, 8, 6, 6 ]}),
};
