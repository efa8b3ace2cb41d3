/* Local response normalisation.  SPDX-License-Identifier: Apache-2.0 */
#include "local_response_norm.h"

#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct response {
	enum ff_dtype type;
	struct ff_response r;
	int64_t shares;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct response *p = k->state;

	return ff_kernel_launched(ff_launch_response(p->type, &p->r, io->in[0], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct response *p = k->state;
	float *shares = ff_kernel_at(io, p->shares);
	int code = ff_kernel_launched(ff_launch_response_shares(p->type, &p->r, io->in[0],
						      io->dout[0], shares, ff_stream_queue(s)),
			k, err);

	return code < 0 ? code
			: ff_kernel_launched(
					  ff_launch_response_gradient(p->type, &p->r, io->in[0],
							  shares, io->din[0], ff_stream_queue(s)),
					  k, err);
}

int ff_cuda_local_response_norm_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct response *p = ff_kernel_state(k, sizeof(*p), err);

	if (!p)
		return FF_E_NOMEM;
	p->type = ff_work_type(w);
	ff_response_fill(w, &p->r);
	k->run = run_forward;
	if (w->pass == FF_FORWARD)
		return FF_OK;
	k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	if (w->need_din[0])
		p->shares = ff_kernel_reserve(k, p->r.positions * p->r.out_n * 2 * FF_F32_BYTES);
	return FF_OK;
}
