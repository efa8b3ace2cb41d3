/* Convolution along one to three axes.  Filters are stored channels last.
 *
 * A part's output channels may begin or end inside a group, and its reduction slice may be a
 * part of each group's input channels, so a part is up to three bands: a partial group, whole
 * groups, a partial group.  A band that is not the whole shard, or of a shard that is not
 * stored channels last, is packed into the workspace and unpacked from it.
 *
 * cuDNN's gradients of weights heed no padding behind an image that is more than before it.  There
 * such images are brought into larger ones, with zeros around them.
 *
 * In bfloat16 the weights' gradient stays float32.  Where cuDNN writes no float32 from
 * bfloat16, images are unfolded, or widened first; what is multiplied then is exact in TF32.  Which
 * of them, and whether float32 images are unfolded, is timed (filter_way.h).
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "border.h"
#include "conv.h"
#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/dnn.h"
#include "filter_way.h"
#include "pointwise.h"
#include "unfold.h"

struct band {
	struct ff_filter filter;
	struct ff_band at;
	/* NULL: kernels of our own */
	const struct ff_dnn_plan *forward, *data, *weight;
	bool add_bias; /* behind the convolution, which has not */
	bool widen;    /* `weight` takes float32 images */
	bool unfolds;  /* the weights' gradient is made of unfolded images instead */
	struct ff_unfold unfold;
	/* What `weight` is of, which may be larger images. */
	struct ff_filter around;
	struct ff_border border;
	bool is_larger;
};

struct conv {
	enum ff_dtype type; /* gradients of parameters are float32 */
	uint32_t n_bands;
	struct band band[FF_MAX_BANDS];
	struct ff_image in_image, out_image;
	int64_t group_step; /* channels from one group's input to the next's */
	bool has_bias, need_din, need_weight, fill_din;
	/* Workspace for one band at a time: sizes, then offsets (negative: none). */
	int64_t in_bytes, out_bytes, around_bytes, wide_bytes;
	int64_t in, out, around, wide_in, wide_out, sums;
};

static void split_bands(const struct ff_work *w, struct conv *c)
{
	struct ff_bands bands;

	ff_bands_fill(w, &c->in_image, &c->out_image, &bands);
	c->n_bands = bands.n;
	c->group_step = bands.group_step;
	c->fill_din = !bands.cover;
	for (uint32_t i = 0; i < bands.n; i++) {
		struct band *b = &c->band[i];
		int64_t first[FF_MAX_SPATIAL];

		b->at = bands.band[i];
		b->filter.n = c->in_image.n[0];
		b->filter.groups = b->at.groups;
		b->filter.c = b->at.c;
		b->filter.k = b->at.k;
		ff_windows_fill(w, &b->filter.windows);
		ff_windows_settle(&b->filter.windows);
		b->around = b->filter;
		b->is_larger = ff_windows_surround(&b->around.windows, first);
		ff_border_fill(&c->in_image, b->at.groups, b->at.c, c->group_step, c->type,
				b->around.windows.in, first, &b->border);
	}
}

/* ---- which kernels ---- */

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void fill_shape(const struct ff_kernel *k, const struct conv *c, const struct band *b,
		enum ff_conv_pass pass, struct ff_conv_shape *s)
{
	int64_t size = ff_dtype_bytes(c->type);

	memset(s, 0, sizeof(*s)); /* shapes are compared byte by byte */
	s->pass = pass;
	memcpy(&s->filter, &b->filter, sizeof(s->filter));
	s->type = s->sink = c->type;
	s->tf32 = k->dev->tf32;
	s->weight_align = ff_conv_alignment(b->at.first_weight * size);
	s->bias_align = ff_conv_alignment(b->at.first_out * size);
}

/* With what is fused: all of it in one, or not at all. */
static int find_fused(
		struct ff_kernel *k, const struct conv *c, struct band *b, struct ff_error *err)
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
		struct ff_kernel *k, const struct conv *c, struct band *b, struct ff_error *err)
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

static void fill_weight_shape(const struct ff_kernel *k, const struct conv *c, const struct band *b,
		struct ff_conv_shape *s)
{
	fill_shape(k, c, b, FF_CONV_WEIGHT, s);
	memcpy(&s->filter, &b->around, sizeof(s->filter));
	s->sink = FF_F32;
	s->weight_align = ff_conv_alignment(b->at.first_weight * FF_F32_BYTES);
}

/* cuDNN's plan, or unfolded images: where that is not known yet both are made, and what the slower
 * one would have needed is not. */
static int find_way(struct ff_kernel *k, const struct conv *c, struct band *b,
		const struct ff_conv_shape *s, enum ff_filter_way way, struct ff_error *err)
{
	int64_t reserved = k->reserved_bytes, scratch = k->scratch_bytes, planned, unfolded;
	int code = FF_OK;

	if (way != FF_FILTER_UNFOLDED)
		code = ff_conv_find(k, s, &b->weight, err);
	if (code == FF_OK && !b->weight)
		way = FF_FILTER_UNFOLDED;
	planned = k->scratch_bytes;
	k->scratch_bytes = scratch;
	if (code == FF_OK && way != FF_FILTER_CONVOLVED)
		code = ff_unfold_prepare(k, &b->filter, c->type, &c->in_image, &b->unfold, err);
	unfolded = k->scratch_bytes;
	k->scratch_bytes = larger(planned, unfolded);
	if (code == FF_OK && way == FF_FILTER_UNKNOWN)
		way = ff_filter_time(k, s, c->type, b->weight, &b->unfold);
	b->unfolds = way == FF_FILTER_UNFOLDED;
	k->scratch_bytes = b->unfolds ? unfolded : planned;
	if (b->unfolds) {
		b->weight = NULL;
		return code;
	}
	ff_unfold_finish(&b->unfold);
	memset(&b->unfold, 0, sizeof(b->unfold));
	k->reserved_bytes = reserved;
	return code;
}

/* What is not known is left to cuDNN, but where it takes widened images alone. */
static int find_weight(
		struct ff_kernel *k, const struct conv *c, struct band *b, struct ff_error *err)
{
	enum ff_filter_way way = FF_FILTER_CONVOLVED;
	int64_t scratch = k->scratch_bytes;
	struct ff_conv_shape s;
	bool widens, serves;
	int code;

	fill_weight_shape(k, c, b, &s);
	code = ff_conv_find(k, &s, &b->weight, err);
	widens = c->type != FF_F32 && !b->weight;
	serves = c->n_bands == 1 && !b->at.pack_in && (widens || !b->is_larger) &&
		 ff_unfold_serves(k, &b->filter, c->type);
	if (code < 0 || (!b->weight && !widens))
		return code;
	if (widens) {
		s.type = FF_F32;
		s.tf32 = true;
		way = FF_FILTER_UNFOLDED;
	}
	if (serves)
		code = ff_filter_way(k, &s, c->type, &way, err);
	k->scratch_bytes = scratch;
	if (code == FF_OK && serves)
		code = find_way(k, c, b, &s, way, err);
	else if (code == FF_OK)
		code = ff_conv_find(k, &s, &b->weight, err);
	b->widen = widens && !b->unfolds;
	return code;
}

static int find_backward(
		struct ff_kernel *k, const struct conv *c, struct band *b, struct ff_error *err)
{
	struct ff_conv_shape s;
	int code = FF_OK;

	if (c->need_din) {
		fill_shape(k, c, b, FF_CONV_DATA, &s);
		code = ff_conv_find(k, &s, &b->data, err);
	}
	return code < 0 || !c->need_weight ? code : find_weight(k, c, b, err);
}

static int prepare_band(struct ff_kernel *k, struct conv *c, struct band *b, bool backward,
		struct ff_error *err)
{
	int64_t size = ff_dtype_bytes(c->type);
	int code = backward ? find_backward(k, c, b, err) : find_forward(k, c, b, err);

	if (b->at.pack_in)
		c->in_bytes = larger(c->in_bytes,
				ff_image_pixels(&c->in_image) * ff_band_in(&b->at) * size);
	if (b->at.pack_out)
		c->out_bytes = larger(c->out_bytes,
				ff_image_pixels(&c->out_image) * ff_band_out(&b->at) * size);
	if (b->weight && b->is_larger)
		c->around_bytes = larger(c->around_bytes, b->border.elements * size);
	if (b->weight && b->widen)
		c->wide_bytes = larger(c->wide_bytes, b->border.elements * FF_F32_BYTES);
	return code;
}

/* ---- running them ---- */

/* A band's channels from a shard, where they begin at `shard`, to its dense form. */
static int pack(const struct ff_kernel *k, const struct ff_image *image, int64_t groups,
		int64_t per_group, const void *shard, void *packed, cudaStream_t queue,
		struct ff_error *err)
{
	const struct conv *c = k->state;
	struct ff_strided s;

	ff_image_loops(image, groups, per_group, c->group_step, false, &s);
	return ff_kernel_launched(ff_cuda_strided(&s, c->type, shard, packed, queue), k, err);
}

static int unpack(const struct ff_kernel *k, const struct ff_image *image, int64_t groups,
		int64_t per_group, const void *packed, void *shard, cudaStream_t queue,
		struct ff_error *err)
{
	const struct conv *c = k->state;
	struct ff_strided s;

	ff_image_loops(image, groups, per_group, c->group_step, true, &s);
	return ff_kernel_launched(ff_cuda_strided(&s, c->type, packed, shard, queue), k, err);
}

/* The band's input, output gradient: in place or packed. */
static int band_in(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		cudaStream_t queue, const void **ret, struct ff_error *err)
{
	const struct conv *c = k->state;
	void *packed = ff_kernel_at(io, c->in);

	*ret = b->at.pack_in ? packed : io->in[0];
	return b->at.pack_in ? pack(k, &c->in_image, b->filter.groups, b->filter.c,
					       ff_at(c->type, io->in[0],
							       b->at.first_in *
									       c->in_image.channel_stride),
					       packed, queue, err)
			     : FF_OK;
}

static int band_dout(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		cudaStream_t queue, const void **ret, struct ff_error *err)
{
	const struct conv *c = k->state;
	void *packed = ff_kernel_at(io, c->out);

	*ret = b->at.pack_out ? packed : io->dout[0];
	return b->at.pack_out ? pack(k, &c->out_image, 1, ff_band_out(&b->at),
						ff_at(c->type, io->dout[0],
								b->at.first_out *
										c->out_image.channel_stride),
						packed, queue, err)
			      : FF_OK;
}

static int convolve(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void *in, void *out, cudaStream_t queue, struct ff_error *err)
{
	const struct conv *c = k->state;
	const void *weight = ff_at(c->type, io->in[1], b->at.first_weight);
	const void *bias = c->has_bias ? ff_at(c->type, io->in[2], b->at.first_out) : NULL;
	int code;

	if (!b->forward)
		return ff_kernel_launched(
				ff_launch_filter(c->type, &b->filter, in, weight, bias, out, queue),
				k, err);
	code = ff_conv_run(k, b->forward, queue, in, weight, b->add_bias ? NULL : bias, out,
			ff_kernel_scratch(k, io), err);
	if (code < 0 || !b->add_bias)
		return code;
	return ff_kernel_launched(ff_launch_bias(c->type, ff_image_pixels(&c->out_image),
						  ff_band_out(&b->at), bias, out, queue),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv *c = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int code = FF_OK;

	for (uint32_t i = 0; i < c->n_bands && code == FF_OK; i++) {
		const struct band *b = &c->band[i];
		void *out = b->at.pack_out ? ff_kernel_at(io, c->out) : io->out[0];
		const void *in;

		code = band_in(k, b, io, queue, &in, err);
		if (code == FF_OK)
			code = convolve(k, b, io, in, out, queue, err);
		if (code == FF_OK && b->at.pack_out)
			code = unpack(k, &c->out_image, 1, ff_band_out(&b->at), out,
					ff_to(c->type, io->out[0],
							b->at.first_out *
									c->out_image.channel_stride),
					queue, err);
	}
	return code;
}

/* The band's input in the middle of zeros. */
static int surround(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		cudaStream_t queue, const void **ret, struct ff_error *err)
{
	const struct conv *c = k->state;

	*ret = ff_kernel_at(io, c->around);
	return ff_border_make(k, &b->border,
			ff_at(c->type, io->in[0], b->at.first_in * c->in_image.channel_stride),
			ff_kernel_at(io, c->around), queue, err);
}

/* Both images as float32. */
static int widen(const struct ff_kernel *k, const struct band *b, const struct ff_kernel_io *io,
		const void **in, const void **dout, cudaStream_t queue, struct ff_error *err)
{
	const struct conv *c = k->state;
	void *wide_in = ff_kernel_at(io, c->wide_in), *wide_out = ff_kernel_at(io, c->wide_out);
	int code = ff_kernel_launched(
			ff_launch_convert(c->type, *in, FF_F32, wide_in, b->border.elements, queue),
			k, err);

	*in = wide_in;
	if (code == FF_OK)
		code = ff_kernel_launched(ff_launch_convert(c->type, *dout, FF_F32, wide_out,
							  ff_image_pixels(&c->out_image) *
									  ff_band_out(&b->at),
							  queue),
				k, err);
	*dout = wide_out;
	return code;
}

static int run_weight(const struct ff_kernel *k, const struct band *b,
		const struct ff_kernel_io *io, const void *dout, cudaStream_t queue,
		struct ff_error *err)
{
	const struct conv *c = k->state;
	float *dweight = (float *)io->din[1] + b->at.first_weight;
	const void *in;
	int code;

	if (b->unfolds)
		return ff_unfold_run(k, &b->unfold, io, io->in[0], dout, dweight, queue, err);
	code = b->weight && b->is_larger ? surround(k, b, io, queue, &in, err)
					 : band_in(k, b, io, queue, &in, err);

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
	const struct conv *c = k->state;
	const void *weight = ff_at(c->type, io->in[1], b->at.first_weight);
	void *din = b->at.pack_in ? ff_kernel_at(io, c->in) : io->din[0];
	int code = b->data ? ff_conv_run(k, b->data, queue, din, weight, NULL, dout,
					     ff_kernel_scratch(k, io), err)
			   : ff_kernel_launched(ff_launch_filter_data(c->type, c->type, &b->filter,
								dout, weight, din, queue),
					     k, err);

	if (code < 0 || !b->at.pack_in)
		return code;
	return unpack(k, &c->in_image, b->filter.groups, b->filter.c, din,
			ff_to(c->type, io->din[0], b->at.first_in * c->in_image.channel_stride),
			queue, err);
}

/* The sums of `channels` of a dense image. */
static int run_bias(const struct ff_kernel *k, const struct ff_kernel_io *io, int64_t channels,
		int64_t first, const void *dout, cudaStream_t queue, struct ff_error *err)
{
	const struct conv *c = k->state;

	return ff_kernel_launched(ff_launch_columns(c->type, ff_image_pixels(&c->out_image),
						  channels, dout, (float *)io->din[2] + first,
						  ff_kernel_at(io, c->sums), queue),
			k, err);
}

/* The input's room in the workspace serves both gradients: they run one after the other. */
static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct conv *c = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int64_t in_elements = ff_image_pixels(&c->in_image) * c->in_image.channels;
	size_t in_bytes = (size_t)(in_elements * ff_dtype_bytes(c->type));
	bool has_bias = c->need_weight && c->has_bias, by_band = has_bias && !c->out_image.is_last;
	int code = FF_OK;

	if (c->need_din && c->fill_din)
		code = ff_kernel_launched(cudaMemsetAsync(io->din[0], 0, in_bytes, queue), k, err);
	if (code == FF_OK && has_bias && !by_band)
		code = run_bias(k, io, c->out_image.channels, 0, io->dout[0], queue, err);
	for (uint32_t i = 0; i < c->n_bands && code == FF_OK; i++) {
		const struct band *b = &c->band[i];
		const void *dout;

		code = band_dout(k, b, io, queue, &dout, err);
		if (code == FF_OK && by_band)
			code = run_bias(k, io, ff_band_out(&b->at), b->at.first_out, dout, queue,
					err);
		if (code == FF_OK && c->need_weight)
			code = run_weight(k, b, io, dout, queue, err);
		if (code == FF_OK && c->need_din)
			code = run_data(k, b, io, dout, queue, err);
	}
	return code;
}

/* The plan that adds, if there is one within the scratch of that which does not. */
static int find_adding(struct ff_kernel *k, struct ff_conv_shape *s,
		const struct ff_dnn_plan **plan, bool *ret, struct ff_error *err)
{
	int64_t have = k->scratch_bytes;
	const struct ff_dnn_plan *adding = NULL;
	int code;

	s->adds = true;
	code = ff_conv_find(k, s, &adding, err);
	*ret = code == FF_OK && adding && k->scratch_bytes <= have;
	k->scratch_bytes = have;
	if (*ret)
		*plan = adding;
	return code;
}

/* Of whole shards, by cuDNN. */
static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct conv *c = k->state;
	struct band *b = &c->band[0];
	struct ff_conv_shape s;

	if (c->n_bands != 1)
		return FF_OK;
	if (input == 0 && b->data && !b->at.pack_in && !c->fill_din) {
		fill_shape(k, c, b, FF_CONV_DATA, &s);
		return find_adding(k, &s, &b->data, ret, err);
	}
	if (input == 1 && b->unfolds) {
		ff_unfold_add(&b->unfold);
		*ret = true;
	}
	if (input != 1 || !b->weight)
		return FF_OK;
	fill_weight_shape(k, c, b, &s);
	if (b->widen) {
		s.type = FF_F32;
		s.tf32 = true;
	}
	return find_adding(k, &s, &b->weight, ret, err);
}

static void reserve(struct ff_kernel *k, struct conv *c, bool backward)
{
	int64_t out_pixels = ff_image_pixels(&c->out_image);

	c->in = c->in_bytes ? ff_kernel_reserve(k, c->in_bytes) : -1;
	c->out = c->out_bytes ? ff_kernel_reserve(k, c->out_bytes) : -1;
	c->around = c->around_bytes ? ff_kernel_reserve(k, c->around_bytes) : -1;
	if (c->wide_bytes) {
		c->wide_in = ff_kernel_reserve(k, c->wide_bytes);
		c->wide_out = ff_kernel_reserve(
				k, out_pixels * c->out_image.channels * FF_F32_BYTES);
	}
	if (backward && c->has_bias)
		c->sums = ff_kernel_reserve(
				k, ff_column_scratch(out_pixels, c->out_image.channels));
}

static void finish(struct ff_kernel *k)
{
	struct conv *c = k->state;

	for (uint32_t i = 0; i < c->n_bands; i++)
		ff_unfold_finish(&c->band[i].unfold);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD, done = false;
	int code = ff_pointwise_prepare(k, w, &done, err);
	struct conv *c;

	if (code < 0 || done)
		return code;
	c = ff_kernel_state(k, sizeof(*c), err);
	if (!c)
		return FF_E_NOMEM;
	k->finish = finish;
	c->type = ff_work_type(w);
	ff_image_fill(&w->node->in_map[0], &w->in[0], &c->in_image);
	ff_image_fill(&w->node->out_map[0], &w->out[0], &c->out_image);
	c->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	c->need_din = backward && w->need_din[0];
	c->need_weight = ff_grads_make(w->grads, true);
	split_bands(w, c);
	for (uint32_t i = 0; i < c->n_bands; i++) {
		code = prepare_band(k, c, &c->band[i], backward, err);
		if (code < 0)
			return code;
	}
	reserve(k, c, backward);
	k->run = backward ? run_backward : run_forward;
	k->add = backward ? add : NULL;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_CONV_OPS(PREPARE)
#undef PREPARE
