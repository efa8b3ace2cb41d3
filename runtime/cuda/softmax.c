/* Softmax along an axis, and its logarithm.  SPDX-License-Identifier: Apache-2.0 */
#include "softmax.h"
#include "kernel.h"

struct softmax {
	enum ff_dtype type;
	struct ff_soft rows;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct softmax *f = k->state;

	return ff_kernel_launched(ff_launch_softmax(f->type, &f->rows, io->in[0], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct softmax *f = k->state;

	return ff_kernel_launched(ff_launch_softmax_gradient(f->type, &f->rows, io->out[0],
						  io->dout[0], io->din[0], ff_stream_queue(s)),
			k, err);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, bool log, struct ff_error *err)
{
	uint32_t axis = (uint32_t)w->node->attrs.softmax.axis;
	struct softmax *f = ff_kernel_state(k, sizeof(*f), err);
	int64_t stride[FF_MAX_RANK];

	if (!f)
		return FF_E_NOMEM;
	ff_region_strides(w->node->out_map[0].order, &w->out[0], stride);
	f->type = ff_work_type(w);
	f->rows = (struct ff_soft){.length = ff_region_size(&w->out[0], axis),
			.inner = stride[axis],
			.log = log};
	f->rows.rows = ff_region_volume(&w->out[0]) / f->rows.length;
	if (w->pass == FF_FORWARD)
		k->run = run_forward;
	else
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}

int ff_cuda_softmax_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, false, err);
}

int ff_cuda_log_softmax_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, true, err);
}
