/* Convolution (cross-correlation, as PyTorch's Conv1d, Conv2d and Conv3d) along one, two or three
 * axes: one row, but for its name and the number of axes.  SPDX-License-Identifier: Apache-2.0 */
#include "conv.h"

#include <math.h>

static const struct ff_attr_row attrs[] = {FF_CONV_ATTRS_BEFORE, FF_CONV_ATTRS_BEHIND};

/* Dims: these, the spatial axes, and the input channels of a group. */
enum { SAMPLE, OUT_CHANNEL, SPATIAL };

/* Checks the attributes against the input: windows of the spatial axes, shape of the output. */
static int check(const struct ff_derive *d, const struct ff_value *in, uint32_t axes,
		struct ff_window *window, int32_t *shape, struct ff_error *err)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;

	if (in->shape[1] % a->groups || a->out_channels % a->groups)
		return ff_derive_fail(d, err,
				"%d groups must divide the %d input channels and the %d output "
				"channels",
				a->groups, in->shape[1], a->out_channels);
	shape[0] = in->shape[0];
	shape[1] = a->out_channels;
	for (uint32_t i = 0; i < axes; i++) {
		const char *name = ff_spatial_name(axes, i);
		int64_t reach = (int64_t)a->dilation[i] * (a->kernel[i] - 1);
		int32_t most = a->pad[0][i] > a->pad[1][i] ? a->pad[0][i] : a->pad[1][i];
		int code;

		window[i] = (struct ff_window){name, in->shape[2 + i], a->kernel[i], a->stride[i],
				a->dilation[i], {a->pad[0][i], a->pad[1][i]}, false};
		if (most > reach)
			return ff_derive_fail(d, err,
					"padding %d of the %s exceeds dilation * (kernel - 1) = "
					"%lld",
					most, name, (long long)reach);
		code = ff_derive_window(d, &window[i], &shape[2 + i], err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

static void map_input(struct ff_derive *d, int32_t channels, uint32_t axes,
		const struct ff_window *window)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	struct ff_operand *o = ff_derive_map(d, 0);

	ff_axis_plain(o, 0, SAMPLE);
	if (a->groups > 1)
		ff_axis_term(o, 1,
				(struct ff_term){OUT_CHANNEL, a->out_channels / a->groups,
						channels / a->groups});
	ff_axis_plain(o, 1, SPATIAL + (int32_t)axes);
	for (uint32_t i = 0; i < axes; i++)
		ff_axis_window(o, 2 + i, SPATIAL + (int32_t)i, &window[i]);
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_conv_attrs *a = &d->node->attrs.conv;
	uint32_t axes = ff_op_row(d->node->op)->axes, rank = 2 + axes;
	int32_t shape[FF_MAX_RANK] = {0}, filter[FF_MAX_RANK] = {a->out_channels};
	struct ff_window window[FF_MAX_SPATIAL] = {0};
	const struct ff_value *in;
	int64_t fan_in;
	int code = ff_derive_input(d, 0, d->graph->dtype, rank, rank, &in, err);

	if (code == FF_OK)
		code = check(d, in, axes, window, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(
				d, 0, d->graph->dtype, rank, shape, ff_derive_order(rank), err);
	if (code < 0)
		return code;
	fan_in = filter[1] = in->shape[1] / a->groups;
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0]);
	ff_derive_dim(d, FF_DIM_PARAMETER, "out_channel", shape[1]);
	for (uint32_t i = 0; i < axes; i++) {
		ff_derive_dim(d, FF_DIM_ATTRIBUTE, window[i].name, shape[2 + i]);
		filter[2 + i] = a->kernel[i];
		fan_in = ff_sat_mul(fan_in, a->kernel[i]);
	}
	ff_derive_dim(d, FF_DIM_REDUCTION, "in_channel", filter[1]);
	ff_operand_plain(d->node->out_map);
	map_input(d, in->shape[1], axes, window);
	code = ff_derive_weights(d,
			&(struct ff_weight){.rank = rank,
					.shape = filter,
					.order = ff_derive_filter_order(axes),
					.fan_in = fan_in,
					.dim_out = OUT_CHANNEL,
					.dim_in = SPATIAL + (int32_t)axes},
			a->bias, err);
	if (code < 0)
		return code;
	ff_derive_products(d, fan_in, a->bias);
	return FF_OK;
}

/* Channels of a group, where there are several: with fewer a convolution is bound by memory.  What
 * is left of one group where its channels are cut is still a product of windows. */
#define FEW_CHANNELS 4

/* One convolution between a fine side (a convolution's input) and a coarse one. */
struct sides {
	double samples, groups, fine, fine_channels, coarse, coarse_channels, bytes;
	double stepped; /* fine places, those that strides pass over behind the last included */
	double taps, stride;
	double fine_tiles, coarse_tiles; /* Winograd's: as kernels' shapes have them */
	bool grouped, multiplies;        /* a product for each group */
	enum ff_dtype type;
};

/* Of one tap, and groups whose channels are whole vectors: what experts' layers are. */
#define VECTOR_BYTES 16
static bool multiplies(const struct ff_conv_attrs *a, const struct sides *s)
{
	double each = VECTOR_BYTES / (double)ff_dtype_bytes(s->type);

	return a->groups > 1 && s->taps == 1 && s->stride == 1 &&
	       fmod(s->fine_channels, each) == 0 && fmod(s->coarse_channels, each) == 0;
}

static void window_of(const struct ff_work *w, struct sides *s)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	uint32_t axes = ff_op_row(w->node->op)->axes;
	bool winograd;

	s->taps = s->stride = 1;
	winograd = axes == 2 && a->groups == 1;
	for (uint32_t i = 0; i < axes; i++) {
		s->taps *= a->kernel[i];
		s->stride *= a->stride[i];
		winograd = winograd && (a->kernel[i] == 3 || a->kernel[i] == 5) &&
			   a->kernel[i] == a->kernel[0] && a->stride[i] == 1 && a->dilation[i] == 1;
	}
	s->fine_tiles = s->coarse_tiles = winograd;
}

/* Places of the tiles that an image so long is cut into, for one of its own. */
#define TILE 2
static double tiled(double size)
{
	return size > 0 ? TILE * ceil(size / TILE) / size : 1;
}

static struct sides sides_of(const struct ff_work *w, bool transposed)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	const struct ff_region *fine = transposed ? &w->out[0] : &w->in[0];
	const struct ff_region *coarse = transposed ? &w->in[0] : &w->out[0];
	double out = ff_region_size(&w->out[0], 1), all = (double)a->out_channels / a->groups;
	struct sides s = {.type = ff_work_type(w), .groups = fmax(1, floor(out / all + 0.5))};

	window_of(w, &s);
	s.samples = ff_region_size(fine, 0);
	s.fine_channels = ff_region_size(fine, 1) / s.groups;
	s.coarse_channels = ff_region_size(coarse, 1) / s.groups;
	s.fine = s.coarse = s.stepped = 1;
	for (uint32_t i = 2; i < fine->rank; i++) {
		double fine_size = ff_region_size(fine, i), size = ff_region_size(coarse, i);

		s.fine *= fine_size;
		s.coarse *= size;
		s.stepped *= fmax(fine_size, size * a->stride[i - 2]);
		s.fine_tiles *= tiled(fine_size);
		s.coarse_tiles *= tiled(size);
	}
	s.grouped = a->groups > 1;
	s.multiplies = multiplies(a, &s);
	s.bytes = (double)(ff_region_volume(fine) + ff_region_volume(coarse) +
				  ff_region_volume(&w->in[1])) *
		  (double)ff_dtype_bytes(s.type);
	return s;
}

static struct ff_kernel_shape kernel_of(const struct sides *s, enum ff_conv_pass pass)
{
	struct ff_kernel_shape ret = {.class = FF_KERNEL_CONVOLUTION,
			.type = s->type,
			.pass = pass,
			.count = s->groups,
			.bytes = s->bytes,
			.taps = s->taps,
			.stride = s->stride,
			.winograd = pass == FF_CONV_IMAGE ? s->fine_tiles : s->coarse_tiles};

	if (s->grouped && s->fine_channels < FEW_CHANNELS && s->coarse_channels < FEW_CHANNELS)
		ret.class = FF_KERNEL_POOL;
	if (s->multiplies)
		ret.class = FF_KERNEL_PRODUCT;
	ret.m = s->samples * (pass == FF_CONV_IMAGE ? s->stepped : s->coarse);
	ret.n = pass == FF_CONV_IMAGE ? s->fine_channels : s->coarse_channels;
	ret.k = s->fine_channels * s->taps;
	if (pass == FF_CONV_IMAGE)
		ret.k = s->coarse_channels * s->taps / s->stride;
	if (pass == FF_CONV_FILTER) {
		ret.k = ret.m;
		ret.m = s->coarse_channels;
		ret.n = s->fine_channels * s->taps;
	}
	return ret;
}

uint32_t ff_conv_kernels(const struct ff_work *w, bool transposed, struct ff_kernel_shape *ret)
{
	struct sides s = sides_of(w, transposed);
	double out_bytes = (double)(ff_region_volume(&w->out[0]) * ff_dtype_bytes(s.type));
	uint32_t n = 0;

	if (w->pass == FF_FORWARD)
		ret[n++] = kernel_of(&s, transposed ? FF_CONV_IMAGE : FF_CONV_FORWARD);
	if (w->need_din[0])
		ret[n++] = kernel_of(&s, transposed ? FF_CONV_FORWARD : FF_CONV_IMAGE);
	if (w->need_din[1])
		ret[n++] = kernel_of(&s, FF_CONV_FILTER);
	if (w->node->n_in > 2 && w->need_din[2])
		ret[n++] = (struct ff_kernel_shape){.type = s.type, .bytes = out_bytes};
	return n;
}

static uint32_t kernels(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	return ff_conv_kernels(w, false, ret);
}

FF_CONV_ROWS(conv, "convolution")
