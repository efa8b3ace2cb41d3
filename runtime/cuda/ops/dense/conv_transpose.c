/* Transposed convolution along one to three axes, by the convolution whose image's gradient it is:
 * that is forward here, forward is the input's gradient, and its weights' is ours.  Where a bias
 * is added in bfloat16, what it is added to stays float32, unless cuDNN writes none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "conv_transpose.h"

#include <string.h>

#include "border.h"
#include "conv.h"
#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/dnn.h"

struct transposed {
	enum ff_dtype type, result_type; /* of what the library makes forward */
	struct ff_transposed t;
	struct ff_filter filter;
	/* What `weight` is of, which may be larger images: see conv.c. */
	struct ff_filter around;
	struct ff_border border;
	bool is_larger;
	const struct ff_dnn_plan *out, *data, *weight; /* NULL: kernels of our own */
	int64_t weight_bytes, bias_bytes;              /* of the gradients */
	bool has_bias, need_din, need_weight;
	bool is_apart; /* the library writes to the workspace, not to the output's shard */
	bool widen;    /* `out`, `weight` take float32 */
	/* Workspace: dense images (negative: none). */
	int64_t image, plain, in, larger, wide_image, wide_in, wide_weight, sums;
};

/* ---- which kernels ---- */

static int find(struct ff_kernel *k, const struct transposed *s, enum ff_conv_pass pass,
		enum ff_dtype type, enum ff_dtype sink, const struct ff_dnn_plan **ret,
		struct ff_error *err)
{
	struct ff_conv_shape shape;

	memset(&shape, 0, sizeof(shape)); /* shapes are compared byte by byte */
	shape.pass = pass;
	memcpy(&shape.filter, pass == FF_CONV_WEIGHT ? &s->around : &s->filter,
			sizeof(shape.filter));
	shape.type = type;
	shape.sink = sink;
	shape.tf32 = k->dev->tf32 || type != s->type; /* what was widened is exact in it */
	shape.weight_align = ff_conv_alignment(
			s->t.first_weight *
			(pass == FF_CONV_WEIGHT ? FF_F32_BYTES : ff_dtype_bytes(type)));
	shape.bias_align = 64;
	return ff_conv_find(k, &shape, ret, err);
}

static int find_forward(struct ff_kernel *k, struct transposed *s, struct ff_error *err)
{
	int code;

	s->result_type = s->has_bias ? FF_F32 : s->type;
	code = find(k, s, FF_CONV_DATA, s->type, s->result_type, &s->out, err);
	if (code < 0 || s->out || s->result_type == s->type)
		return code;
	code = find(k, s, FF_CONV_DATA, FF_F32, FF_F32, &s->out, err);
	s->widen = s->out != NULL;
	if (code < 0 || s->out)
		return code;
	code = find(k, s, FF_CONV_DATA, s->type, s->type, &s->out, err);
	if (s->out)
		s->result_type = s->type;
	return code;
}

static int find_backward(struct ff_kernel *k, struct transposed *s, struct ff_error *err)
{
	int code = s->need_weight ? find(k, s, FF_CONV_WEIGHT, s->type, FF_F32, &s->weight, err)
				  : FF_OK;

	if (code == FF_OK && s->need_din)
		code = find(k, s, FF_CONV_FORWARD, s->type, s->type, &s->data, err);
	if (code < 0 || !s->need_weight || s->weight || s->type == FF_F32)
		return code;
	code = find(k, s, FF_CONV_WEIGHT, FF_F32, FF_F32, &s->weight, err);
	s->widen = s->weight != NULL;
	return code;
}

/* ---- running them ---- */

/* Between a shard and its dense form. */
static int pack(const struct ff_kernel *k, const struct ff_image *image, const void *shard,
		void *dense, cudaStream_t queue, struct ff_error *err)
{
	const struct transposed *s = k->state;
	struct ff_strided loops;

	ff_image_loops(image, 1, image->channels, 0, false, &loops);
	return ff_kernel_launched(ff_cuda_strided(&loops, s->type, shard, dense, queue), k, err);
}

static int dense_in(const struct ff_kernel *k, const struct ff_kernel_io *io, cudaStream_t queue,
		const void **ret, struct ff_error *err)
{
	const struct transposed *s = k->state;
	void *dense = ff_kernel_at(io, s->in);

	*ret = s->t.in.is_last ? io->in[0] : dense;
	return s->t.in.is_last ? FF_OK : pack(k, &s->t.in, io->in[0], dense, queue, err);
}

/* Of the channels that the part's input has. */
static int64_t weight_elements(const struct transposed *s)
{
	return s->t.in.channels * s->t.out_channels * ff_windows_taps(&s->t.windows);
}

/* The input and the weights that make an output as float32. */
static int widen_forward(const struct ff_kernel *k, const struct ff_kernel_io *io, const void **in,
		const void **weight, cudaStream_t queue, struct ff_error *err)
{
	const struct transposed *s = k->state;
	void *wide_in = ff_kernel_at(io, s->wide_in), *wide = ff_kernel_at(io, s->wide_weight);
	int code = ff_kernel_launched(
			ff_launch_convert(s->type, *in, FF_F32, wide_in,
					ff_image_pixels(&s->t.in) * s->t.in.channels, queue),
			k, err);

	*in = wide_in;
	if (code == FF_OK)
		code = ff_kernel_launched(ff_launch_convert(s->type, *weight, FF_F32, wide,
							  weight_elements(s), queue),
				k, err);
	*weight = wide;
	return code;
}

static int make_out(const struct ff_kernel *k, const struct ff_kernel_io *io, const void *in,
		void *result, cudaStream_t queue, struct ff_error *err)
{
	const struct transposed *s = k->state;
	const void *weight = ff_at(s->type, io->in[1], s->t.first_weight);
	int code = s->widen ? widen_forward(k, io, &in, &weight, queue, err) : FF_OK;

	if (code < 0)
		return code;
	if (s->out)
		return ff_conv_run(k, s->out, queue, result, weight, NULL, in,
				ff_kernel_scratch(k, io), err);
	return ff_kernel_launched(ff_launch_filter_data(s->type, s->result_type, &s->filter, in,
						  weight, result, queue),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *stream,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transposed *s = k->state;
	cudaStream_t queue = ff_stream_queue(stream);
	void *result = s->is_apart ? ff_kernel_at(io, s->image) : io->out[0];
	const void *in = NULL;
	int code = FF_OK;

	if (!s->t.is_empty)
		code = dense_in(k, io, queue, &in, err);
	if (code == FF_OK && !s->t.is_empty)
		code = make_out(k, io, in, result, queue, err);
	if (code < 0 || !(s->is_apart || s->has_bias || s->t.is_empty))
		return code;
	return ff_kernel_launched(
			ff_launch_from_box(s->result_type, s->type, &s->t.reached, result,
					s->has_bias ? ff_at(s->type, io->in[2], s->t.first_bias)
						    : NULL,
					io->out[0], queue),
			k, err);
}

/* The sums of all channels, of what no element reaches, too. */
static int sum_bias(const struct ff_kernel *k, const struct ff_kernel_io *io, cudaStream_t queue,
		struct ff_error *err)
{
	const struct transposed *s = k->state;
	const struct ff_image *out = &s->t.out;
	const void *dout = out->is_last ? io->dout[0] : ff_kernel_at(io, s->plain);
	int code = FF_OK;

	if (s->t.has_others)
		code = ff_kernel_launched(
				cudaMemsetAsync(io->din[2], 0, (size_t)s->bias_bytes, queue), k,
				err);
	if (code == FF_OK && !out->is_last)
		code = pack(k, out, io->dout[0], ff_kernel_at(io, s->plain), queue, err);
	if (code < 0)
		return code;
	return ff_kernel_launched(ff_launch_columns(s->type, ff_image_pixels(out), out->channels,
						  dout, (float *)io->din[2] + s->t.first_bias,
						  ff_kernel_at(io, s->sums), queue),
			k, err);
}

/* Both images as float32. */
static int widen(const struct ff_kernel *k, const struct ff_kernel_io *io, const void **image,
		const void **in, cudaStream_t queue, struct ff_error *err)
{
	const struct transposed *s = k->state;
	const int64_t elements[] = {
			s->border.elements, ff_image_pixels(&s->t.in) * s->t.in.channels};
	const void **from[] = {image, in};
	void *wide[] = {ff_kernel_at(io, s->wide_image), ff_kernel_at(io, s->wide_in)};
	int code = FF_OK;

	for (uint32_t i = 0; i < 2 && code == FF_OK; i++) {
		code = ff_kernel_launched(ff_launch_convert(s->type, *from[i], FF_F32, wide[i],
							  elements[i], queue),
				k, err);
		*from[i] = wide[i];
	}
	return code;
}

static int run_weight(const struct ff_kernel *k, const struct ff_kernel_io *io, const void *image,
		const void *in, cudaStream_t queue, struct ff_error *err)
{
	const struct transposed *s = k->state;
	float *dweight = (float *)io->din[1] + s->t.first_weight;
	int code = FF_OK;

	if (s->weight && s->is_larger) {
		code = ff_border_make(k, &s->border, ff_at(s->type, io->dout[0], s->t.box_at),
				ff_kernel_at(io, s->larger), queue, err);
		image = ff_kernel_at(io, s->larger);
	}
	if (code == FF_OK && s->widen)
		code = widen(k, io, &image, &in, queue, err);
	if (code < 0)
		return code;
	if (s->weight)
		return ff_conv_run(k, s->weight, queue, image, dweight, NULL, in,
				ff_kernel_scratch(k, io), err);
	return ff_kernel_launched(
			ff_launch_filter_weight(s->type, &s->filter, image, in, dweight, queue), k,
			err);
}

static int run_data(const struct ff_kernel *k, const struct ff_kernel_io *io, const void *image,
		cudaStream_t queue, struct ff_error *err)
{
	const struct transposed *s = k->state;
	void *din = s->t.in.is_last ? io->din[0] : ff_kernel_at(io, s->in);
	const void *weight = ff_at(s->type, io->in[1], s->t.first_weight);
	struct ff_strided loops;
	int code = s->data ? ff_conv_run(k, s->data, queue, image, weight, NULL, din,
					     ff_kernel_scratch(k, io), err)
			   : ff_kernel_launched(ff_launch_filter(s->type, &s->filter, image, weight,
								NULL, din, queue),
					     k, err);

	if (code < 0 || s->t.in.is_last)
		return code;
	ff_image_loops(&s->t.in, 1, s->t.in.channels, 0, true, &loops);
	return ff_kernel_launched(ff_cuda_strided(&loops, s->type, din, io->din[0], queue), k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *stream,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transposed *s = k->state;
	cudaStream_t queue = ff_stream_queue(stream);
	bool is_last = s->t.box.is_last;
	const void *image = is_last ? io->dout[0] : ff_kernel_at(io, s->image), *in;
	int code = s->need_weight && s->has_bias ? sum_bias(k, io, queue, err) : FF_OK;

	if (code < 0)
		return code;
	if (s->need_weight && (s->t.is_empty || s->t.has_others))
		code = ff_kernel_launched(
				cudaMemsetAsync(io->din[1], 0, (size_t)s->weight_bytes, queue), k,
				err);
	if (s->t.is_empty || code < 0)
		return code;
	if (!is_last)
		code = pack(k, &s->t.box, ff_at(s->type, io->dout[0], s->t.box_at),
				ff_kernel_at(io, s->image), queue, err);
	if (code == FF_OK && s->need_weight)
		code = dense_in(k, io, queue, &in, err);
	if (code == FF_OK && s->need_weight)
		code = run_weight(k, io, image, in, queue, err);
	return code < 0 || !s->need_din ? code : run_data(k, io, image, queue, err);
}

static int64_t reserve(struct ff_kernel *k, bool needed, int64_t bytes)
{
	return needed && bytes ? ff_kernel_reserve(k, bytes) : -1;
}

static void reserve_all(struct ff_kernel *k, struct transposed *s, bool backward)
{
	const struct ff_image *out = &s->t.out, *box = &s->t.box, *in = &s->t.in;
	int64_t size = ff_dtype_bytes(s->type), pixels = ff_image_pixels(out);
	int64_t of_image = ff_image_pixels(box) * box->channels;
	int64_t of_in = ff_image_pixels(in) * in->channels;

	s->image = backward ? reserve(k, !box->is_last, of_image * size)
			    : reserve(k, s->is_apart, of_image * ff_dtype_bytes(s->result_type));
	s->plain = reserve(
			k, backward && s->has_bias && !out->is_last, pixels * out->channels * size);
	s->in = reserve(k, !in->is_last, of_in * size);
	s->larger = reserve(k, s->weight && s->is_larger, s->border.elements * size);
	s->wide_image = reserve(k, backward && s->widen, s->border.elements * FF_F32_BYTES);
	s->wide_weight = reserve(k, !backward && s->widen, weight_elements(s) * FF_F32_BYTES);
	s->wide_in = reserve(k, s->widen, of_in * FF_F32_BYTES);
	s->sums = reserve(k, backward && s->has_bias, ff_column_scratch(pixels, out->channels));
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct transposed *s = ff_kernel_state(k, sizeof(*s), err);
	bool backward = w->pass == FF_BACKWARD;
	int64_t first[FF_MAX_SPATIAL];
	int code = FF_OK;

	if (!s)
		return FF_E_NOMEM;
	s->type = s->result_type = ff_work_type(w);
	ff_transposed_fill(w, &s->t);
	s->filter = (struct ff_filter){.n = s->t.in.n[0],
			.groups = s->t.groups,
			.c = s->t.out_channels,
			.k = s->t.in_channels,
			.windows = s->t.windows};
	ff_windows_settle(&s->filter.windows);
	s->around = s->filter;
	s->is_larger = ff_windows_surround(&s->around.windows, first);
	ff_border_fill(&s->t.box, 1, s->t.box.channels, 0, s->type, s->around.windows.in, first,
			&s->border);
	s->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	s->need_din = backward && w->need_din[0];
	s->need_weight = ff_grads_make(w->grads, true);
	s->weight_bytes = ff_region_volume(&w->in[1]) * FF_F32_BYTES;
	if (s->has_bias)
		s->bias_bytes = ff_region_volume(&w->in[2]) * FF_F32_BYTES;
	if (!s->t.is_empty)
		code = backward ? find_backward(k, s, err) : find_forward(k, s, err);
	if (code < 0)
		return code;
	s->is_apart = !s->t.box.is_last || s->result_type != s->type;
	reserve_all(k, s, backward);
	k->run = backward ? run_backward : run_forward;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_CONV_TRANSPOSE_OPS(PREPARE)
#undef PREPARE
