/* Softmax along an axis, and its logarithm.  What a part that has some of the axis must know of all
 * of it, log of the sum of the exponentials of a row, its prelude finds; backward the node gives
 * its prelude, by row, what its own share of the sum in softmax's slope is, and that logarithm, and
 * of the sum over all parts, and of the output's gradient, which lies where the input's is to be,
 * the prelude makes that.  Where a part has all of the axis nothing is to be exchanged: forward the
 * prelude does nothing, backward the node.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "axis",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, softmax.axis),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.preset = 1,
				.in_key = 1},
};

/* Dims: the axes of the data, that of the softmax as `along`.  What has the others, and two numbers
 * for each row: `pairs`. */
static int map_axes(struct ff_derive *d, enum ff_label along, struct ff_operand *pairs,
		struct ff_error *err)
{
	uint32_t axis = (uint32_t)d->node->attrs.softmax.axis;
	const struct ff_value *in;
	struct ff_operand *x;
	int code = ff_derive_input(d, 0, d->graph->dtype, axis + 1, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	x = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		enum ff_label label = i == axis ? along : i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE;
		int32_t dim = ff_derive_dim(d, label, ff_axis_name(in->rank, i), in->shape[i]);

		ff_axis_plain(x, i, dim);
		if (i != axis)
			ff_axis_plain(pairs, i - (i > axis), dim);
	}
	return FF_OK;
}

static int derive_statistics(struct ff_derive *d, struct ff_error *err)
{
	uint32_t axis = (uint32_t)d->node->attrs.softmax.axis, rank = 0;
	const struct ff_value *in = ff_derive_in(d, 0);
	int64_t n = ff_value_volume(in);
	int32_t shape[FF_MAX_RANK];
	int code;

	for (uint32_t i = 0; i < in->rank && rank + 1 < FF_MAX_RANK; i++)
		if (i != axis)
			shape[rank++] = in->shape[i];
	shape[rank++] = 2;
	code = ff_derive_out(d, 0, FF_F32, rank, shape, ff_order_plain, err);
	if (code == FF_OK)
		code = map_axes(d, FF_DIM_REDUCTION, d->node->out_map, err);
	d->node->out_map[0].reduce = FF_REDUCE_LOG_SUM_EXP;
	/* compare, subtract, exp, sum; backward subtract, exp, subtract, multiply */
	d->node->flops_forward = 0;
	d->node->flops_backward = in->needs_grad ? ff_sat_mul(9, n) : 0;
	return code;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *in = ff_derive_in(d, 0);
	int code = map_axes(d, FF_DIM_ATTRIBUTE, ff_derive_map(d, 1), err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, in->rank, in->shape, in->order, err);
	if (code < 0)
		return code;
	ff_operand_plain(d->node->out_map);
	/* compare, subtract, exp, sum, scale */
	ff_derive_flops(d, 5, 0);
	return FF_OK;
}

static bool has_all(const struct ff_work *w)
{
	uint32_t axis = (uint32_t)w->node->attrs.softmax.axis;

	return ff_region_size(&w->box, axis) == w->node->dim[axis].extent;
}

/* Of an element, where a part has all of the axis and where it has some. */
static int64_t flops_statistics(const struct ff_work *w)
{
	int64_t each = w->pass == FF_FORWARD ? (has_all(w) ? 0 : 4) : (has_all(w) ? 9 : 4);

	return ff_sat_mul(each, ff_region_volume(&w->box));
}

static int64_t flops(const struct ff_work *w)
{
	int64_t each = w->pass == FF_FORWARD ? (has_all(w) ? 5 : 3) : (has_all(w) ? 0 : 5);

	return ff_sat_mul(each, ff_region_volume(&w->box));
}

/* Output: by row, as FF_REDUCE_LOG_SUM_EXP has it, of a part that has some of the axis; of one that
 * has all zeros.  Its gradient are (a, b): with y = exp(x - b), that of x is y (dy - a), or of the
 * logarithm dy - y a. */
#define STATISTICS(row, text)                                                                      \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = (text),                                                         \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.flags = FF_OP_PRELUDE | FF_OP_BACKWARD_IN,                                \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.derive = derive_statistics,                                               \
			.kernel_class = FF_KERNEL_SOFTMAX,                                         \
			.flops = flops_statistics}

STATISTICS(soft_statistics, "what a softmax must know of all of its axis");
/* the prelude of log_softmax, whose gradient is another one */
STATISTICS(log_soft_statistics, "what a log_softmax must know of all of its axis");

#define SOFTMAX(row, before, text)                                                                 \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = (text),                                                         \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.flags = FF_OP_BACKWARD_IN,                                                \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.prelude_name = "statistics",                                              \
			.prelude = (before),                                                       \
			.derive = derive,                                                          \
			.kernel_class = FF_KERNEL_SOFTMAX,                                         \
			.flops = flops}

SOFTMAX(softmax, FF_OP_SOFT_STATISTICS, "exp(x) by its sum along an axis");
SOFTMAX(log_softmax, FF_OP_LOG_SOFT_STATISTICS, "logarithm of the softmax along an axis");
