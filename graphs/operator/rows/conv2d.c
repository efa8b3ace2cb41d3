/* Two-dimensional convolution (cross-correlation, as PyTorch's Conv2d).
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, conv2d.field)
static const struct ff_attr_row attrs[] = {
		{.name = "out_channels",
				.type = FF_ATTR_INT,
				.offset = AT(out_channels),
				.min = 1,
				.max = INT32_MAX,
				.required = 1},
		{.name = "kernel",
				.type = FF_ATTR_PAIR,
				.offset = AT(kernel),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.in_key = 1},
		{.name = "stride",
				.type = FF_ATTR_PAIR,
				.offset = AT(stride),
				.min = 1,
				.max = INT32_MAX,
				.preset = 1,
				.in_key = 1},
		{.name = "pad", .type = FF_ATTR_PAIR, .offset = AT(pad), .max = INT32_MAX},
		{.name = "dilation",
				.type = FF_ATTR_PAIR,
				.offset = AT(dilation),
				.min = 1,
				.max = INT32_MAX,
				.preset = 1,
				.in_key = 1},
		{.name = "groups",
				.type = FF_ATTR_INT,
				.offset = AT(groups),
				.min = 1,
				.max = INT32_MAX,
				.preset = 1,
				.in_key = 1},
		{.name = "bias", .type = FF_ATTR_BOOL, .offset = AT(bias), .max = 1, .preset = 1},
};
#undef AT

enum { SAMPLE, OUT_CHANNEL, HEIGHT, WIDTH, IN_CHANNEL };

/* Checks the attributes against the input; window[] are the two image axes. */
static int check(const struct ff_derive *d, const struct ff_value *in, struct ff_window window[2],
		int32_t out[2], struct ff_error *err)
{
	static const char *const names[] = {"height", "width"};
	const struct ff_conv2d_attrs *a = &d->node->attrs.conv2d;

	if (in->shape[1] % a->groups || a->out_channels % a->groups)
		return ff_derive_fail(d, err,
				"%d groups must divide the %d input channels and the %d output "
				"channels",
				a->groups, in->shape[1], a->out_channels);
	for (uint32_t i = 0; i < 2; i++) {
		int code;

		window[i] = (struct ff_window){names[i], in->shape[2 + i], a->kernel[i],
				a->stride[i], a->pad[i], a->dilation[i]};
		if (a->pad[i] > (int64_t)a->dilation[i] * (a->kernel[i] - 1))
			return ff_derive_fail(d, err,
					"padding %d of the %s exceeds dilation * (kernel - 1) = "
					"%lld",
					a->pad[i], names[i],
					(long long)a->dilation[i] * (a->kernel[i] - 1));
		code = ff_derive_window(d, &window[i], &out[i], err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

static void map_input(struct ff_derive *d, int32_t channels, const struct ff_window window[2])
{
	const struct ff_conv2d_attrs *a = &d->node->attrs.conv2d;
	struct ff_operand *o = ff_derive_map(d, 0);

	ff_axis_plain(o, 0, SAMPLE);
	if (a->groups > 1)
		ff_axis_term(o, 1,
				(struct ff_term){OUT_CHANNEL, a->out_channels / a->groups,
						channels / a->groups});
	ff_axis_plain(o, 1, IN_CHANNEL);
	ff_axis_window(o, 2, HEIGHT, &window[0]);
	ff_axis_window(o, 3, WIDTH, &window[1]);
}

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->params = a->conv2d.bias ? 2 : 1;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_conv2d_attrs *a = &d->node->attrs.conv2d;
	const struct ff_value *in;
	struct ff_window window[2] = {0};
	int32_t size[2] = {0}, depth;
	int64_t fan_in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 4, 4, &in, err);

	if (code == FF_OK)
		code = check(d, in, window, size, err);
	if (code < 0)
		return code;
	depth = in->shape[1] / a->groups;
	const int32_t shape[4] = {in->shape[0], a->out_channels, size[0], size[1]};
	const int32_t filter[4] = {a->out_channels, depth, a->kernel[0], a->kernel[1]};
	code = ff_derive_out(d, 0, d->graph->dtype, 4, shape, ff_order_image, err);
	if (code < 0)
		return code;
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0]);
	ff_derive_dim(d, FF_DIM_PARAMETER, "out_channel", shape[1]);
	ff_derive_dim(d, FF_DIM_ATTRIBUTE, "height", shape[2]);
	ff_derive_dim(d, FF_DIM_ATTRIBUTE, "width", shape[3]);
	ff_derive_dim(d, FF_DIM_REDUCTION, "in_channel", depth);
	ff_operand_plain(d->node->out_map);
	map_input(d, in->shape[1], window);
	fan_in = ff_sat_mul(ff_sat_mul(depth, a->kernel[0]), a->kernel[1]);
	code = ff_derive_weights(d, 4, filter, ff_order_image, fan_in, OUT_CHANNEL, IN_CHANNEL,
			a->bias, err);
	if (code < 0)
		return code;
	ff_derive_products(d, fan_in, a->bias);
	return FF_OK;
}

const struct ff_op_row ff_op_conv2d = {
		.name = "conv2d",
		.summary = "convolution over height and width with stride, padding, dilation and "
			   "groups",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.param = {"weight", "bias"},
		.count = count,
		.derive = derive,
};
