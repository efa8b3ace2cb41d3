/* Sum, mean and largest along axes.  A sum may be cut along them: parts are added.  Of the largest
 * a part has those axes whole, as backward must know how many elements share a maximum.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, reduce.field)
static const struct ff_attr_row attrs[] = {
		{.name = "axes",
				.type = FF_ATTR_SHAPE,
				.offset = AT(n_axes),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.required = 1,
				.in_key = 1},
		{.name = "keep", .type = FF_ATTR_BOOL, .offset = AT(keep), .max = 1},
};
#undef AT

/* Which axes are reduced. */
static int find_axes(struct ff_derive *d, const struct ff_value *in, bool reduced[FF_MAX_RANK],
		struct ff_error *err)
{
	const struct ff_reduce_attrs *a = &d->node->attrs.reduce;

	for (int32_t i = 0; i < a->n_axes; i++) {
		if (a->axis[i] >= (int32_t)in->rank || reduced[a->axis[i]])
			return ff_derive_fail(d, err,
					"\"axes\" %s are not different ones of the input's 1 to %u",
					ff_shape_text((uint32_t)a->n_axes, a->axis).text,
					in->rank - 1);
		reduced[a->axis[i]] = true;
	}
	return FF_OK;
}

/* `whole`: a part has all of the axes that are reduced. */
static int derive(struct ff_derive *d, bool whole, int64_t backward, struct ff_error *err)
{
	const struct ff_reduce_attrs *a = &d->node->attrs.reduce;
	bool reduced[FF_MAX_RANK] = {false};
	int32_t shape[FF_MAX_RANK], dim[FF_MAX_RANK];
	uint32_t rank = 0;
	const struct ff_value *in;
	struct ff_operand *o;
	int64_t n;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = find_axes(d, in, reduced, err);
	if (code < 0)
		return code;
	o = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		enum ff_label label = reduced[i] ? FF_DIM_REDUCTION
				      : i        ? FF_DIM_ATTRIBUTE
						 : FF_DIM_SAMPLE;

		if (!reduced[i] || a->keep)
			shape[rank++] = reduced[i] ? 1 : in->shape[i];
		if (whole && reduced[i])
			continue;
		dim[i] = ff_derive_dim(d, label, ff_axis_name(in->rank, i), in->shape[i]);
		ff_axis_plain(o, i, dim[i]);
	}
	code = ff_derive_out(d, 0, d->graph->dtype, rank, shape, ff_derive_order(rank), err);
	if (code < 0)
		return code;
	rank = 0;
	for (uint32_t i = 0; i < in->rank; i++) {
		if (!reduced[i])
			ff_axis_plain(d->node->out_map, rank, dim[i]);
		rank += !reduced[i] || a->keep;
	}
	n = ff_shape_volume(in->rank, in->shape);
	d->node->flops_forward = n;
	d->node->flops_backward = in->needs_grad ? ff_sat_mul(n, backward) : 0;
	return FF_OK;
}

static int derive_sum(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, false, 0, err);
}

static int derive_mean(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, false, 1, err);
}

/* compare, count, compare, divide */
static int derive_max(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, true, 4, err);
}

#define REDUCE(row, text, what, how)                                                               \
	const struct ff_op_row ff_op_reduce_##row = {.name = "reduce_" #row,                       \
			.summary = text,                                                           \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.flags = what,                                                             \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.derive = derive_##how,                                                    \
			.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "axes" : [1]})}

REDUCE(sum, "sum along axes", 0, sum);
REDUCE(mean, "mean along axes", 0, mean);
REDUCE(max, "largest along axes", FF_OP_BACKWARD_IN | FF_OP_BACKWARD_OUT, max);
