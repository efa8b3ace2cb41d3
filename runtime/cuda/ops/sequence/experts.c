/* Rows of places in the slots of experts, and back.  SPDX-License-Identifier: Apache-2.0 */
#include "experts.h"

#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct experts {
	enum ff_dtype type;
	bool need_slots, need_shares;
	struct ff_slots s;
};

/* ---- dispatch ---- */

static int run_dispatch(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	cudaError_t code = ff_launch_slot_table(&x->s, io->in[1], io->out[1], queue);

	if (code == cudaSuccess)
		code = ff_launch_fill_slots(
				x->type, &x->s, io->in[1], io->in[0], NULL, io->out[0], queue);
	return ff_kernel_launched(code, k, err);
}

static int run_dispatch_back(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;

	return ff_kernel_launched(ff_launch_add_slots(x->type, &x->s, io->out[1], io->dout[0], NULL,
						  io->din[0], ff_stream_queue(s)),
			k, err);
}

int ff_cuda_dispatch_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct experts *x = ff_kernel_state(k, sizeof(*x), err);

	if (!x)
		return FF_E_NOMEM;
	x->type = ff_work_type(w);
	ff_slots_of_dispatch(w, &x->s);
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_dispatch_back : ff_kernel_run_nothing;
	else
		k->run = run_dispatch;
	return FF_OK;
}

/* ---- combine ---- */

static int run_combine(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	cudaError_t code = ff_launch_slot_table(&x->s, io->in[2], io->out[1], queue);

	if (code == cudaSuccess)
		code = ff_launch_add_slots(x->type, &x->s, io->out[1], io->in[0], io->in[1],
				io->out[0], queue);
	return ff_kernel_launched(code, k, err);
}

static int run_combine_back(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct experts *x = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	cudaError_t code = cudaSuccess;

	if (x->need_slots)
		code = ff_launch_fill_slots(x->type, &x->s, io->in[2], io->dout[0], io->in[1],
				io->din[0], queue);
	if (x->need_shares && code == cudaSuccess)
		code = ff_launch_share_gradients(x->type, &x->s, io->out[1], io->in[0], io->dout[0],
				io->din[1], queue);
	return ff_kernel_launched(code, k, err);
}

int ff_cuda_combine_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct experts *x = ff_kernel_state(k, sizeof(*x), err);

	if (!x)
		return FF_E_NOMEM;
	x->type = ff_work_type(w);
	x->need_slots = w->need_din[0];
	x->need_shares = w->need_din[1];
	ff_slots_of_combine(w, &x->s);
	k->run = w->pass == FF_BACKWARD ? run_combine_back : run_combine;
	return FF_OK;
}
