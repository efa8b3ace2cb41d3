/* Transposed convolution (as PyTorch's ConvTranspose1d, ConvTranspose2d and ConvTranspose3d) along
 * one, two or three axes: what a convolution with these windows makes of its output's gradient,
 *   y[n, o, s i - p + d t] += x[n, c, i] w[c, o, t].
 * The weight has the input channels first, as PyTorch stores it.  With groups one cuts those,
 * neither the channels of one nor its sums, and every part has all of the weight: groups of several
 * channels are cut elsewhere than channels are.  SPDX-License-Identifier: Apache-2.0 */
#include "conv.h"

static const struct ff_attr_row attrs[] = {FF_CONV_ATTRS_BEFORE,
		{.name = "output_pad", FF_CONV_AXES(output_pad)}, FF_CONV_ATTRS_BEHIND};

/* Dims: these, the spatial axes, and without groups the input channels. */
enum { SAMPLE, CHANNEL, SPATIAL };

/* Elements that a window spans. */
static int64_t span_of(const struct ff_conv_attrs *a, uint32_t axis)
{
	return ff_sat_add(ff_sat_mul(a->dilation[axis], a->kernel[axis] - 1), 1);
}

static int check_axis(const struct ff_derive *d, const struct ff_value *in, uint32_t axes,
		uint32_t axis, int32_t *ret, struct ff_error *err)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	const char *name = ff_spatial_name(axes, axis);
	int64_t before = a->pad[0][axis], size;

	if (a->output_pad[axis] >= a->stride[axis] && a->output_pad[axis] >= a->dilation[axis])
		return ff_derive_fail(d, err,
				"output padding %d of the %s must be smaller than its stride %d or "
				"its dilation %d",
				a->output_pad[axis], name, a->stride[axis], a->dilation[axis]);
	size = ff_sat_add(ff_sat_mul(in->shape[2 + axis] - 1, a->stride[axis]), span_of(a, axis));
	/* all that maps add up stays below 32 bits, too */
	if (ff_sat_add(size, ff_sat_add(before, a->stride[axis])) > INT32_MAX)
		return ff_derive_fail(d, err, "the output's %s exceeds 32 bits", name);
	size += a->output_pad[axis] - before - a->pad[1][axis];
	if (size < 1)
		return ff_derive_fail(d, err, "padding %d and %d of the %s leaves nothing",
				a->pad[0][axis], a->pad[1][axis], name);
	*ret = (int32_t)size;
	return FF_OK;
}

/* Checks the attributes against the input: shape of the output. */
static int check(const struct ff_derive *d, const struct ff_value *in, uint32_t axes,
		int32_t *shape, struct ff_error *err)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	int code = FF_OK;

	if (in->shape[1] % a->groups || a->out_channels % a->groups)
		return ff_derive_fail(d, err,
				"%d groups must divide the %d input channels and the %d output "
				"channels",
				a->groups, in->shape[1], a->out_channels);
	shape[0] = in->shape[0];
	shape[1] = a->out_channels;
	for (uint32_t i = 0; i < axes && code == FF_OK; i++)
		code = check_axis(d, in, axes, i, &shape[2 + i], err);
	return code;
}

/* All `size` channels of each group. */
static void map_groups(struct ff_operand *o, uint32_t axis, int32_t size)
{
	ff_axis_term(o, axis, (struct ff_term){CHANNEL, 1, size})->window = size;
}

/* Element i has a part in elements s i - p up to that plus its window's reach. */
static void map_input(struct ff_derive *d, const struct ff_value *in, uint32_t axes)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	struct ff_operand *o = ff_derive_map(d, 0);

	ff_axis_plain(o, 0, SAMPLE);
	if (a->groups > 1)
		map_groups(o, 1, in->shape[1] / a->groups);
	else
		ff_axis_plain(o, 1, SPATIAL + (int32_t)axes);
	for (uint32_t i = 0; i < axes; i++) {
		struct ff_axis_map *m = ff_axis_term(
				o, 2 + i, (struct ff_term){SPATIAL + (int32_t)i, 1, 1});

		m->over = a->stride[i];
		m->to = a->pad[0][i];
		m->from = m->to - (int32_t)span_of(a, i) + a->stride[i];
	}
}

static int map_weights(
		struct ff_derive *d, const struct ff_value *in, uint32_t axes, struct ff_error *err)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	int32_t filter[FF_MAX_RANK] = {in->shape[1], a->out_channels / a->groups};
	int64_t fan_in = filter[1]; /* as PyTorch counts it */
	struct ff_operand *o;
	int code;

	for (uint32_t i = 0; i < axes; i++) {
		filter[2 + i] = a->kernel[i];
		fan_in = ff_sat_mul(fan_in, a->kernel[i]);
	}
	code = ff_derive_param(
			d, 0, 2 + axes, filter, ff_derive_filter_order(axes), fan_in, &o, err);
	if (code < 0)
		return code;
	if (a->groups == 1) {
		ff_axis_plain(o, 0, SPATIAL + (int32_t)axes);
		ff_axis_plain(o, 1, CHANNEL);
	}
	if (!a->bias)
		return FF_OK;
	code = ff_derive_param(d, 1, 1, &a->out_channels, ff_order_plain, 0, &o, err);
	if (code < 0)
		return code;
	if (a->groups == 1)
		ff_axis_plain(o, 0, CHANNEL);
	o->lead_only = 1;
	return FF_OK;
}

/* Every element of the input meets every tap of its filters. */
static void count_flops(struct ff_derive *d, const struct ff_value *in, uint32_t axes)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	const struct ff_value *out = ff_derive_value(d, 0);
	int64_t pass = ff_sat_mul(2, ff_value_volume(in));
	int64_t add = a->bias ? ff_shape_volume(out->rank, out->shape) : 0;

	pass = ff_sat_mul(pass, a->out_channels / a->groups);
	for (uint32_t i = 0; i < axes; i++)
		pass = ff_sat_mul(pass, a->kernel[i]);
	d->node->flops_forward = ff_sat_add(pass, add);
	d->node->flops_backward =
			ff_sat_add(ff_sat_mul(pass, ff_derive_needs_grad(d, 0) ? 2 : 1), add);
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	uint32_t axes = ff_op_row(d->node->op)->axes, rank = 2 + axes;
	int32_t shape[FF_MAX_RANK] = {0};
	const struct ff_value *in;
	struct ff_operand *out;
	int code = ff_derive_input(d, 0, d->graph->dtype, rank, rank, &in, err);

	if (code == FF_OK)
		code = check(d, in, axes, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(
				d, 0, d->graph->dtype, rank, shape, ff_derive_order(rank), err);
	if (code < 0)
		return code;
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0]);
	if (a->groups > 1)
		ff_derive_dim(d, FF_DIM_PARAMETER, "group", a->groups);
	else
		ff_derive_dim(d, FF_DIM_PARAMETER, "out_channel", shape[1]);
	for (uint32_t i = 0; i < axes; i++)
		ff_derive_dim(d, FF_DIM_ATTRIBUTE, ff_spatial_name(axes, i), shape[2 + i]);
	if (a->groups == 1)
		ff_derive_dim(d, FF_DIM_REDUCTION, "in_channel", in->shape[1]);
	out = d->node->out_map;
	for (uint32_t i = 0; i < rank; i++)
		if (i == 1 && a->groups > 1)
			map_groups(out, i, a->out_channels / a->groups);
		else
			ff_axis_plain(out, i, (int32_t)i);
	map_input(d, in, axes);
	code = map_weights(d, in, axes, err);
	if (code < 0)
		return code;
	count_flops(d, in, axes);
	return FF_OK;
}

static uint32_t kernels(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	return ff_conv_kernels(w, true, ret);
}

FF_CONV_ROWS(conv_transpose, "transposed convolution")
