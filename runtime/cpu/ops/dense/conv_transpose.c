/* Transposed convolution along one to three axes, by the convolution whose image's gradient it is:
 * that is forward here, forward is the input's gradient, and its weights' is ours.  Where a bias
 * is added in bfloat16, what it is added to stays float32.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/filter.h"
#include "cpu/core/product.h"
#include "cpu/core/real.h"
#include "kernels/transposed.h"

struct transposed {
	enum ff_dtype type, result_type; /* of what the library makes forward */
	struct ff_transposed t;
	struct ff_filter_calls calls;
	int64_t weight_bytes, bias_bytes; /* of the gradients */
	bool has_bias, need_din, need_weight;
	bool is_apart; /* the library writes to the workspace, not to the output's shard */
	/* Workspace: dense images and what filters need (negative: none). */
	int64_t image, plain, in, order, wide;
};

/* Behind the library: the output's shard from the box that it made, and the bias. */
FF_REAL_LOOP void spread_pixel(enum ff_dtype result_type, enum ff_dtype type,
		const struct transposed *s, const void *result, int64_t from, const void *bias,
		void *out, int64_t to)
{
	const struct ff_image *i = &s->t.out;

	for (int64_t c = 0; c < i->channels; c++) {
		float x = from < 0 ? 0 : ff_real_get(result_type, result, from + c);

		x += bias ? ff_real_get(type, bias, c) : 0;
		ff_real_put(type, out, to + c * i->channel_stride, x);
	}
}

/* Pixel `i` of the shard: where it is, and where in the box; negative outside. */
static int64_t pixel_at(const struct ff_transposed *t, int64_t i, int64_t *from)
{
	int64_t at[4], to = 0, box;
	bool inside = true;

	for (uint32_t a = 4; a-- > 0;) {
		at[a] = i % t->out.n[a];
		i /= t->out.n[a];
		to += at[a] * t->out.stride[a];
	}
	box = at[0];
	for (uint32_t a = 0; a < FF_MAX_SPATIAL; a++) {
		int64_t k = at[1 + a] - t->reached.first[a];

		inside = inside && k >= 0 && k < t->reached.size[a];
		box = box * t->reached.size[a] + k;
	}
	*from = inside ? box * t->out.channels : -1;
	return to;
}

static void spread(const struct transposed *s, const void *result, const void *bias, void *out)
{
	int64_t pixels = ff_image_pixels(&s->t.out);
	enum ff_dtype kind = s->result_type;

#pragma omp parallel for if (pixels * s->t.out.channels > FF_CPU_PARALLEL)
	for (int64_t i = 0; i < pixels; i++) {
		int64_t from, to = pixel_at(&s->t, i, &from);

		if (s->type == FF_F32)
			spread_pixel(FF_F32, FF_F32, s, result, from, bias, out, to);
		else
			FF_REAL_CALL(kind, spread_pixel, FF_BF16, s, result, from, bias, out, to);
	}
}

static void pack(const struct transposed *s, const struct ff_image *image, const void *shard,
		void *dense)
{
	struct ff_strided loops;

	ff_image_loops(image, 1, image->channels, 0, false, &loops);
	ff_strided_copy(&loops, s->type, shard, dense);
}

static const void *dense_in(const struct transposed *s, const struct ff_kernel_io *io)
{
	void *dense = ff_kernel_at(io, s->in);

	if (s->t.in.is_last)
		return io->in[0];
	pack(s, &s->t.in, io->in[0], dense);
	return dense;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transposed *s = k->state;
	void *result = s->is_apart ? ff_kernel_at(io, s->image) : io->out[0];
	int code = FF_OK;

	if (!s->t.is_empty)
		code = ff_filter_data(k, &s->calls, io, dense_in(s, io),
				ff_real_in(s->type, io->in[1], s->t.first_weight), result,
				ff_kernel_at(io, s->order), err);
	if (code == FF_OK && (s->is_apart || s->has_bias || s->t.is_empty))
		spread(s, result,
				s->has_bias ? ff_real_in(s->type, io->in[2], s->t.first_bias)
					    : NULL,
				io->out[0]);
	return code;
}

/* The sums of all channels, of what no element reaches, too. */
static void sum_bias(const struct transposed *s, const struct ff_kernel_io *io)
{
	void *plain = ff_kernel_at(io, s->plain);

	if (s->t.has_others)
		memset(io->din[2], 0, (size_t)s->bias_bytes);
	if (!s->t.out.is_last)
		pack(s, &s->t.out, io->dout[0], plain);
	ff_column_sums(s->type, ff_image_pixels(&s->t.out), s->t.out.channels,
			s->t.out.is_last ? io->dout[0] : plain,
			(float *)io->din[2] + s->t.first_bias);
}

static int run_data(const struct ff_kernel *k, const struct ff_kernel_io *io, const void *dout,
		struct ff_error *err)
{
	const struct transposed *s = k->state;
	void *din = s->t.in.is_last ? io->din[0] : ff_kernel_at(io, s->in);
	struct ff_strided loops;
	int code = ff_filter_forward(k, &s->calls, io, dout,
			ff_real_in(s->type, io->in[1], s->t.first_weight), NULL, din,
			ff_kernel_at(io, s->order), err);

	if (code < 0 || s->t.in.is_last)
		return code;
	ff_image_loops(&s->t.in, 1, s->t.in.channels, 0, true, &loops);
	ff_strided_copy(&loops, s->type, din, io->din[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transposed *s = k->state;
	const void *dout = s->t.box.is_last ? io->dout[0] : ff_kernel_at(io, s->image);
	struct ff_filter_gradient g = {.image = dout,
			.dweight = (float *)io->din[1] + s->t.first_weight,
			.order = ff_kernel_at(io, s->order),
			.wide = ff_kernel_at(io, s->wide)};
	int code = FF_OK;

	if (s->need_weight && s->has_bias)
		sum_bias(s, io);
	if (s->need_weight && (s->t.is_empty || s->t.has_others))
		memset(io->din[1], 0, (size_t)s->weight_bytes);
	if (s->t.is_empty)
		return FF_OK;
	if (!s->t.box.is_last)
		pack(s, &s->t.box, ff_real_in(s->type, io->dout[0], s->t.box_at),
				ff_kernel_at(io, s->image));
	if (s->need_weight) {
		g.dresult = dense_in(s, io);
		code = ff_filter_weight(k, &s->calls, io, &g, err);
	}
	return code < 0 || !s->need_din ? code : run_data(k, io, dout, err);
}

static int prepare_filter(struct ff_kernel *k, const struct ff_work *w, struct transposed *s,
		struct ff_error *err)
{
	const struct ff_filter f = {.type = s->type,
			.image_type = s->result_type,
			.windows = s->t.windows,
			.n = s->t.in.n[0],
			.groups = s->t.groups,
			.c = s->t.out_channels,
			.k = s->t.in_channels};
	int passes = w->pass == FF_FORWARD ? FF_FILTER_DATA
					   : (s->need_weight ? FF_FILTER_WEIGHT : 0) |
							     (s->need_din ? FF_FILTER_FORWARD : 0);

	return s->t.is_empty ? FF_OK : ff_filter_prepare(k, &f, passes, &s->calls, err);
}

static int64_t reserve(struct ff_kernel *k, bool needed, int64_t bytes)
{
	return needed && bytes ? ff_kernel_reserve(k, bytes) : -1;
}

static void reserve_all(struct ff_kernel *k, struct transposed *s, bool backward)
{
	const struct ff_image *out = &s->t.out, *box = &s->t.box, *in = &s->t.in;
	int64_t size = ff_dtype_bytes(s->type);
	int64_t image = ff_image_pixels(box) * box->channels;

	s->image = backward ? reserve(k, !box->is_last, image * size)
			    : reserve(k, s->is_apart, image * ff_dtype_bytes(s->result_type));
	s->plain = reserve(k, backward && s->has_bias && !out->is_last,
			ff_image_pixels(out) * out->channels * size);
	s->in = reserve(k, !in->is_last, ff_image_pixels(in) * in->channels * size);
	s->order = reserve(k, true, s->calls.order_bytes);
	s->wide = reserve(k, true, s->calls.image_bytes + s->calls.result_bytes);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct transposed *s = ff_kernel_state(k, sizeof(*s), err);
	bool backward = w->pass == FF_BACKWARD;
	int code;

	if (!s)
		return FF_E_NOMEM;
	s->type = s->result_type = ff_work_type(w);
	ff_transposed_fill(w, &s->t);
	s->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	s->need_din = backward && w->need_din[0];
	s->need_weight = ff_grads_make(w->grads, true);
	s->weight_bytes = ff_region_volume(&w->in[1]) * FF_F32_BYTES;
	if (s->has_bias)
		s->bias_bytes = ff_region_volume(&w->in[2]) * FF_F32_BYTES;
	if (s->has_bias && !backward)
		s->result_type = FF_F32;
	s->is_apart = !s->t.box.is_last || s->result_type != s->type;
	code = prepare_filter(k, w, s, err);
	if (code < 0)
		return code;
	reserve_all(k, s, backward);
	k->run = backward ? run_backward : run_forward;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_CONV_TRANSPOSE_OPS(PREPARE)
#undef PREPARE
