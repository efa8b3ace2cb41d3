/* Convolution.  Images and filters are channels last; filters are brought into
 * the library's layout each pass, which costs far less than it saves.
 *
 * A part's output channels may begin or end inside a group, and its reduction
 * slice may be a part of each group's input channels, so a part is up to three
 * bands: a partial group, whole groups, a partial group.  A band that is not
 * the whole shard is packed into the workspace and unpacked from it.
 *
 * In bfloat16 the library sums in float32, and what it finds for the weights' gradients
 * stays float32.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "copy.h"
#include "dnnl.h"
#include "real.h"

#define MAX_BANDS 3

struct band {
	int64_t groups;           /* 1, or how many whole ones */
	int64_t first_in, n_in;   /* channels in the shard; n_in of each group */
	int64_t first_out, n_out; /* channels in the shard; n_out of all groups */
	int64_t first_weight;     /* element of the weight shard */
	bool pack_in, pack_out;
	struct ff_call *order_weight; /* NULL: the plain layout serves */
	struct ff_call *forward, *backward_data, *backward_weight;
	struct ff_call *plain_weight; /* gradient back to the plain layout, or NULL */
};

struct conv2d {
	enum ff_dtype type; /* gradients of parameters are float32 */
	uint32_t n_bands;
	struct band band[MAX_BANDS];
	int64_t in_pixels, out_pixels;                 /* N H W */
	int64_t in_channels, out_channels, group_step; /* of the shards; between groups */
	bool has_bias, need_din, fill_din;
	/* Workspace for one band at a time: sizes, then offsets (negative: none). */
	int64_t in_bytes, out_bytes, weight_bytes;
	int64_t in, out, weight;
};

/* What the library needs to know of one band. */
struct geometry {
	dnnl_dims_t in, out, weight, weight_stride, stride, dilate, pad_lo, pad_hi;
	int weight_rank;
	dnnl_memory_desc_t in_desc, out_desc, weight_desc, bias_desc, dweight_desc, dbias_desc;
	dnnl_memory_desc_t plain_desc, plain_dweight_desc; /* as shards of weights lie */
	const dnnl_memory_desc_t *bias_or_none, *dbias_or_none;
	dnnl_primitive_desc_t forward, data, gradient;
};

static void split_bands(const struct ff_work *w, struct conv2d *c)
{
	const struct ff_conv2d_attrs *a = &w->node->attrs.conv2d;
	const struct ff_region *weight = &w->in[1];
	int64_t depth = ff_region_size(weight, 1), taps = (int64_t)a->kernel[0] * a->kernel[1];
	int64_t per_group = a->out_channels / a->groups, covered = 0;
	int64_t first = w->out[0].lo[1], end = w->out[0].hi[1];

	c->group_step = w->node->in_map[0].shape[1] / a->groups;
	for (int64_t at = first; at < end; c->n_bands++) {
		struct band *b = &c->band[c->n_bands];
		int64_t group = at / per_group, group_end = (group + 1) * per_group;
		int64_t stop = group_end < end ? group_end : end;

		b->groups = 1;
		if (at % per_group == 0 && stop == group_end) {
			b->groups = (end - at) / per_group;
			stop = at + b->groups * per_group;
		}
		b->first_in = group * c->group_step + weight->lo[1] - w->in[0].lo[1];
		b->n_in = depth;
		b->first_out = at - first;
		b->n_out = stop - at;
		b->first_weight = b->first_out * depth * taps;
		b->pack_in = b->groups * depth != c->in_channels;
		b->pack_out = b->n_out != c->out_channels;
		covered += b->groups * depth;
		at = stop;
	}
	c->fill_din = covered != c->in_channels;
}

static void band_geometry(const struct ff_work *w, const struct conv2d *c, const struct band *b,
		struct geometry *g)
{
	const struct ff_conv2d_attrs *a = &w->node->attrs.conv2d;
	const struct ff_region *in = &w->in[0], *out = &w->out[0];
	int64_t *d = g->weight, filter = b->n_in * a->kernel[0] * a->kernel[1];

	g->in[0] = ff_region_size(in, 0);
	g->in[1] = b->groups * b->n_in;
	g->out[0] = ff_region_size(out, 0);
	g->out[1] = b->n_out;
	if (b->groups > 1)
		*d++ = b->groups;
	*d++ = b->n_out / b->groups;
	*d++ = b->n_in;
	for (uint32_t i = 0; i < 2; i++) {
		int64_t lo = (int64_t)out->lo[2 + i] * a->stride[i] - a->pad[i];
		int64_t hi = (int64_t)(out->hi[2 + i] - 1) * a->stride[i] - a->pad[i] +
			     (int64_t)a->dilation[i] * (a->kernel[i] - 1) + 1;

		g->in[2 + i] = ff_region_size(in, 2 + i);
		g->out[2 + i] = ff_region_size(out, 2 + i);
		*d++ = a->kernel[i];
		g->stride[i] = a->stride[i];
		/* 0 is dense in oneDNN 2; one tap has nothing to dilate */
		g->dilate[i] = a->kernel[i] > 1 ? a->dilation[i] - 1 : 0;
		g->pad_lo[i] = in->lo[2 + i] - lo;
		g->pad_hi[i] = hi - in->hi[2 + i];
	}
	g->weight_rank = (int)(d - g->weight);
	d = g->weight_stride;
	if (b->groups > 1)
		*d++ = b->n_out / b->groups * filter;
	*d++ = filter;
	*d++ = 1;
	*d++ = a->kernel[1] * b->n_in;
	*d = b->n_in;
	g->bias_or_none = c->has_bias ? &g->bias_desc : NULL;
	g->dbias_or_none = c->has_bias ? &g->dbias_desc : NULL;
}

/* Parameters or their gradients. */
static int describe_weights(const struct ff_kernel *k, struct geometry *g, enum ff_dtype type,
		dnnl_memory_desc_t *any, dnnl_memory_desc_t *plain, dnnl_memory_desc_t *bias,
		struct ff_error *err)
{
	int code = ff_dnnl_any(k, type, g->weight_rank, g->weight, any, err);

	if (code == FF_OK)
		code = ff_dnnl_strided(
				k, type, g->weight_rank, g->weight, g->weight_stride, plain, err);
	return code < 0 ? code : ff_dnnl_vector(k, type, g->out[1], bias, err);
}

static int describe_memory(const struct ff_kernel *k, const struct conv2d *c, struct geometry *g,
		struct ff_error *err)
{
	int code = ff_dnnl_image(k, c->type, g->in, &g->in_desc, err);

	if (code == FF_OK)
		code = ff_dnnl_image(k, c->type, g->out, &g->out_desc, err);
	if (code == FF_OK)
		code = describe_weights(
				k, g, c->type, &g->weight_desc, &g->plain_desc, &g->bias_desc, err);
	return code < 0 ? code
			: describe_weights(k, g, FF_F32, &g->dweight_desc, &g->plain_dweight_desc,
					  &g->dbias_desc, err);
}

static int describe_forward(const struct ff_kernel *k, struct geometry *g, struct ff_error *err)
{
	dnnl_convolution_desc_t d;
	dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training,
			dnnl_convolution_direct, &g->in_desc, &g->weight_desc, g->bias_or_none,
			&g->out_desc, g->stride, g->dilate, g->pad_lo, g->pad_hi);
	int code = ff_dnnl_check(s, k, "describe a convolution", err);

	return code < 0 ? code : ff_dnnl_describe(k, &d, NULL, &g->forward, err);
}

static int describe_backward(
		const struct ff_kernel *k, struct geometry *g, bool need_din, struct ff_error *err)
{
	dnnl_convolution_desc_t d;
	dnnl_status_t s = dnnl_dilated_convolution_backward_weights_desc_init(&d,
			dnnl_convolution_direct, &g->in_desc, &g->dweight_desc, g->dbias_or_none,
			&g->out_desc, g->stride, g->dilate, g->pad_lo, g->pad_hi);
	int code = ff_dnnl_check(s, k, "describe a convolution's weight gradient", err);

	if (code == FF_OK)
		code = ff_dnnl_describe(k, &d, g->forward, &g->gradient, err);
	if (code < 0 || !need_din)
		return code;
	s = dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct,
			&g->in_desc, &g->weight_desc, &g->out_desc, g->stride, g->dilate, g->pad_lo,
			g->pad_hi);
	code = ff_dnnl_check(s, k, "describe a convolution's input gradient", err);
	return code < 0 ? code : ff_dnnl_describe(k, &d, g->forward, &g->data, err);
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Weights in the layout that `pd` wants: a reorder, and room for the result. */
static int order_weight(struct ff_kernel *k, struct conv2d *c, const struct geometry *g,
		const dnnl_memory_desc_t *wanted, bool gradient, struct ff_call **ret,
		struct ff_error *err)
{
	const dnnl_memory_desc_t *plain = gradient ? &g->plain_dweight_desc : &g->plain_desc;

	if (ff_dnnl_same(wanted, plain))
		return FF_OK;
	c->weight_bytes = larger(c->weight_bytes, ff_dnnl_bytes(wanted));
	return gradient ? ff_call_reorder(k, wanted, plain, ret, err)
			: ff_call_reorder(k, plain, wanted, ret, err);
}

static int prepare_forward(struct ff_kernel *k, struct conv2d *c, struct band *b,
		struct geometry *g, struct ff_error *err)
{
	const dnnl_memory_desc_t *wanted =
			dnnl_primitive_desc_query_md(g->forward, dnnl_query_weights_md, 0);
	const struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &g->in_desc}, {DNNL_ARG_WEIGHTS, wanted},
			{DNNL_ARG_DST, &g->out_desc}, {DNNL_ARG_BIAS, &g->bias_desc}};
	int code = order_weight(k, c, g, wanted, false, &b->order_weight, err);

	return code < 0 ? code
			: ff_call_create(k, g->forward, arg, c->has_bias ? 4 : 3, &b->forward, err);
}

/* Whether some tap of the filter meets nothing but padding.  For its gradient, zero, oneDNN
 * 2.6 multiplies by what lies in its scratchpad when that is bfloat16. */
static bool has_idle_tap(const struct geometry *g)
{
	for (uint32_t i = 0; i < 2; i++) {
		int64_t taps = g->weight[g->weight_rank - 2 + (int)i];

		for (int64_t tap = 0; tap < taps; tap++) {
			int64_t at = tap * (g->dilate[i] + 1) - g->pad_lo[i];
			bool meets = false;

			for (int64_t o = 0; o < g->out[2 + i] && !meets; o++, at += g->stride[i])
				meets = at >= 0 && at < g->in[2 + i];
			if (!meets)
				return true;
		}
	}
	return false;
}

static int prepare_backward(struct ff_kernel *k, struct conv2d *c, struct band *b,
		struct geometry *g, struct ff_error *err)
{
	struct ff_call_arg weight_arg[] = {{DNNL_ARG_SRC, &g->in_desc},
			{DNNL_ARG_DIFF_DST, &g->out_desc}, {DNNL_ARG_DIFF_WEIGHTS, NULL},
			{DNNL_ARG_DIFF_BIAS, &g->dbias_desc}};
	struct ff_call_arg data_arg[] = {{DNNL_ARG_DIFF_DST, &g->out_desc},
			{DNNL_ARG_WEIGHTS, NULL}, {DNNL_ARG_DIFF_SRC, &g->in_desc}};
	const dnnl_memory_desc_t *wanted;
	int code = describe_backward(k, g, c->need_din, err);

	if (code < 0)
		return code;
	wanted = dnnl_primitive_desc_query_md(g->gradient, dnnl_query_diff_weights_md, 0);
	weight_arg[2].desc = wanted;
	code = order_weight(k, c, g, wanted, true, &b->plain_weight, err);
	if (code == FF_OK)
		code = ff_call_create(k, g->gradient, weight_arg, c->has_bias ? 4 : 3,
				&b->backward_weight, err);
	if (code == FF_OK && c->type != FF_F32 && has_idle_tap(g))
		ff_call_clear(b->backward_weight);
	if (code < 0 || !c->need_din)
		return code;
	wanted = dnnl_primitive_desc_query_md(g->data, dnnl_query_weights_md, 0);
	data_arg[1].desc = wanted;
	code = order_weight(k, c, g, wanted, false, &b->order_weight, err);
	return code < 0 ? code : ff_call_create(k, g->data, data_arg, 3, &b->backward_data, err);
}

static int prepare_band(struct ff_kernel *k, const struct ff_work *w, struct conv2d *c,
		struct band *b, struct ff_error *err)
{
	struct geometry g = {0};
	int64_t size = ff_dtype_bytes(c->type);
	int code;

	band_geometry(w, c, b, &g);
	if (b->pack_in)
		c->in_bytes = larger(c->in_bytes, c->in_pixels * b->groups * b->n_in * size);
	if (b->pack_out)
		c->out_bytes = larger(c->out_bytes, c->out_pixels * b->n_out * size);
	code = describe_memory(k, c, &g, err);
	if (code == FF_OK)
		code = describe_forward(k, &g, err);
	if (code == FF_OK)
		code = w->pass == FF_FORWARD ? prepare_forward(k, c, b, &g, err)
					     : prepare_backward(k, c, b, &g, err);
	dnnl_primitive_desc_destroy(g.data);
	dnnl_primitive_desc_destroy(g.gradient);
	dnnl_primitive_desc_destroy(g.forward);
	return code;
}

/* Moves a band's channels between a shard (`step` channels from one group to
 * the next) and its dense form. */
static void pack(const struct conv2d *c, int64_t pixels, int64_t groups, int64_t per_group,
		int64_t channels, const void *shard, void *packed)
{
	struct ff_strided s = {.rank = 3,
			.n = {pixels, groups, per_group},
			.source = {channels, c->group_step, 1},
			.sink = {groups * per_group, per_group, 1}};

	ff_strided_copy(&s, c->type, shard, packed);
}

static void unpack(const struct conv2d *c, int64_t pixels, int64_t groups, int64_t per_group,
		int64_t channels, const void *packed, void *shard)
{
	struct ff_strided s = {.rank = 3,
			.n = {pixels, groups, per_group},
			.source = {groups * per_group, per_group, 1},
			.sink = {channels, c->group_step, 1}};

	ff_strided_copy(&s, c->type, packed, shard);
}

/* The band's input, output gradient: in place or packed. */
static const void *band_in(
		const struct conv2d *c, const struct band *b, const struct ff_kernel_io *io)
{
	void *packed = ff_kernel_at(io, c->in);

	if (!b->pack_in)
		return io->in[0];
	pack(c, c->in_pixels, b->groups, b->n_in, c->in_channels,
			ff_real_in(c->type, io->in[0], b->first_in), packed);
	return packed;
}

static const void *band_dout(
		const struct conv2d *c, const struct band *b, const struct ff_kernel_io *io)
{
	void *packed = ff_kernel_at(io, c->out);

	if (!b->pack_out)
		return io->dout[0];
	pack(c, c->out_pixels, 1, b->n_out, c->out_channels,
			ff_real_in(c->type, io->dout[0], b->first_out), packed);
	return packed;
}

static int ordered(const struct ff_kernel *k, const struct conv2d *c, const struct band *b,
		const struct ff_kernel_io *io, const void **ret, struct ff_error *err)
{
	const void *plain = ff_real_in(c->type, io->in[1], b->first_weight);
	const void *memory[] = {plain, ff_kernel_at(io, c->weight)};

	*ret = b->order_weight ? memory[1] : plain;
	return b->order_weight ? ff_call_run(k, b->order_weight, io, memory, err) : FF_OK;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv2d *c = k->state;

	for (uint32_t i = 0; i < c->n_bands; i++) {
		const struct band *b = &c->band[i];
		void *out = b->pack_out ? ff_kernel_at(io, c->out) : io->out[0];
		const void *memory[] = {band_in(c, b, io), NULL, out,
				c->has_bias ? ff_real_in(c->type, io->in[2], b->first_out) : NULL};
		int code = ordered(k, c, b, io, &memory[1], err);

		if (code == FF_OK)
			code = ff_call_run(k, b->forward, io, memory, err);
		if (code < 0)
			return code;
		if (b->pack_out)
			unpack(c, c->out_pixels, 1, b->n_out, c->out_channels, out,
					ff_real_out(c->type, io->out[0], b->first_out));
	}
	return FF_OK;
}

static int run_weight(const struct ff_kernel *k, const struct band *b,
		const struct ff_kernel_io *io, const void *dout, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	float *plain = (float *)io->din[1] + b->first_weight;
	float *dweight = b->plain_weight ? ff_kernel_at(io, c->weight) : plain;
	const void *memory[] = {band_in(c, b, io), dout, dweight,
			c->has_bias ? (float *)io->din[2] + b->first_out : NULL};
	const void *both[] = {dweight, plain};
	int code = ff_call_run(k, b->backward_weight, io, memory, err);

	if (code < 0 || !b->plain_weight)
		return code;
	return ff_call_run(k, b->plain_weight, io, both, err);
}

static int run_data(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void *dout, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	void *din = b->pack_in ? ff_kernel_at(io, c->in) : io->din[0];
	const void *memory[] = {dout, NULL, din};
	int code = ordered(k, c, b, io, &memory[1], err);

	if (code == FF_OK)
		code = ff_call_run(k, b->backward_data, io, memory, err);
	if (code == FF_OK && b->pack_in)
		unpack(c, c->in_pixels, b->groups, b->n_in, c->in_channels, din,
				ff_real_out(c->type, io->din[0], b->first_in));
	return code;
}

/* The input's room in the workspace, then the weights', serves both gradients:
 * they run one after the other. */
static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv2d *c = k->state;

	if (c->need_din && c->fill_din)
		memset(io->din[0], 0,
				(size_t)(c->in_pixels * c->in_channels * ff_dtype_bytes(c->type)));
	for (uint32_t i = 0; i < c->n_bands; i++) {
		const struct band *b = &c->band[i];
		const void *dout = band_dout(c, b, io);
		int code = run_weight(k, b, io, dout, err);

		if (code == FF_OK && c->need_din)
			code = run_data(k, b, io, dout, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

int ff_cpu_conv2d_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct conv2d *c = ff_kernel_state(k, sizeof(*c), err);

	if (!c)
		return FF_E_NOMEM;
	c->type = ff_work_type(w);
	c->in_channels = ff_region_size(&w->in[0], 1);
	c->out_channels = ff_region_size(&w->out[0], 1);
	c->in_pixels = ff_region_volume(&w->in[0]) / c->in_channels;
	c->out_pixels = ff_region_volume(&w->out[0]) / c->out_channels;
	c->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	c->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	split_bands(w, c);
	for (uint32_t i = 0; i < c->n_bands; i++) {
		int code = prepare_band(k, w, c, &c->band[i], err);

		if (code < 0)
			return code;
	}
	c->in = c->in_bytes ? ff_kernel_reserve(k, c->in_bytes) : -1;
	c->out = c->out_bytes ? ff_kernel_reserve(k, c->out_bytes) : -1;
	c->weight = c->weight_bytes ? ff_kernel_reserve(k, c->weight_bytes) : -1;
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}
