/* Pooling.  The largest keeps where it was for the way back; means are linear.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include "cuda/core/kernel.h"
#include "resample.h"

#define FF_RESAMPLE_FN static inline
#include "cuda/core/stream.h"
#include "kernels/resample.h"

struct pool {
	enum ff_dtype type;
	struct ff_pool pool;
};

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool *p = k->state;

	return ff_kernel_launched(ff_launch_pool(p->type, &p->pool, io->in[0], io->out[0],
						  io->out[1], ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool *p = k->state;

	return ff_kernel_launched(ff_launch_pool_gradient(p->type, &p->pool, io->dout[0],
						  io->out[1], io->din[0], ff_stream_queue(s)),
			k, err);
}

static int prepare_largest(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct pool *p = ff_kernel_state(k, sizeof(*p), err);

	if (!p)
		return FF_E_NOMEM;
	p->type = ff_work_type(w);
	p->pool.wide = w->node->out_map[1].dtype == FF_I32;
	ff_image_planes(&w->node->in_map[0], &w->in[0], &p->pool.n, &p->pool.c);
	ff_windows_fill(w, &p->pool.windows);
	k->run = w->pass == FF_FORWARD ? run_forward
		 : w->need_din[0]      ? run_backward
				       : ff_kernel_run_nothing;
	return FF_OK;
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct ff_resample r;

	if (w->node->attrs.pool.mode == FF_POOL_MAX)
		return prepare_largest(k, w, err);
	ff_resample_pool(w, &r);
	return ff_cuda_resample(k, w, &r, err);
}

#define PREPARE(e, row)                                                                            \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, err);                                                         \
	}
FF_POOL_OPS(PREPARE)
#undef PREPARE
