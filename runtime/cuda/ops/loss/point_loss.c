/* Losses that compare each element with a target's, as runtime/cpu/ops/loss/point_loss.c has them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "point_loss.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct point_loss {
	enum ff_dtype type; /* of what is read and of the gradient */
	struct ff_points points;
	int64_t shares; /* where they are in the workspace */
};

static int explain_count(const struct ff_kernel *k, struct ff_error *err)
{
	return ff_fail(err, FF_E_RUN, "%s: has %lld targets that count, but the whole batch fewer",
			k->name, (long long)k->device_error->count);
}

static struct ff_points points_of(const struct point_loss *l, const struct ff_kernel_io *io)
{
	struct ff_points p = l->points;

	p.valid = io->valid;
	p.figures = io->figures;
	p.loss = io->loss;
	return p;
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct point_loss *l = k->state;
	const struct ff_points p = points_of(l, io);

	return ff_kernel_launched(ff_launch_points(l->type, &p, io->in[0], io->in[1],
						  ff_kernel_at(io, l->shares), io->out[0],
						  k->device_error, ff_stream_queue(s)),
			k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct point_loss *l = k->state;
	const struct ff_points p = points_of(l, io);

	return ff_kernel_launched(ff_launch_points_gradient(l->type, &p, io->in[0], io->in[1],
						  io->din[0], ff_stream_queue(s)),
			k, err);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_point_loss function,
		struct ff_error *err)
{
	struct point_loss *l = ff_kernel_state(k, sizeof(*l), err);

	if (!l)
		return FF_E_NOMEM;
	l->type = w->node->in_map[0].dtype;
	l->points.n = ff_region_volume(&w->in[0]);
	l->points.weight = (float)w->node->attrs.loss.weight;
	l->points.function = (int32_t)function;
	l->points.labels = w->node->in_map[1].dtype == FF_I32;
	l->points.ignore = w->node->attrs.loss.ignore;
	ff_loops_alike(w, &l->points.loops);
	if (w->pass == FF_BACKWARD) {
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
		return FF_OK;
	}
	l->shares = ff_kernel_reserve(k, ff_points_scratch(l->points.n));
	k->run = run_forward;
	return ff_kernel_reports(k, explain_count, err);
}

#define PREPARE(name, loss, slope, right)                                                          \
	int ff_cuda_##name##_prepare(                                                              \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, FF_POINT_LOSS_##name, err);                                   \
	}
FF_POINT_LOSSES(PREPARE)
#undef PREPARE
