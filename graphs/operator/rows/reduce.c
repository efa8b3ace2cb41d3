/* Sum, mean and largest along axes, which may be cut along them: of sums the parts are added.  What
 * the largest is of all parts, and how many elements share it, backward must know at each: so its
 * prelude finds both, by element of the output, and backward exchanges nothing.  All parts of the
 * node that have some of an element's write the same, the largest of all.
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

/* Dims: the axes of the data, those that are reduced as R. */
static int map_axes(struct ff_derive *d, const struct ff_value **in, bool reduced[FF_MAX_RANK],
		int32_t dim[FF_MAX_RANK], struct ff_error *err)
{
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, in, err);
	struct ff_operand *o;

	if (code == FF_OK)
		code = find_axes(d, *in, reduced, err);
	if (code < 0)
		return code;
	o = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < (*in)->rank; i++) {
		enum ff_label label = reduced[i] ? FF_DIM_REDUCTION
				      : i        ? FF_DIM_ATTRIBUTE
						 : FF_DIM_SAMPLE;

		dim[i] = ff_derive_dim(d, label, ff_axis_name((*in)->rank, i), (*in)->shape[i]);
		ff_axis_plain(o, i, dim[i]);
	}
	return FF_OK;
}

/* What has the axes that stay, and, where it keeps them, of the others one element. */
static void map_rest(struct ff_operand *o, bool keep, uint32_t rank, const bool *reduced,
		const int32_t *dim)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < rank; i++) {
		if (!reduced[i])
			ff_axis_plain(o, at, dim[i]);
		at += !reduced[i] || keep;
	}
}

/* Of an element backward has so many operations. */
static int derive(struct ff_derive *d, int64_t backward, struct ff_error *err)
{
	const struct ff_reduce_attrs *a = &d->node->attrs.reduce;
	bool reduced[FF_MAX_RANK] = {false};
	int32_t shape[FF_MAX_RANK], dim[FF_MAX_RANK];
	const struct ff_value *in;
	uint32_t rank = 0;
	int64_t n;
	int code = map_axes(d, &in, reduced, dim, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < in->rank; i++)
		if (!reduced[i] || a->keep)
			shape[rank++] = reduced[i] ? 1 : in->shape[i];
	code = ff_derive_out(d, 0, d->graph->dtype, rank, shape, ff_derive_order(rank), err);
	if (code < 0)
		return code;
	map_rest(d->node->out_map, a->keep, in->rank, reduced, dim);
	if (d->node->n_prelude)
		map_rest(ff_derive_map(d, 1), false, in->rank, reduced, dim);
	n = ff_value_volume(in);
	d->node->flops_forward = n;
	d->node->flops_backward = in->needs_grad ? ff_sat_mul(n, backward) : 0;
	return FF_OK;
}

static int derive_sum(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 0, err);
}

static int derive_mean(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 1, err);
}

/* Forward it takes what the prelude found; backward: compare, divide. */
static int derive_max(struct ff_derive *d, struct ff_error *err)
{
	int code = derive(d, 2, err);

	if (code < 0)
		return code;
	d->node->out_map[0].reduce = FF_REDUCE_MAX;
	d->node->in_map[0].backward_only = true;
	d->node->flops_forward = 0;
	return FF_OK;
}

static int derive_statistics(struct ff_derive *d, struct ff_error *err)
{
	bool reduced[FF_MAX_RANK] = {false};
	int32_t shape[FF_MAX_RANK], dim[FF_MAX_RANK];
	const struct ff_value *in;
	uint32_t rank = 0;
	int code = map_axes(d, &in, reduced, dim, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < in->rank; i++)
		if (!reduced[i])
			shape[rank++] = in->shape[i];
	shape[rank++] = 2;
	code = ff_derive_out(d, 0, FF_F32, rank, shape, ff_order_plain, err);
	if (code < 0)
		return code;
	map_rest(d->node->out_map, false, in->rank, reduced, dim);
	d->node->out_map[0].reduce = FF_REDUCE_TIES;
	/* compare, compare, count */
	d->node->flops_forward = ff_sat_mul(3, ff_value_volume(in));
	return FF_OK;
}

/* Output: the largest and how many there are of it, as FF_REDUCE_TIES has it. */
const struct ff_op_row ff_op_max_statistics = {.name = "max_statistics",
		.summary = "what a reduce_max must know of all of its axes",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_PRELUDE | FF_OP_CONSTANT,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive_statistics};

#define REDUCE(row, text, ...)                                                                     \
	const struct ff_op_row ff_op_reduce_##row = {.name = "reduce_" #row,                       \
			.summary = text,                                                           \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.derive = derive_##row,                                                    \
			.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "axes" : [1]}),            \
			__VA_ARGS__}

REDUCE(sum, "sum along axes", .flags = 0);
REDUCE(mean, "mean along axes", .flags = 0);
REDUCE(max, "largest along axes", .flags = FF_OP_BACKWARD_IN, .prelude_name = "statistics",
		.prelude = FF_OP_MAX_STATISTICS);
