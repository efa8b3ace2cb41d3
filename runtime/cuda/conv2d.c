/* Convolution.  Images and filters are channels last.
 *
 * A part's output channels may begin or end inside a group, and its reduction slice may be a
 * part of each group's input channels, so a part is up to three bands: a partial group, whole
 * groups, a partial group.  A band that is not the whole shard is packed into the workspace
 * and unpacked from it.
 *
 * In bfloat16 the weights' gradient stays float32.  Where cuDNN writes no float32 from
 * bfloat16, images are widened first; what is multiplied then is exact in TF32.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "conv2d.h"
#include "copy.h"
#include "dnn.h"
#include "kernel.h"

#define MAX_BANDS 3

struct band {
	struct ff_filter filter;
	int64_t pad_hi[2];
	int64_t first_in, first_out, first_weight; /* channels in the shards; element of weights */
	bool pack_in, pack_out;
	/* NULL: kernels of our own */
	const struct ff_conv *forward, *data, *weight;
	bool add_bias; /* behind the convolution, which has not */
	bool widen;    /* `weight` takes float32 images */
};

struct conv2d {
	enum ff_dtype type; /* gradients of parameters are float32 */
	uint32_t n_bands;
	struct band band[MAX_BANDS];
	int64_t in_pixels, out_pixels;     /* N H W */
	int64_t in_channels, out_channels; /* of the shards */
	int64_t group_step;                /* channels from one group's input to the next's */
	bool has_bias, need_din, fill_din;
	/* Workspace for one band at a time: sizes, then offsets (negative: none). */
	int64_t in_bytes, out_bytes, wide_bytes;
	int64_t in, out, wide_in, wide_out, sums;
};

static int64_t band_in_channels(const struct band *b)
{
	return b->filter.groups * b->filter.c;
}

static int64_t band_out_channels(const struct band *b)
{
	return b->filter.groups * b->filter.k;
}

static void fill_filter(const struct ff_work *w, struct band *b)
{
	const struct ff_conv2d_attrs *a = &w->node->attrs.conv2d;
	const struct ff_region *in = &w->in[0], *out = &w->out[0];
	struct ff_filter *f = &b->filter;

	f->n = ff_region_size(in, 0);
	for (uint32_t i = 0; i < 2; i++) {
		int64_t lo = (int64_t)out->lo[2 + i] * a->stride[i] - a->pad[i];
		int64_t hi = (int64_t)(out->hi[2 + i] - 1) * a->stride[i] - a->pad[i] +
			     (int64_t)a->dilation[i] * (a->kernel[i] - 1) + 1;

		f->in[i] = ff_region_size(in, 2 + i);
		f->out[i] = ff_region_size(out, 2 + i);
		f->taps[i] = a->kernel[i];
		f->stride[i] = a->stride[i];
		f->dilation[i] = a->dilation[i];
		f->pad[i] = (int32_t)(in->lo[2 + i] - lo);
		b->pad_hi[i] = hi - in->hi[2 + i];
	}
}

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

		fill_filter(w, b);
		b->filter.groups = 1;
		if (at % per_group == 0 && stop == group_end) {
			b->filter.groups = (end - at) / per_group;
			stop = at + b->filter.groups * per_group;
		}
		b->filter.c = depth;
		b->filter.k = (stop - at) / b->filter.groups;
		b->first_in = group * c->group_step + weight->lo[1] - w->in[0].lo[1];
		b->first_out = at - first;
		b->first_weight = b->first_out * depth * taps;
		b->pack_in = band_in_channels(b) != c->in_channels;
		b->pack_out = band_out_channels(b) != c->out_channels;
		covered += band_in_channels(b);
		at = stop;
	}
	c->fill_din = covered != c->in_channels;
}

/* ---- which kernels ---- */

/* The largest power of two, up to 64, that divides `bytes`. */
static int64_t alignment_of(int64_t bytes)
{
	int64_t a = 64;

	while (bytes % a)
		a /= 2;
	return a;
}

static void fill_shape(const struct ff_kernel *k, const struct conv2d *c, const struct band *b,
		enum ff_conv_pass pass, struct ff_conv_shape *s)
{
	int64_t size = ff_dtype_bytes(c->type);

	memset(s, 0, sizeof(*s)); /* shapes are compared byte by byte */
	s->pass = pass;
	memcpy(&s->filter, &b->filter, sizeof(s->filter));
	memcpy(s->pad_hi, b->pad_hi, sizeof(s->pad_hi));
	s->type = s->sink = c->type;
	s->tf32 = k->dev->tf32;
	s->weight_align = alignment_of(b->first_weight * size);
	s->bias_align = alignment_of(b->first_out * size);
}

/* With what is fused: all of it in one, or not at all. */
static int find_fused(
		struct ff_kernel *k, const struct conv2d *c, struct band *b, struct ff_error *err)
{
	struct ff_conv_shape s;
	int code;

	fill_shape(k, c, b, FF_CONV_FORWARD, &s);
	s.has_bias = c->has_bias;
	s.epilogue = k->epilogue;
	code = ff_conv_find(k, &s, &b->forward, err);
	k->declined = k->declined || !b->forward;
	return code;
}

/* A float32 bias may as well be added behind; a bfloat16 result would be rounded twice. */
static int find_forward(
		struct ff_kernel *k, const struct conv2d *c, struct band *b, struct ff_error *err)
{
	struct ff_conv_shape s;
	int code = FF_OK;

	if (k->epilogue != FF_EPILOGUE_NONE)
		return find_fused(k, c, b, err);
	fill_shape(k, c, b, FF_CONV_FORWARD, &s);
	s.has_bias = c->has_bias && c->type != FF_F32;
	if (s.has_bias)
		code = ff_conv_find(k, &s, &b->forward, err);
	if (code < 0 || b->forward)
		return code;
	s.has_bias = false;
	b->add_bias = c->has_bias;
	return ff_conv_find(k, &s, &b->forward, err);
}

static int find_backward(
		struct ff_kernel *k, const struct conv2d *c, struct band *b, struct ff_error *err)
{
	struct ff_conv_shape s;
	int code = FF_OK;

	if (c->need_din) {
		fill_shape(k, c, b, FF_CONV_DATA, &s);
		code = ff_conv_find(k, &s, &b->data, err);
	}
	fill_shape(k, c, b, FF_CONV_WEIGHT, &s);
	s.sink = FF_F32;
	s.weight_align = alignment_of(b->first_weight * FF_F32_BYTES);
	if (code == FF_OK)
		code = ff_conv_find(k, &s, &b->weight, err);
	if (code < 0 || b->weight || c->type == FF_F32)
		return code;
	s.type = FF_F32;
	s.tf32 = b->widen = true;
	return ff_conv_find(k, &s, &b->weight, err);
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int prepare_band(struct ff_kernel *k, struct conv2d *c, struct band *b, bool backward,
		struct ff_error *err)
{
	int64_t size = ff_dtype_bytes(c->type);
	int code = backward ? find_backward(k, c, b, err) : find_forward(k, c, b, err);

	if (b->pack_in)
		c->in_bytes = larger(c->in_bytes, c->in_pixels * band_in_channels(b) * size);
	if (b->pack_out)
		c->out_bytes = larger(c->out_bytes, c->out_pixels * band_out_channels(b) * size);
	if (b->widen && b->weight)
		c->wide_bytes = FF_F32_BYTES;
	return code;
}

/* ---- running them ---- */

/* Moves a band's channels between a shard (`step` channels from one group to the next) and its
 * dense form. */
static int pack(const struct ff_kernel *k, int64_t pixels, int64_t groups, int64_t per_group,
		int64_t channels, const void *shard, void *packed, cudaStream_t queue,
		struct ff_error *err)
{
	const struct conv2d *c = k->state;
	struct ff_strided s = {.rank = 3,
			.n = {pixels, groups, per_group},
			.source = {channels, c->group_step, 1},
			.sink = {groups * per_group, per_group, 1}};

	return ff_kernel_launched(ff_cuda_strided(&s, c->type, shard, packed, queue), k, err);
}

static int unpack(const struct ff_kernel *k, int64_t pixels, int64_t groups, int64_t per_group,
		int64_t channels, const void *packed, void *shard, cudaStream_t queue,
		struct ff_error *err)
{
	const struct conv2d *c = k->state;
	struct ff_strided s = {.rank = 3,
			.n = {pixels, groups, per_group},
			.source = {groups * per_group, per_group, 1},
			.sink = {channels, c->group_step, 1}};

	return ff_kernel_launched(ff_cuda_strided(&s, c->type, packed, shard, queue), k, err);
}

/* The band's input, output gradient: in place or packed. */
static int band_in(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		cudaStream_t queue, const void **ret, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	void *packed = ff_kernel_at(io, c->in);

	*ret = b->pack_in ? packed : io->in[0];
	return b->pack_in ? pack(k, c->in_pixels, b->filter.groups, b->filter.c, c->in_channels,
					    ff_at(c->type, io->in[0], b->first_in), packed, queue,
					    err)
			  : FF_OK;
}

static int band_dout(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		cudaStream_t queue, const void **ret, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	void *packed = ff_kernel_at(io, c->out);

	*ret = b->pack_out ? packed : io->dout[0];
	return b->pack_out ? pack(k, c->out_pixels, 1, band_out_channels(b), c->out_channels,
					     ff_at(c->type, io->dout[0], b->first_out), packed,
					     queue, err)
			   : FF_OK;
}

static int convolve(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void *in, void *out, cudaStream_t queue, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	const void *weight = ff_at(c->type, io->in[1], b->first_weight);
	const void *bias = c->has_bias ? ff_at(c->type, io->in[2], b->first_out) : NULL;
	int code;

	if (!b->forward)
		return ff_kernel_launched(
				ff_launch_filter(c->type, &b->filter, in, weight, bias, out, queue),
				k, err);
	code = ff_conv_run(
			k, b->forward, queue, in, weight, bias, out, ff_kernel_scratch(k, io), err);
	if (code < 0 || !b->add_bias)
		return code;
	return ff_kernel_launched(ff_launch_bias(c->type, c->out_pixels, band_out_channels(b), bias,
						  out, queue),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int code = FF_OK;

	for (uint32_t i = 0; i < c->n_bands && code == FF_OK; i++) {
		const struct band *b = &c->band[i];
		void *out = b->pack_out ? ff_kernel_at(io, c->out) : io->out[0];
		const void *in;

		code = band_in(k, b, io, queue, &in, err);
		if (code == FF_OK)
			code = convolve(k, b, io, in, out, queue, err);
		if (code == FF_OK && b->pack_out)
			code = unpack(k, c->out_pixels, 1, band_out_channels(b), c->out_channels,
					out, ff_to(c->type, io->out[0], b->first_out), queue, err);
	}
	return code;
}

/* Both images as float32. */
static int widen(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void **in, const void **dout, cudaStream_t queue, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	void *wide_in = ff_kernel_at(io, c->wide_in), *wide_out = ff_kernel_at(io, c->wide_out);
	int code = ff_kernel_launched(ff_launch_convert(c->type, *in, FF_F32, wide_in,
						      c->in_pixels * band_in_channels(b), queue),
			k, err);

	*in = wide_in;
	if (code == FF_OK)
		code = ff_kernel_launched(
				ff_launch_convert(c->type, *dout, FF_F32, wide_out,
						c->out_pixels * band_out_channels(b), queue),
				k, err);
	*dout = wide_out;
	return code;
}

static int run_weight(const struct ff_kernel *k, const struct band *b,
		const struct ff_kernel_io *io, const void *dout, cudaStream_t queue,
		struct ff_error *err)
{
	const struct conv2d *c = k->state;
	float *dweight = (float *)io->din[1] + b->first_weight;
	const void *in;
	int code = band_in(k, b, io, queue, &in, err);

	if (code == FF_OK && !b->weight)
		return ff_kernel_launched(ff_launch_filter_weight(c->type, &b->filter, in, dout,
							  dweight, queue),
				k, err);
	if (code == FF_OK && b->widen)
		code = widen(k, b, io, &in, &dout, queue, err);
	return code < 0 ? code
			: ff_conv_run(k, b->weight, queue, in, dweight, NULL, dout,
					  ff_kernel_scratch(k, io), err);
}

static int run_data(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void *dout, cudaStream_t queue, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	const void *weight = ff_at(c->type, io->in[1], b->first_weight);
	void *din = b->pack_in ? ff_kernel_at(io, c->in) : io->din[0];
	int code = b->data ? ff_conv_run(k, b->data, queue, din, weight, NULL, dout,
					     ff_kernel_scratch(k, io), err)
			   : ff_kernel_launched(ff_launch_filter_data(c->type, &b->filter, dout,
								weight, din, queue),
					     k, err);

	if (code < 0 || !b->pack_in)
		return code;
	return unpack(k, c->in_pixels, b->filter.groups, b->filter.c, c->in_channels, din,
			ff_to(c->type, io->din[0], b->first_in), queue, err);
}

/* The input's room in the workspace serves both gradients: they run one after the other. */
static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv2d *c = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int64_t in_bytes = c->in_pixels * c->in_channels * ff_dtype_bytes(c->type);
	int code = FF_OK;

	if (c->need_din && c->fill_din)
		code = ff_kernel_launched(
				cudaMemsetAsync(io->din[0], 0, (size_t)in_bytes, queue), k, err);
	if (code == FF_OK && c->has_bias)
		code = ff_kernel_launched(ff_launch_columns(c->type, c->out_pixels, c->out_channels,
							  io->dout[0], io->din[2],
							  ff_kernel_at(io, c->sums), queue),
				k, err);
	for (uint32_t i = 0; i < c->n_bands && code == FF_OK; i++) {
		const struct band *b = &c->band[i];
		const void *dout;

		code = band_dout(k, b, io, queue, &dout, err);
		if (code == FF_OK)
			code = run_weight(k, b, io, dout, queue, err);
		if (code == FF_OK && c->need_din)
			code = run_data(k, b, io, dout, queue, err);
	}
	return code;
}

static void reserve(struct ff_kernel *k, struct conv2d *c, bool backward)
{
	c->in = c->in_bytes ? ff_kernel_reserve(k, c->in_bytes) : -1;
	c->out = c->out_bytes ? ff_kernel_reserve(k, c->out_bytes) : -1;
	if (c->wide_bytes) {
		c->wide_in = ff_kernel_reserve(k, c->in_pixels * c->in_channels * c->wide_bytes);
		c->wide_out = ff_kernel_reserve(k, c->out_pixels * c->out_channels * c->wide_bytes);
	}
	if (backward && c->has_bias)
		c->sums = ff_kernel_reserve(k, ff_column_scratch(c->out_pixels, c->out_channels));
}

int ff_cuda_conv2d_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct conv2d *c = ff_kernel_state(k, sizeof(*c), err);
	bool backward = w->pass == FF_BACKWARD;

	if (!c)
		return FF_E_NOMEM;
	c->type = ff_work_type(w);
	c->in_channels = ff_region_size(&w->in[0], 1);
	c->out_channels = ff_region_size(&w->out[0], 1);
	c->in_pixels = ff_region_volume(&w->in[0]) / c->in_channels;
	c->out_pixels = ff_region_volume(&w->out[0]) / c->out_channels;
	c->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	c->need_din = backward && w->need_din[0];
	split_bands(w, c);
	for (uint32_t i = 0; i < c->n_bands; i++) {
		int code = prepare_band(k, c, &c->band[i], backward, err);

		if (code < 0)
			return code;
	}
	reserve(k, c, backward);
	k->run = backward ? run_backward : run_forward;
	return FF_OK;
}
