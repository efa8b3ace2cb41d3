/* Pooling along one, two or three axes: the largest or the mean of a window.  One row, but for
 * its name and the number of axes.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, pool.field)
static const struct ff_attr_row attrs[] = {
		{.name = "mode",
				.type = FF_ATTR_CHOICE,
				.offset = AT(mode),
				.max = 1,
				.choices = "max|avg",
				.in_key = 1},
		{.name = "kernel",
				.type = FF_ATTR_AXES,
				.offset = AT(kernel),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.in_key = 1},
		/* the preset stands for "as the kernel" and is replaced by it */
		{.name = "stride",
				.type = FF_ATTR_AXES,
				.offset = AT(stride),
				.min = 1,
				.max = INT32_MAX,
				.preset = 0,
				.in_key = 1},
		{.name = "pad", .type = FF_ATTR_PADS, .offset = AT(pad), .max = INT32_MAX},
		{.name = "ceil", .type = FF_ATTR_BOOL, .offset = AT(ceil), .max = 1, .later = 1},
		{.name = "count_pad",
				.type = FF_ATTR_BOOL,
				.offset = AT(count_pad),
				.max = 1,
				.preset = 1,
				.later = 1},
};
#undef AT

/* Windows of the spatial axes and the output's shape. */
static int check(struct ff_derive *d, const struct ff_value *in, uint32_t axes,
		struct ff_window *window, int32_t *shape, struct ff_error *err)
{
	struct ff_pool_attrs *a = &d->node->attrs.pool;

	shape[0] = in->shape[0];
	shape[1] = in->shape[1];
	for (uint32_t i = 0; i < axes; i++) {
		const char *name = ff_spatial_name(axes, i);
		int32_t most = a->pad[0][i] > a->pad[1][i] ? a->pad[0][i] : a->pad[1][i];
		int code;

		if (!a->stride[i])
			a->stride[i] = a->kernel[i];
		if (most > a->kernel[i] / 2)
			return ff_derive_fail(d, err,
					"padding %d of the %s exceeds half the kernel of %d", most,
					name, a->kernel[i]);
		window[i] = (struct ff_window){name, in->shape[2 + i], a->kernel[i], a->stride[i],
				1, {a->pad[0][i], a->pad[1][i]}, a->ceil};
		code = ff_derive_window(d, &window[i], &shape[2 + i], err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

/* The largest saves where in its window it was. */
static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = a->pool.mode == FF_POOL_MAX;
}

static void map_axes(struct ff_derive *d, uint32_t axes, const struct ff_window *window,
		const int32_t *shape)
{
	struct ff_operand *o = ff_derive_map(d, 0);

	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0]);
	ff_derive_dim(d, FF_DIM_ATTRIBUTE, "channel", shape[1]);
	ff_axis_plain(o, 0, 0);
	ff_axis_plain(o, 1, 1);
	for (uint32_t i = 0; i < axes; i++) {
		ff_derive_dim(d, FF_DIM_ATTRIBUTE, window[i].name, shape[2 + i]);
		ff_axis_window(o, 2 + i, 2 + (int32_t)i, &window[i]);
	}
	for (uint32_t i = 0; i < d->node->n_out; i++)
		ff_operand_plain(&d->node->out_map[i]);
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_pool_attrs *a = &d->node->attrs.pool;
	uint32_t axes = ff_op_row(d->node->op)->axes, rank = 2 + axes;
	struct ff_window window[FF_MAX_SPATIAL] = {0};
	int32_t shape[FF_MAX_RANK] = {0};
	const struct ff_value *in;
	int64_t taps = 1;
	int code = ff_derive_input(d, 0, d->graph->dtype, rank, rank, &in, err);

	for (uint32_t i = 0; i < axes; i++)
		taps = ff_sat_mul(taps, a->kernel[i]);
	if (code == FF_OK)
		code = check(d, in, axes, window, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, rank, shape, in->order, err);
	if (code == FF_OK && d->node->n_saved)
		code = ff_derive_out(d, 1, taps <= UINT8_MAX ? FF_U8 : FF_I32, rank, shape,
				in->order, err);
	if (code < 0)
		return code;
	map_axes(d, axes, window, shape);
	ff_derive_flops(d, taps, taps);
	return FF_OK;
}

#define ROW(number, over, ...)                                                                     \
	const struct ff_op_row ff_op_pool##number##d = {                                           \
			.name = "pool" #number "d",                                                \
			.summary = "the largest or the mean of each window over " over,            \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.axes = number,                                                            \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.count = count,                                                            \
			.derive = derive,                                                          \
			.kernel_class = FF_KERNEL_POOL,                                            \
			.example = FF_EXAMPLE({                                                    \
				"in" : [[__VA_ARGS__]],                                            \
				"kernel" : 3,                                                      \
				"stride" : 1,                                                      \
				"pad" : 1                                                          \
			}),                                                                        \
	};
ROW(1, "length", 4, 8, 6)
ROW(2, "height and width", 4, 8, 6, 6)
ROW(3, "depth, height and width", 4, 8, 6, 6, 6)
