/* Two-dimensional pooling: the largest or the mean of a window.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, pool2d.field)
static const struct ff_attr_row attrs[] = {
		{.name = "mode",
				.type = FF_ATTR_CHOICE,
				.offset = AT(mode),
				.max = 1,
				.choices = "max|avg",
				.in_key = 1},
		{.name = "kernel",
				.type = FF_ATTR_PAIR,
				.offset = AT(kernel),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.in_key = 1},
		/* the preset stands for "as the kernel" and is replaced by it */
		{.name = "stride",
				.type = FF_ATTR_PAIR,
				.offset = AT(stride),
				.min = 1,
				.max = INT32_MAX,
				.preset = 0,
				.in_key = 1},
		{.name = "pad", .type = FF_ATTR_PAIR, .offset = AT(pad), .max = INT32_MAX},
};
#undef AT

/* Windows of the two image axes and the output's shape. */
static int check(struct ff_derive *d, const struct ff_value *in, struct ff_window window[2],
		int32_t shape[4], struct ff_error *err)
{
	struct ff_pool2d_attrs *a = &d->node->attrs.pool2d;

	shape[0] = in->shape[0];
	shape[1] = in->shape[1];
	for (uint32_t i = 0; i < 2; i++) {
		const char *name = ff_axis_name(4, 2 + i);
		int code;

		if (!a->stride[i])
			a->stride[i] = a->kernel[i];
		if (a->pad[i] > a->kernel[i] / 2)
			return ff_derive_fail(d, err,
					"padding %d of the %s exceeds half the kernel of %d",
					a->pad[i], name, a->kernel[i]);
		window[i] = (struct ff_window){
				name, in->shape[2 + i], a->kernel[i], a->stride[i], a->pad[i], 1};
		code = ff_derive_window(d, &window[i], &shape[2 + i], err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

/* The largest saves where in its window it was. */
static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = a->pool2d.mode == FF_POOL_MAX;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_pool2d_attrs *a = &d->node->attrs.pool2d;
	const struct ff_value *in;
	struct ff_window window[2] = {0};
	struct ff_operand *o;
	int32_t shape[4] = {0};
	int64_t taps = ff_sat_mul(a->kernel[0], a->kernel[1]);
	int code = ff_derive_input(d, 0, d->graph->dtype, 4, 4, &in, err);

	if (code == FF_OK)
		code = check(d, in, window, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, 4, shape, ff_order_image, err);
	if (code == FF_OK && d->node->n_saved)
		code = ff_derive_out(d, 1, taps <= UINT8_MAX ? FF_U8 : FF_I32, 4, shape,
				ff_order_image, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, 4, shape);
	for (uint32_t i = 0; i < d->node->n_out; i++)
		ff_operand_plain(&d->node->out_map[i]);
	o = ff_derive_map(d, 0);
	ff_axis_plain(o, 0, 0);
	ff_axis_plain(o, 1, 1);
	ff_axis_window(o, 2, 2, &window[0]);
	ff_axis_window(o, 3, 3, &window[1]);
	ff_derive_flops(d, taps, taps);
	return FF_OK;
}

const struct ff_op_row ff_op_pool2d = {
		.name = "pool2d",
		.summary = "the largest or the mean of each window over height and width",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.count = count,
		.derive = derive,
};
