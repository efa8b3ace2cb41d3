/* Pooling.  The largest keeps where it was for the way back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pool2d.h"
#include "kernel.h"

struct pool2d {
	enum ff_dtype type;
	struct ff_pool pool;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool2d *p = k->state;

	return ff_kernel_launched(ff_launch_pool(p->type, &p->pool, io->in[0], io->out[0],
						  io->out[1], ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool2d *p = k->state;

	return ff_kernel_launched(ff_launch_pool_gradient(p->type, &p->pool, io->dout[0],
						  io->out[1], io->din[0], ff_stream_queue(s)),
			k, err);
}

int ff_cuda_pool2d_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_pool2d_attrs *a = &w->node->attrs.pool2d;
	const struct ff_region *out = &w->out[0], *in = &w->in[0];
	struct pool2d *p = ff_kernel_state(k, sizeof(*p), err);

	if (!p)
		return FF_E_NOMEM;
	p->type = ff_work_type(w);
	p->pool = (struct ff_pool){.n = ff_region_size(out, 0),
			.c = ff_region_size(out, 1),
			.mean = a->mode == FF_POOL_AVG,
			.wide = w->node->n_saved && w->node->out_map[1].dtype == FF_I32};
	for (uint32_t i = 0; i < 2; i++) {
		p->pool.in[i] = ff_region_size(in, 2 + i);
		p->pool.out[i] = ff_region_size(out, 2 + i);
		p->pool.kernel[i] = a->kernel[i];
		p->pool.stride[i] = a->stride[i];
		p->pool.pad[i] = in->lo[2 + i] - (out->lo[2 + i] * a->stride[i] - a->pad[i]);
	}
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
