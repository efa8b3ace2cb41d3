/* Operators that only move elements: concat, split, slice, transpose, reshape.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/reshape.h"
#include "cuda/core/stream.h"
#include "kernels/indices.h"
#include "pieces.h"

#define WIDEST 16 /* bytes that a thread moves */

/* ---- concat and split: one side whole, the other in pieces ---- */

struct pieces {
	enum ff_dtype type;
	uint32_t n;
	int64_t rows, inner, step; /* elements of the whole: of axes before, behind; of a row */
	struct ff_region whole;
	struct {
		int64_t at, width; /* elements of each row; 0: there are none */
		bool wanted;
	} piece[];
};

/* Whether units of twice the size serve as well. */
static bool can_widen(const struct ff_pieces *p, int64_t bytes)
{
	uint64_t odd = (uint64_t)p->step | (uint64_t)(uintptr_t)p->whole / (uint64_t)bytes;

	for (int64_t i = 0; i < p->n; i++)
		odd |= (uint64_t)p->width[i] | (uint64_t)p->at[i] |
		       (uint64_t)(uintptr_t)p->piece[i] / (uint64_t)bytes;
	return odd % 2 == 0;
}

static cudaError_t launch(struct ff_pieces *p, int64_t bytes, cudaStream_t queue)
{
	while (bytes < WIDEST && can_widen(p, bytes)) {
		p->step /= 2;
		for (int64_t i = 0; i < p->n; i++) {
			p->width[i] /= 2;
			p->at[i] /= 2;
		}
		bytes *= 2;
	}
	return p->n && p->rows ? ff_launch_pieces(p, bytes, queue) : cudaSuccess;
}

/* The whole from its pieces, or those that are wanted from the whole. */
static int copy_pieces(const struct ff_kernel *k, struct ff_stream *s, const void *whole,
		void *const *piece, bool joins, struct ff_error *err)
{
	const struct pieces *p = k->state;
	cudaError_t code = cudaSuccess;

	for (uint32_t i = 0; i < p->n && code == cudaSuccess;) {
		struct ff_pieces some = {.rows = p->rows,
				.step = p->step,
				.whole = (void *)(uintptr_t)whole,
				.joins = joins};

		for (; i < p->n && some.n < FF_MOST_PIECES; i++) {
			if (!p->piece[i].width || !(joins || p->piece[i].wanted))
				continue;
			some.piece[some.n] = piece[i];
			some.at[some.n] = p->piece[i].at;
			some.width[some.n++] = p->piece[i].width;
		}
		code = launch(&some, ff_dtype_bytes(p->type), ff_stream_queue(s));
	}
	return ff_kernel_launched(code, k, err);
}

static int join(const struct ff_kernel *k, struct ff_stream *s, const void *const *piece,
		void *whole, struct ff_error *err)
{
	return copy_pieces(k, s, whole, (void *const *)(uintptr_t)piece, true, err);
}

static int part(const struct ff_kernel *k, struct ff_stream *s, const void *whole,
		void *const *piece, struct ff_error *err)
{
	return copy_pieces(k, s, whole, piece, false, err);
}

static int concat(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	return join(k, s, io->in, io->out[0], err);
}

static int concat_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	return part(k, s, io->dout[0], io->din, err);
}

static int split(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	return part(k, s, io->in[0], io->out, err);
}

static int split_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	return join(k, s, io->dout, io->din[0], err);
}

static struct pieces *prepare_pieces(struct ff_kernel *k, const struct ff_work *w, uint32_t n,
		const struct ff_operand *whole, const struct ff_region *region, uint32_t axis,
		struct ff_error *err)
{
	struct pieces *p = ff_kernel_state(k, sizeof(*p) + n * sizeof(p->piece[0]), err);
	int64_t strides[FF_MAX_RANK];

	if (!p)
		return NULL;
	ff_region_strides(whole->order, region, strides);
	p->type = ff_work_type(w);
	p->n = n;
	p->whole = *region;
	p->inner = strides[axis];
	p->step = ff_region_size(region, axis) * p->inner;
	p->rows = p->step ? ff_region_volume(region) / p->step : 0;
	return p;
}

/* Where a piece is in the whole: its region, in the whole's coordinates, `offset` further on. */
static void place(struct pieces *p, uint32_t i, const struct ff_region *r, uint32_t axis,
		int32_t offset, bool wanted)
{
	p->piece[i].at = (r->lo[axis] + offset - p->whole.lo[axis]) * p->inner;
	p->piece[i].width = ff_region_volume(r) ? ff_region_size(r, axis) * p->inner : 0;
	p->piece[i].wanted = wanted;
}

int ff_cuda_concat_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	uint32_t axis = (uint32_t)n->attrs.concat.axis;
	struct pieces *p = prepare_pieces(k, w, n->n_in, &n->out_map[0], &w->out[0], axis, err);
	int32_t offset = 0;

	if (!p)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < n->n_in; i++) {
		place(p, i, &w->in[i], axis, offset, w->need_din[i]);
		offset += n->in_map[i].shape[axis];
	}
	k->run = w->pass == FF_FORWARD ? concat : concat_backward;
	return FF_OK;
}

int ff_cuda_split_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	uint32_t axis = (uint32_t)n->attrs.split.axis;
	struct pieces *p = prepare_pieces(k, w, n->n_out, &n->in_map[0], &w->in[0], axis, err);

	if (!p)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < n->n_out; i++)
		place(p, i, &w->out[i], axis, (int32_t)i * n->out_map[i].shape[axis], true);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? split_backward : ff_kernel_run_nothing;
	else
		k->run = split;
	return FF_OK;
}

/* ---- slice and transpose: one strided copy ---- */

struct loops {
	enum ff_dtype type;
	struct ff_strided copy;
	int64_t gaps; /* elements of a gradient that has some; or 0 */
};

static int copy_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loops *l = k->state;

	return ff_kernel_launched(ff_cuda_strided(&l->copy, l->type, io->in[0], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int copy_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loops *l = k->state;

	return ff_kernel_launched(ff_cuda_strided(&l->copy, l->type, io->dout[0], io->din[0],
						  ff_stream_queue(s)),
			k, err);
}

static struct loops *prepare_loops(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct loops *l = ff_kernel_state(k, sizeof(*l), err);

	if (!l)
		return NULL;
	l->type = ff_work_type(w);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? copy_backward : ff_kernel_run_nothing;
	else
		k->run = copy_forward;
	return l;
}

/* Of every so many elements those between have no gradient. */
static int slice_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loops *l = k->state;
	int code = FF_OK;

	if (l->gaps)
		code = ff_cuda_fill(s, io->din[0], l->type, l->gaps, 0, err);
	return code < 0 ? code : copy_backward(k, s, io, err);
}

int ff_cuda_slice_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct loops *l = prepare_loops(k, w, err);

	if (!l)
		return FF_E_NOMEM;
	ff_strided_slice(w, &l->copy);
	if (ff_region_volume(&w->in[0]) > ff_region_volume(&w->out[0]))
		l->gaps = ff_region_volume(&w->in[0]);
	if (w->pass == FF_BACKWARD && w->need_din[0])
		k->run = slice_backward;
	return FF_OK;
}

int ff_cuda_transpose_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_node *n = w->node;
	const struct ff_transpose_attrs *a = &n->attrs.transpose;
	struct loops *l = prepare_loops(k, w, err);
	int64_t in[FF_MAX_RANK], out[FF_MAX_RANK];
	bool back = w->pass == FF_BACKWARD;

	if (!l)
		return FF_E_NOMEM;
	ff_region_strides(n->in_map[0].order, &w->in[0], in);
	ff_region_strides(n->out_map[0].order, &w->out[0], out);
	l->copy.rank = w->out[0].rank;
	for (uint32_t i = 0; i < l->copy.rank; i++) {
		l->copy.n[i] = ff_region_size(&w->out[0], i);
		l->copy.source[i] = back ? out[i] : in[a->perm[i]];
		l->copy.sink[i] = back ? in[a->perm[i]] : out[i];
	}
	return FF_OK;
}

/* ---- reshape: elements of equal row-major index ---- */

struct reshape {
	enum ff_dtype type;
	struct ff_reshape_side in, out;
	int64_t run; /* elements, where both sides are one run of the tensor's; else 0 */
};

static int reshape(const struct ff_kernel *k, struct ff_stream *s, const void *from, void *to,
		bool back, struct ff_error *err)
{
	const struct reshape *r = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	cudaError_t code;

	if (r->run)
		code = ff_cuda_run_of(r->type, from, to, r->run, queue);
	else
		code = ff_launch_reshape(back ? &r->out : &r->in, back ? &r->in : &r->out,
				ff_dtype_bytes(r->type), from, to, queue);
	return ff_kernel_launched(code, k, err);
}

static int reshape_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	return reshape(k, s, io->in[0], io->out[0], false, err);
}

static int reshape_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	return reshape(k, s, io->dout[0], io->din[0], true, err);
}

static void fill_side(const struct ff_operand *o, const struct ff_region *region,
		struct ff_reshape_side *ret)
{
	int64_t step = 1;

	ret->rank = o->rank;
	ff_region_strides(o->order, region, ret->stride);
	for (uint32_t i = o->rank; i-- > 0;) {
		ret->lo[i] = region->lo[i];
		ret->n[i] = ff_region_size(region, i);
		ret->index[i] = step;
		ret->order[i] = o->order[i];
		step *= o->shape[i];
	}
}

/* Stored row-major and cut along axis 0 at most: where its elements are in the tensor. */
static bool is_run(const struct ff_operand *o, const struct ff_region *r, int64_t *first)
{
	int64_t step = 1;

	for (uint32_t i = 0; i < o->rank; i++) {
		if (o->order[i] != i || (i && ff_region_size(r, i) != o->shape[i]))
			return false;
		step *= i ? o->shape[i] : 1;
	}
	*first = r->lo[0] * step;
	return true;
}

int ff_cuda_reshape_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_operand *in = &w->node->in_map[0], *out = &w->node->out_map[0];
	struct reshape *r = ff_kernel_state(k, sizeof(*r), err);
	int64_t from = 0, to = 0, n = ff_region_volume(&w->out[0]);

	if (!r)
		return FF_E_NOMEM;
	r->type = ff_work_type(w);
	fill_side(in, &w->in[0], &r->in);
	fill_side(out, &w->out[0], &r->out);
	if (is_run(in, &w->in[0], &from) && is_run(out, &w->out[0], &to) && from == to &&
			ff_region_volume(&w->in[0]) == n)
		r->run = n;
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? reshape_backward : ff_kernel_run_nothing;
	else
		k->run = reshape_forward;
	return FF_OK;
}
