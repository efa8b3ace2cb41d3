/* Batch normalisation: every channel by the mean and variance of all samples and positions,
 * however they are cut.  What must be known of all of them its prelude finds; backward
 * likewise: the gradient of what the prelude wrote is what the parts' sums come to, and with
 * that the prelude makes the gradient of the data of that of the output.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define NORM(member) .offset = offsetof(union ff_attrs, norm.member)

static const struct ff_attr_row attrs[] = {
		{.name = "epsilon",
				.type = FF_ATTR_REAL,
				NORM(epsilon),
				.min = 0,
				.max = 1,
				.preset = 1e-5},
		{.name = "momentum",
				.type = FF_ATTR_REAL,
				NORM(momentum),
				.min = 0,
				.max = 1,
				.preset = 0.1},
		{.name = "affine", .type = FF_ATTR_BOOL, NORM(affine), .max = 1, .preset = 1},
		{.name = "bias", .type = FF_ATTR_BOOL, NORM(bias), .max = 1, .preset = 1},
};

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = ret->kept = 2;
	ret->params = !a->norm.affine ? 0 : a->norm.bias ? 2 : 1;
}

/* Dims: the axes of the data; of the prelude all but the channel are summed over.  Channels
 * of `channels`. */
static int map_axes(
		struct ff_derive *d, bool sums, struct ff_operand *channels, struct ff_error *err)
{
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	if (ff_shape_volume(in->rank, in->shape) == in->shape[1])
		return ff_derive_fail(d, err,
				"input %s has one value for each channel, of which "
				"there is no variance",
				ff_shape_text(in->rank, in->shape).text);
	ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		enum ff_label label = i == 1 ? FF_DIM_PARAMETER
				      : sums ? FF_DIM_REDUCTION
				      : i    ? FF_DIM_ATTRIBUTE
					     : FF_DIM_SAMPLE;

		ff_axis_plain(&d->node->in_map[0], i,
				ff_derive_dim(d, label,
						ff_axis_name(in->rank == 2 ? 4 : in->rank, i),
						in->shape[i]));
	}
	ff_axis_plain(channels, 0, 1);
	return FF_OK;
}

static int derive_moments(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *in = ff_derive_in(d, 0);
	int32_t shape[2] = {in->rank > 1 ? in->shape[1] : 1, 4};
	int64_t n = ff_shape_volume(in->rank, in->shape);
	int code = ff_derive_out(d, 0, FF_F32, 2, shape, ff_order_plain, err);

	if (code == FF_OK)
		code = map_axes(d, true, &d->node->out_map[0], err);
	d->node->out_map[0].reduce = FF_REDUCE_MOMENTS;
	/* sum; subtract, square, add; backward subtract, scale, add */
	d->node->flops_forward = ff_sat_mul(4, n);
	d->node->flops_backward = in->needs_grad ? ff_sat_mul(3, n) : 0;
	return code;
}

/* A parameter, or what is kept, number `i`: by channel. */
static int add_channels(struct ff_derive *d, uint32_t i, int32_t channels, struct ff_error *err)
{
	const struct ff_node *n = d->node;
	struct ff_operand *o;
	int code = ff_derive_out(d, 1 + i, FF_F32, 1, &channels, ff_order_plain, err);

	if (code < 0)
		return code;
	ff_axis_plain(&d->node->out_map[1 + i], 0, 1);
	ff_derive_value(d, 1 + i)->fan_in = i ? FF_FAN_ONE : 0;
	if (i >= n->n_in - n->n_data)
		return FF_OK;
	code = ff_derive_param(d, i, 1, &channels, ff_order_plain, i ? 0 : FF_FAN_ONE, &o, err);
	if (code == FF_OK)
		ff_axis_plain(o, 0, 1);
	return code;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *in = ff_derive_in(d, 0);
	int code = map_axes(d, false, ff_derive_map(d, 1), err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, in->rank, in->shape, in->order, err);
	if (code < 0)
		return code;
	ff_operand_plain(&d->node->out_map[0]);
	for (uint32_t i = 0; i < FF_MAX_KEPT && code == FF_OK; i++)
		code = add_channels(d, i, in->shape[1], err);
	/* subtract, scale, add; backward subtract, two products, two sums, scale */
	ff_derive_flops(d, 3, 6);
	return code;
}

/* Output: by channel, as FF_REDUCE_MOMENTS has it.  Its gradient are (a, b, c, d): that of x
 * is d dy + b + c (x - a), where dy is that of the norm's output and lies where it is made. */
const struct ff_op_row ff_op_batch_moments = {
		.name = "batch_moments",
		.summary = "what batch_norm must know of all samples",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_PRELUDE | FF_OP_BACKWARD_IN,
		.derive = derive_moments,
};

const struct ff_op_row ff_op_batch_norm = {
		.name = "batch_norm",
		.summary = "mean 0 and deviation 1 over the batch, then weight and bias",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.param = {"weight", "bias"},
		.normalises = true,
		.kept = {"running_mean", "running_var"},
		.prelude_name = "moments",
		.prelude = FF_OP_BATCH_MOMENTS,
		.count = count,
		.derive = derive,
};
