/* Convolutions of one tap are products of matrices: pixels x channels, one for each group, beside
 * each other.  cuBLASLt writes float32 gradients of weights from bfloat16, which cuDNN does not,
 * and all that it has is deterministic and exact; so only bfloat16 forward without groups is left
 * to cuDNN.  Windows that skip pixels have these gathered first, and their gradient scattered.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#include <string.h>

#include "cuda/core/copy.h"
#include "cuda/core/rows.h"
#include "cuda/core/stream.h"
#include "cuda/libs/blas.h"
#include "kernels/windows.h"

#define VECTOR_BYTES 16

struct pointwise {
	enum ff_dtype type;                                /* gradients of parameters are float32 */
	int64_t pixels, groups, in_channels, out_channels; /* of each group */
	bool has_bias, need_din, need_weight;
	bool gathers; /* the pixels that windows meet are not one matrix where they are */
	bool skips;   /* some are met by no window */
	bool sum_columns;
	struct ff_strided loops; /* from the shard to the matrix */
	int64_t rows, sums;      /* workspace */
	size_t in_bytes;
	struct ff_product *forward, *data, *weight;
};

static void finish(struct ff_kernel *k)
{
	struct pointwise *p = k->state;

	ff_product_destroy(p->forward);
	ff_product_destroy(p->data);
	ff_product_destroy(p->weight);
}

/* ---- running ---- */

static int gather(const struct ff_kernel *k, const struct ff_kernel_io *io, cudaStream_t queue,
		const void **ret, struct ff_error *err)
{
	const struct pointwise *p = k->state;
	void *rows = ff_kernel_at(io, p->rows);

	*ret = p->gathers ? rows : io->in[0];
	if (!p->gathers)
		return FF_OK;
	return ff_kernel_launched(
			ff_cuda_strided(&p->loops, p->type, io->in[0], rows, queue), k, err);
}

static int scatter(const struct ff_kernel *k, const struct ff_kernel_io *io, cudaStream_t queue,
		struct ff_error *err)
{
	const struct pointwise *p = k->state;
	struct ff_strided back = p->loops;
	int code = FF_OK;

	memcpy(back.source, p->loops.sink, sizeof(back.source));
	memcpy(back.sink, p->loops.source, sizeof(back.sink));
	if (p->skips)
		code = ff_kernel_launched(
				cudaMemsetAsync(io->din[0], 0, p->in_bytes, queue), k, err);
	if (code < 0)
		return code;
	return ff_kernel_launched(ff_cuda_strided(&back, p->type, ff_kernel_at(io, p->rows),
						  io->din[0], queue),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pointwise *p = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	const void *rows;
	int code = gather(k, io, queue, &rows, err);

	return code < 0 ? code
			: ff_product_run(k, p->forward, queue, rows, io->in[1],
					  p->has_bias ? io->in[2] : NULL, io->out[0],
					  ff_kernel_scratch(k, io), err);
}

static int run_weight(const struct ff_kernel *k, const struct ff_kernel_io *io, cudaStream_t queue,
		struct ff_error *err)
{
	const struct pointwise *p = k->state;
	const void *rows;
	int code = gather(k, io, queue, &rows, err);

	if (code == FF_OK)
		code = ff_product_run(k, p->weight, queue, io->dout[0], rows,
				p->has_bias ? io->din[2] : NULL, io->din[1],
				ff_kernel_scratch(k, io), err);
	if (code < 0 || !p->sum_columns)
		return code;
	return ff_kernel_launched(
			ff_launch_columns(p->type, p->pixels, p->groups * p->out_channels,
					io->dout[0], io->din[2], ff_kernel_at(io, p->sums), queue),
			k, err);
}

/* The room of gathered pixels serves both gradients: they run one after the other. */
static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pointwise *p = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int code = p->need_weight ? run_weight(k, io, queue, err) : FF_OK;

	if (code < 0 || !p->need_din)
		return code;
	code = ff_product_run(k, p->data, queue, io->dout[0], io->in[1], NULL,
			p->gathers ? ff_kernel_at(io, p->rows) : io->din[0],
			ff_kernel_scratch(k, io), err);
	return code < 0 || !p->gathers ? code : scatter(k, io, queue, err);
}

/* Sums of columns that come with the product are written. */
static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct pointwise *p = k->state;

	(void)err;
	*ret = input == 1 || (input == 0 && !p->gathers);
	if (*ret)
		ff_product_add(input == 1 ? p->weight : p->data);
	return FF_OK;
}

/* ---- preparing ---- */

/* Rows of a group's matrices begin where vectors may, or it is the only one. */
static bool is_even(const struct ff_band *b, enum ff_dtype type)
{
	int64_t each = VECTOR_BYTES / ff_dtype_bytes(type);

	return b->groups == 1 || (b->c % each == 0 && b->k % each == 0);
}

static bool is_pointwise(const struct ff_work *w, const struct ff_windows *v,
		const struct ff_image *in, const struct ff_image *out, struct ff_band *band)
{
	struct ff_bands all;
	bool is;

	ff_bands_fill(w, in, out, &all);
	*band = all.band[0];
	is = all.n == 1 && all.cover && !band->pack_out && ff_image_pixels(out) > 0 &&
	     is_even(band, ff_work_type(w));
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		is = is && v->kernel[i] == 1 && v->pad[0][i] == 0 && v->pad[1][i] <= 0;
	return is;
}

static void fill(const struct ff_work *w, const struct ff_windows *v, const struct ff_image *in,
		const struct ff_image *out, const struct ff_band *band, struct pointwise *p)
{
	p->type = ff_work_type(w);
	p->pixels = ff_image_pixels(out);
	p->groups = band->groups;
	p->in_channels = band->c;
	p->out_channels = band->k;
	p->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	p->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	p->need_weight = ff_grads_make(w->grads, true);
	p->skips = ff_image_pixels(in) != p->pixels;
	p->gathers = p->skips || !in->is_last;
	p->in_bytes = (size_t)(ff_region_volume(&w->in[0]) * ff_dtype_bytes(p->type));
	ff_image_loops(in, 1, in->channels, 0, false, &p->loops);
	ff_image_loops_into(v->out, &p->loops);
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		p->loops.n[1 + i] = v->out[i];
		p->loops.source[1 + i] *= v->stride[i];
	}
}

static int prepare_forward(struct ff_kernel *k, struct pointwise *p, struct ff_error *err)
{
	const bool beside = p->groups > 1;
	const struct ff_product_shape s = {.rows = p->pixels,
			.inner = p->in_channels,
			.columns = p->out_channels,
			.batch = beside ? p->groups : 0,
			.a_beside = beside,
			.c_beside = beside,
			.b_transposed = true,
			.has_bias = p->has_bias,
			.epilogue = k->epilogue,
			.type = p->type,
			.sink = p->type};

	k->run = run_forward;
	return ff_product_create(k, &s, &p->forward, err);
}

static int prepare_backward(struct ff_kernel *k, struct pointwise *p, struct ff_error *err)
{
	const bool beside = p->groups > 1;
	const struct ff_product_shape weight = {.rows = p->out_channels,
			.inner = p->pixels,
			.columns = p->in_channels,
			.batch = beside ? p->groups : 0,
			.a_beside = beside,
			.b_beside = beside,
			.a_transposed = true,
			.gives_sums = p->has_bias && !beside,
			.type = p->type,
			.sink = FF_F32};
	const struct ff_product_shape data = {.rows = p->pixels,
			.inner = p->out_channels,
			.columns = p->in_channels,
			.batch = beside ? p->groups : 0,
			.a_beside = beside,
			.c_beside = beside,
			.type = p->type,
			.sink = p->type};
	int code = FF_OK;

	k->run = run_backward;
	k->add = add;
	if (p->need_weight)
		code = ff_product_create(k, &weight, &p->weight, err);
	if (code < 0)
		return code;
	p->sum_columns = p->need_weight && p->has_bias && !ff_product_gives_sums(p->weight);
	if (p->sum_columns)
		p->sums = ff_kernel_reserve(
				k, ff_column_scratch(p->pixels, p->groups * p->out_channels));
	return p->need_din ? ff_product_create(k, &data, &p->data, err) : FF_OK;
}

int ff_pointwise_prepare(
		struct ff_kernel *k, const struct ff_work *w, bool *ret, struct ff_error *err)
{
	bool forward = w->pass == FF_FORWARD;
	struct ff_image in, out;
	struct ff_windows v;
	struct ff_band band;
	struct pointwise *p;

	ff_image_fill(&w->node->in_map[0], &w->in[0], &in);
	ff_image_fill(&w->node->out_map[0], &w->out[0], &out);
	ff_windows_fill(w, &v);
	*ret = is_pointwise(w, &v, &in, &out, &band) &&
	       !(forward && w->node->attrs.conv.groups == 1 && ff_work_type(w) != FF_F32);
	if (!*ret)
		return FF_OK;
	p = ff_kernel_state(k, sizeof(*p), err);
	if (!p)
		return FF_E_NOMEM;
	k->finish = finish;
	fill(w, &v, &in, &out, &band, p);
	if (p->gathers)
		p->rows = ff_kernel_reserve(k,
				p->pixels * p->groups * p->in_channels * ff_dtype_bytes(p->type));
	return forward ? prepare_forward(k, p, err) : prepare_backward(k, p, err);
}
