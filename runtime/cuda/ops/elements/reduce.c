/* Sums, means and maxima along axes.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "fold.h"

struct reduce {
	enum ff_dtype type;
	struct ff_folding f;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = io->in[0]};

	return ff_kernel_launched(ff_launch_fold(&r->f, r->type, r->type, read, io->out[0],
						  ff_kernel_scratch(k, io), ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_Z] = io->dout[0]};

	return ff_kernel_launched(ff_launch_fold(&r->f, r->type, r->type, read, io->din[0],
						  ff_kernel_scratch(k, io), ff_stream_queue(s)),
			k, err);
}

static struct reduce *prepare(
		struct ff_kernel *k, const struct ff_work *w, float scale, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct reduce *r = ff_kernel_state(k, sizeof(*r), err);

	if (!r)
		return NULL;
	r->type = ff_work_type(w);
	r->f = (struct ff_folding){.function = FF_BINARY_first,
			.part = backward ? FF_BINARY_DX : FF_BINARY_Z,
			.scale = scale};
	ff_loops_reduce(w, backward, &r->f.loops);
	ff_kernel_need(k, ff_fold_scratch(&r->f));
	k->run = !backward ? run_forward : w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return r;
}

int ff_cuda_reduce_sum_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, 1, err) ? FF_OK : FF_E_NOMEM;
}

int ff_cuda_reduce_mean_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	float share = 1 / (float)ff_reduce_count(w->node);

	return prepare(k, w, share, err) ? FF_OK : FF_E_NOMEM;
}

/* ---- the largest ---- */

/* What its prelude finds, an element of the output at a time: the largest, then how many. */
struct ties {
	enum ff_dtype type;
	struct ff_folding largest, equal;
	int64_t elements, most, count; /* where both lie in the workspace */
};

static int run_statistics(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ties *t = k->state;
	const void *const read[FF_LOOP_READ] = {io->in[0], ff_kernel_at(io, t->most)};
	const void *const first[FF_LOOP_READ] = {io->in[0]};
	void *most = ff_kernel_at(io, t->most), *scratch = ff_kernel_scratch(k, io);
	float *count = ff_kernel_at(io, t->count);
	cudaStream_t queue = ff_stream_queue(s);
	cudaError_t code;

	code = ff_launch_fold(&t->largest, t->type, t->type, first, most, scratch, queue);
	if (code == cudaSuccess)
		code = ff_launch_fold(&t->equal, t->type, FF_F32, read, count, scratch, queue);
	if (code == cudaSuccess)
		code = ff_launch_pair(t->type, most, count, io->out[0], t->elements, queue);
	return ff_kernel_launched(code, k, err);
}

int ff_cuda_max_statistics_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ties *t = ff_kernel_state(k, sizeof(*t), err);

	if (!t)
		return FF_E_NOMEM;
	t->type = w->node->in_map[0].dtype;
	t->elements = ff_region_volume(&w->out[0]) / 2;
	t->most = ff_kernel_reserve(k, t->elements * (int64_t)sizeof(float));
	t->count = ff_kernel_reserve(k, t->elements * (int64_t)sizeof(float));
	t->largest = (struct ff_folding){
			.function = FF_BINARY_first, .part = FF_BINARY_Z, .largest = 1, .scale = 1};
	ff_loops_statistics(w, &t->largest.loops);
	t->equal = t->largest;
	t->equal.function = FF_BINARY_equal;
	t->equal.largest = 0;
	ff_kernel_need(k, ff_fold_scratch(&t->largest));
	k->run = run_statistics;
	return FF_OK;
}

static int run_largest(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = io->in[1]};

	return ff_kernel_launched(ff_launch_fold(&r->f, FF_F32, r->type, read, io->out[0], NULL,
						  ff_stream_queue(s)),
			k, err);
}

static int run_spread(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct reduce *r = k->state;

	return ff_kernel_launched(ff_launch_spread(r->type, &r->f.loops, io->in[0], io->in[1],
						  io->dout[0], io->din[0], ff_stream_queue(s)),
			k, err);
}

int ff_cuda_reduce_max_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct reduce *r = ff_kernel_state(k, sizeof(*r), err);

	if (!r)
		return FF_E_NOMEM;
	r->type = ff_work_type(w);
	r->f = (struct ff_folding){.function = FF_BINARY_first, .part = FF_BINARY_Z, .scale = 1};
	ff_loops_largest(w, backward, &r->f.loops);
	k->run = !backward ? run_largest : w->need_din[0] ? run_spread : ff_kernel_run_nothing;
	return FF_OK;
}
