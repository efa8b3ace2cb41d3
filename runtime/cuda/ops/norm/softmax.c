/* Softmax along an axis, its logarithm, and their preludes.  Where a part has all of the axis
 * forward is the node's and backward the prelude's; what is exchanged elsewhere is zero.
 * SPDX-License-Identifier: Apache-2.0 */
#include "softmax.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct softmax {
	enum ff_dtype type; /* of x and y; statistics and their gradient are float32 */
	struct ff_soft rows;
};

static int clear(const struct ff_kernel *k, float *pairs, cudaStream_t queue, struct ff_error *err)
{
	const struct softmax *f = k->state;
	size_t bytes = (size_t)(2 * f->rows.rows) * sizeof(*pairs);

	return ff_kernel_launched(cudaMemsetAsync(pairs, 0, bytes, queue), k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct softmax *f = k->state;

	return ff_kernel_launched(ff_launch_softmax(f->type, &f->rows, io->in[0],
						  f->rows.all ? NULL : io->in[1], io->out[0],
						  ff_stream_queue(s)),
			k, err);
}

static int run_statistics(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct softmax *f = k->state;
	cudaStream_t queue = ff_stream_queue(s);

	if (f->rows.all)
		return clear(k, io->out[0], queue, err);
	return ff_kernel_launched(
			ff_launch_soft_statistics(f->type, &f->rows, io->in[0], io->out[0], queue),
			k, err);
}

static int run_share(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct softmax *f = k->state;
	cudaStream_t queue = ff_stream_queue(s);

	if (f->rows.all)
		return clear(k, io->din[1], queue, err);
	return ff_kernel_launched(ff_launch_soft_share(f->type, &f->rows, io->in[0], io->in[1],
						  io->dout[0], io->din[1], queue),
			k, err);
}

static int run_slope(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct softmax *f = k->state;

	return ff_kernel_launched(ff_launch_soft_slope(f->type, &f->rows, io->in[0],
						  f->rows.all ? NULL : io->dout[0], io->din[0],
						  ff_stream_queue(s)),
			k, err);
}

static struct softmax *prepare(struct ff_kernel *k, const struct ff_work *w, bool log,
		const struct ff_operand *pairs, const struct ff_region *region,
		struct ff_error *err)
{
	struct softmax *f = ff_kernel_state(k, sizeof(*f), err);

	if (!f)
		return NULL;
	f->type = w->node->in_map[0].dtype;
	ff_soft_fill(w, log, pairs, region, &f->rows);
	return f;
}

static int prepare_node(
		struct ff_kernel *k, const struct ff_work *w, bool log, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? run_forward
		 : w->need_din[1]      ? run_share
				       : ff_kernel_run_nothing;
	return prepare(k, w, log, &w->node->in_map[1], &w->in[1], err) ? FF_OK : FF_E_NOMEM;
}

static int prepare_prelude(
		struct ff_kernel *k, const struct ff_work *w, bool log, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? run_statistics
		 : w->need_din[0]      ? run_slope
				       : ff_kernel_run_nothing;
	return prepare(k, w, log, &w->node->out_map[0], &w->out[0], err) ? FF_OK : FF_E_NOMEM;
}

#define PREPARE(row, prelude, log)                                                                 \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare_node(k, w, log, err);                                               \
	}                                                                                          \
	int ff_cuda_##prelude##_prepare(                                                           \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare_prelude(k, w, log, err);                                            \
	}
PREPARE(softmax, soft_statistics, false)
PREPARE(log_softmax, log_soft_statistics, true)
#undef PREPARE
