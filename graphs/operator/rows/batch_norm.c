/* Batch normalisation: every channel by the mean and variance of all samples and positions,
 * however they are cut.  What must be known of all of them its prelude finds; backward
 * likewise: the gradient of what the prelude wrote is what the parts' sums come to, and with
 * that the prelude makes the gradient of the data of that of the output.
 *
 * Without "sync", not of all samples but of every `group` of neighbours by itself, the last of
 * which may be smaller (Hoffer, Hubara and Soudry, "Train longer, generalize better", NeurIPS
 * 2017: ghost batch normalisation).  What the prelude writes then has an axis of groups, which
 * the samples divided by `group` follow: parts of whole groups exchange nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define NORM(member) .offset = offsetof(union ff_attrs, norm.member)
/* 0: all samples */
#define GROUP                                                                                      \
	{                                                                                          \
		.name = "group", .type = FF_ATTR_INT, NORM(group), .min = 1, .max = INT32_MAX,     \
		.later = 1, .in_key = FF_KEY_UNLESS_PRESET                                         \
	}

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
		{.name = "sync",
				.type = FF_ATTR_BOOL,
				NORM(sync),
				.max = 1,
				.preset = 1,
				.later = 1},
		GROUP,
};
/* The group is the prelude's attribute, too: it says over which samples moments are taken. */
static const struct ff_attr_row moments_attrs[] = {GROUP};

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = ret->kept = 2;
	ret->params = !a->norm.affine ? 0 : a->norm.bias ? 2 : 1;
}

static int check_group(const struct ff_derive *d, const struct ff_value *in, struct ff_error *err)
{
	const struct ff_norm_attrs *a = &d->node->attrs.norm;
	int64_t each = ff_value_volume(in) / in->shape[1];

	if (a->sync && a->group)
		return ff_derive_fail(d, err,
				"\"group\", samples that are normalised together, goes with "
				"\"sync\" false");
	if (!a->sync && !a->group)
		return ff_derive_fail(d, err,
				"\"sync\" false goes with \"group\", the number of samples that "
				"are normalised together");
	if (each == 1)
		return ff_derive_fail(d, err,
				"input %s has one value for each channel, of which "
				"there is no variance",
				ff_shape_text(in->rank, in->shape).text);
	if (a->group && each == in->shape[0] && (a->group == 1 || each % a->group == 1))
		return ff_derive_fail(d, err,
				"of input %s a group, of %d samples at most, has one value for "
				"each channel, of which there is no variance",
				ff_shape_text(in->rank, in->shape).text, a->group);
	return FF_OK;
}

/* What is known of channels: their axis, in front of it that of the groups, if there are such. */
static void map_moments(const struct ff_node *n, struct ff_operand *o)
{
	int32_t group = n->attrs.norm.group;

	if (group)
		ff_axis_term(o, 0, (struct ff_term){0, group, 1});
	ff_axis_plain(o, group ? 1 : 0, 1);
}

/* Dims: the axes of the data; of the prelude all but the channel are summed over, and of the
 * samples those of a group. */
static int map_axes(
		struct ff_derive *d, bool sums, struct ff_operand *moments, struct ff_error *err)
{
	bool grouped = d->node->attrs.norm.group > 0;
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = check_group(d, in, err);
	if (code < 0)
		return code;
	ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		enum ff_label label = i == 1                    ? FF_DIM_PARAMETER
				      : sums && (i || !grouped) ? FF_DIM_REDUCTION
				      : i                       ? FF_DIM_ATTRIBUTE
								: FF_DIM_SAMPLE;

		ff_axis_plain(&d->node->in_map[0], i,
				ff_derive_dim(d, label,
						ff_axis_name(in->rank == 2 ? 4 : in->rank, i),
						in->shape[i]));
	}
	map_moments(d->node, moments);
	return FF_OK;
}

static int derive_moments(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *in = ff_derive_in(d, 0);
	int32_t group = d->node->attrs.norm.group;
	int32_t shape[3] = {group ? (in->shape[0] - 1) / group + 1 : 0,
			in->rank > 1 ? in->shape[1] : 1, 4};
	int64_t n = ff_value_volume(in);
	int code = ff_derive_out(d, 0, FF_F32, group ? 3 : 2, group ? shape : shape + 1,
			ff_order_plain, err);

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
	d->node->kept_apart = d->node->attrs.norm.group > 0;
	for (uint32_t i = 0; i < FF_MAX_KEPT && code == FF_OK; i++)
		code = add_channels(d, i, in->shape[1], err);
	/* subtract, scale, add; backward subtract, two products, two sums, scale */
	ff_derive_flops(d, 3, 6);
	return code;
}

/* Output: by group and channel, as FF_REDUCE_MOMENTS has it.  Its gradient are (a, b, c, d): that
 * of x is d dy + b + c (x - a), where dy is that of the norm's output and lies where it is made. */
const struct ff_op_row ff_op_batch_moments = {
		.name = "batch_moments",
		.summary = "what batch_norm must know of all samples",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_PRELUDE | FF_OP_BACKWARD_IN,
		.attrs = moments_attrs,
		.n_attrs = sizeof(moments_attrs) / sizeof(moments_attrs[0]),
		.derive = derive_moments,
		.kernel_class = FF_KERNEL_STREAM,
};

const struct ff_op_row ff_op_batch_norm = {
		.name = "batch_norm",
		.summary = "mean 0 and deviation 1 over the batch, or groups of its samples, then "
			   "weight and bias",
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
		.kernel_class = FF_KERNEL_STREAM,
};
