/* Sums, means and maxima along axes.  SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"
#include "kernel.h"

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

static int run_backward_max(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct reduce *r = k->state;

	return ff_kernel_launched(ff_launch_spread(r->type, &r->f.loops, io->in[0], io->out[0],
						  io->dout[0], io->din[0], ff_stream_queue(s)),
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

int ff_cuda_reduce_max_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct reduce *r = prepare(k, w, 1, err);

	if (!r)
		return FF_E_NOMEM;
	r->f.largest = 1;
	if (w->pass == FF_FORWARD)
		return FF_OK;
	ff_loops_reduce(w, false, &r->f.loops);
	k->run = w->need_din[0] ? run_backward_max : ff_kernel_run_nothing;
	return FF_OK;
}
