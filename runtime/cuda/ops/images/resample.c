/* What is linear along every axis of images.  SPDX-License-Identifier: Apache-2.0 */
#include "resample.h"

#define FF_RESAMPLE_FN static inline
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "kernels/resample.h"

struct resample {
	enum ff_dtype type;
	struct ff_resample map;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct resample *r = k->state;

	return ff_kernel_launched(ff_launch_resample(r->type, &r->map, io->in[0], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct resample *r = k->state;

	return ff_kernel_launched(ff_launch_resample_gradient(r->type, &r->map, io->dout[0],
						  io->din[0], ff_stream_queue(s)),
			k, err);
}

int ff_cuda_resample(struct ff_kernel *k, const struct ff_work *w, const struct ff_resample *r,
		struct ff_error *err)
{
	struct resample *state = ff_kernel_state(k, sizeof(*state), err);

	if (!state)
		return FF_E_NOMEM;
	state->type = ff_work_type(w);
	state->map = *r;
	k->run = w->pass == FF_FORWARD ? run_forward
		 : w->need_din[0]      ? run_backward
				       : ff_kernel_run_nothing;
	return FF_OK;
}
