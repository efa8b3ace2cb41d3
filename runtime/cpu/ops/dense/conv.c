/* Convolution along one to three axes.
 *
 * A part's output channels may begin or end inside a group, and its reduction
 * slice may be a part of each group's input channels, so a part is up to three
 * bands: a partial group, whole groups, a partial group.  A band that is not
 * the whole shard, or of a shard that is not stored channels last, is packed into the
 * workspace and unpacked from it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/filter.h"
#include "cpu/core/real.h"

struct band {
	struct ff_filter filter;
	struct ff_filter_calls calls;
	struct ff_band at;
};

struct conv {
	enum ff_dtype type; /* gradients of parameters are float32 */
	uint32_t n_bands;
	struct band band[FF_MAX_BANDS];
	struct ff_image in_image, out_image;
	int64_t group_step; /* channels from one group's input to the next's */
	bool has_bias, need_din, need_weight, fill_din;
	bool thin; /* in_image is what is read of the shard */
	int64_t shard_bytes;
	/* Workspace for one band at a time: sizes, then offsets (negative: none). */
	int64_t in_bytes, out_bytes, weight_bytes, wide_bytes;
	int64_t in, out, weight, wide;
};

/* Windows of one element that leave some out: oneDNN is slow at what is then not a whole number of
 * strides, so what is read is packed, and no stride is left. */
static void thin_out(const struct ff_windows *w, struct conv *c)
{
	bool strides = false, fits = ff_windows_taps(w) == 1;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		strides = strides || (w->stride[i] > 1 && w->out[i] > 1);
		fits = fits && !w->pad[0][i] && !w->pad[1][i] &&
		       w->in[i] == (w->out[i] - 1) * w->stride[i] + 1;
	}
	c->thin = strides && fits;
	if (!c->thin)
		return;
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		c->in_image.n[1 + i] = w->out[i];
		c->in_image.stride[1 + i] *= w->stride[i];
	}
	c->in_image.is_last = false;
}

static void fill_windows(const struct ff_work *w, const struct conv *c, struct ff_windows *ret)
{
	ff_windows_fill(w, ret);
	for (uint32_t i = 0; i < FF_MAX_SPATIAL && c->thin; i++) {
		ret->in[i] = ret->out[i];
		ret->stride[i] = 1;
	}
}

static void split_bands(const struct ff_work *w, struct conv *c)
{
	struct ff_bands bands;

	ff_bands_fill(w, &c->in_image, &c->out_image, &bands);
	c->n_bands = bands.n;
	c->group_step = bands.group_step;
	c->fill_din = c->thin || !bands.cover;
	for (uint32_t i = 0; i < bands.n; i++) {
		struct band *b = &c->band[i];

		b->at = bands.band[i];
		b->filter = (struct ff_filter){.type = c->type,
				.image_type = c->type,
				.n = c->in_image.n[0],
				.groups = b->at.groups,
				.c = b->at.c,
				.k = b->at.k,
				.bias = c->has_bias};
		fill_windows(w, c, &b->filter.windows);
	}
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int prepare_band(struct ff_kernel *k, const struct ff_work *w, struct conv *c,
		struct band *b, struct ff_error *err)
{
	int passes = (c->need_weight ? FF_FILTER_WEIGHT : 0) | (c->need_din ? FF_FILTER_DATA : 0);
	int64_t size = ff_dtype_bytes(c->type);
	int code = ff_filter_prepare(k, &b->filter,
			w->pass == FF_FORWARD ? FF_FILTER_FORWARD : passes, &b->calls, err);

	if (b->at.pack_in)
		c->in_bytes = larger(c->in_bytes,
				ff_image_pixels(&c->in_image) * ff_band_in(&b->at) * size);
	if (b->at.pack_out)
		c->out_bytes = larger(c->out_bytes,
				ff_image_pixels(&c->out_image) * ff_band_out(&b->at) * size);
	c->weight_bytes = larger(c->weight_bytes, b->calls.order_bytes);
	c->wide_bytes = larger(c->wide_bytes, b->calls.image_bytes + b->calls.result_bytes);
	return code;
}

/* The band's input, output gradient: in place or packed. */
static const void *band_in(
		const struct conv *c, const struct band *b, const struct ff_kernel_io *io)
{
	int64_t first = b->at.first_in * c->in_image.channel_stride;
	void *packed = ff_kernel_at(io, c->in);
	struct ff_strided s;

	if (!b->at.pack_in)
		return io->in[0];
	ff_image_loops(&c->in_image, b->filter.groups, b->filter.c, c->group_step, false, &s);
	ff_strided_copy(&s, c->type, ff_real_in(c->type, io->in[0], first), packed);
	return packed;
}

static const void *band_dout(
		const struct conv *c, const struct band *b, const struct ff_kernel_io *io)
{
	int64_t first = b->at.first_out * c->out_image.channel_stride;
	void *packed = ff_kernel_at(io, c->out);
	struct ff_strided s;

	if (!b->at.pack_out)
		return io->dout[0];
	ff_image_loops(&c->out_image, 1, ff_band_out(&b->at), 0, false, &s);
	ff_strided_copy(&s, c->type, ff_real_in(c->type, io->dout[0], first), packed);
	return packed;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv *c = k->state;

	for (uint32_t i = 0; i < c->n_bands; i++) {
		const struct band *b = &c->band[i];
		int64_t first = b->at.first_out * c->out_image.channel_stride;
		void *out = b->at.pack_out ? ff_kernel_at(io, c->out) : io->out[0];
		const void *bias = c->has_bias ? ff_real_in(c->type, io->in[2], b->at.first_out)
					       : NULL;
		struct ff_strided s;
		int code = ff_filter_forward(k, &b->calls, io, band_in(c, b, io),
				ff_real_in(c->type, io->in[1], b->at.first_weight), bias, out,
				ff_kernel_at(io, c->weight), err);

		if (code < 0)
			return code;
		if (!b->at.pack_out)
			continue;
		ff_image_loops(&c->out_image, 1, ff_band_out(&b->at), 0, true, &s);
		ff_strided_copy(&s, c->type, out, ff_real_out(c->type, io->out[0], first));
	}
	return FF_OK;
}

static int run_data(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void *dout, struct ff_error *err)
{
	const struct conv *c = k->state;
	int64_t first = b->at.first_in * c->in_image.channel_stride;
	void *din = b->at.pack_in ? ff_kernel_at(io, c->in) : io->din[0];
	struct ff_strided s;
	int code = ff_filter_data(k, &b->calls, io, dout,
			ff_real_in(c->type, io->in[1], b->at.first_weight), din,
			ff_kernel_at(io, c->weight), err);

	if (code < 0 || !b->at.pack_in)
		return code;
	ff_image_loops(&c->in_image, b->filter.groups, b->filter.c, c->group_step, true, &s);
	ff_strided_copy(&s, c->type, din, ff_real_out(c->type, io->din[0], first));
	return FF_OK;
}

static int run_weight(const struct ff_kernel *k, const struct band *b,
		const struct ff_kernel_io *io, const void *dout, struct ff_error *err)
{
	const struct conv *c = k->state;
	const struct ff_filter_gradient g = {.image = band_in(c, b, io),
			.dresult = dout,
			.dweight = (float *)io->din[1] + b->at.first_weight,
			.dbias = c->has_bias ? (float *)io->din[2] + b->at.first_out : NULL,
			.order = ff_kernel_at(io, c->weight),
			.wide = ff_kernel_at(io, c->wide)};

	return ff_filter_weight(k, &b->calls, io, &g, err);
}

/* The input's room in the workspace, then the weights', serves both gradients:
 * they run one after the other. */
static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv *c = k->state;

	if (c->need_din && c->fill_din)
		memset(io->din[0], 0, (size_t)c->shard_bytes);
	for (uint32_t i = 0; i < c->n_bands; i++) {
		const struct band *b = &c->band[i];
		const void *dout = band_dout(c, b, io);
		int code = c->need_weight ? run_weight(k, b, io, dout, err) : FF_OK;

		if (code == FF_OK && c->need_din)
			code = run_data(k, b, io, dout, err);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct conv *c = ff_kernel_state(k, sizeof(*c), err);
	struct ff_windows windows;

	if (!c)
		return FF_E_NOMEM;
	c->type = ff_work_type(w);
	c->shard_bytes = ff_region_volume(&w->in[0]) * ff_dtype_bytes(c->type);
	ff_image_fill(&w->node->in_map[0], &w->in[0], &c->in_image);
	ff_image_fill(&w->node->out_map[0], &w->out[0], &c->out_image);
	c->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	c->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	c->need_weight = ff_grads_make(w->grads, true);
	ff_windows_fill(w, &windows);
	thin_out(&windows, c);
	split_bands(w, c);
	for (uint32_t i = 0; i < c->n_bands; i++) {
		int code = prepare_band(k, w, c, &c->band[i], err);

		if (code < 0)
			return code;
	}
	c->in = c->in_bytes ? ff_kernel_reserve(k, c->in_bytes) : -1;
	c->out = c->out_bytes ? ff_kernel_reserve(k, c->out_bytes) : -1;
	c->weight = c->weight_bytes ? ff_kernel_reserve(k, c->weight_bytes) : -1;
	c->wide = c->wide_bytes ? ff_kernel_reserve(k, c->wide_bytes) : -1;
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_CONV_OPS(PREPARE)
#undef PREPARE
