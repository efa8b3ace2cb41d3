/* Broadcasts to a shape, and sums over where each element went.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "fold.h"

struct expand {
	enum ff_dtype type, sink;
	struct ff_folding f;
};

static int fold(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		const void *const read[FF_LOOP_READ], void *sink, struct ff_error *err)
{
	const struct expand *e = k->state;

	return ff_kernel_launched(ff_launch_fold(&e->f, e->type, e->sink, read, sink,
						  ff_kernel_scratch(k, io), ff_stream_queue(s)),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = io->in[0]};

	return fold(k, s, io, read, io->out[0], err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_Z] = io->dout[0]};

	return fold(k, s, io, read, io->din[0], err);
}

int ff_cuda_expand_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct expand *e = ff_kernel_state(k, sizeof(*e), err);

	if (!e)
		return FF_E_NOMEM;
	e->type = ff_work_type(w);
	e->sink = backward ? (enum ff_dtype)w->node->in_map[0].gradient : e->type;
	e->f = (struct ff_folding){.function = FF_BINARY_first,
			.part = backward ? FF_BINARY_DX : FF_BINARY_Z,
			.scale = 1};
	ff_loops_expand(w, backward, &e->f.loops);
	ff_kernel_need(k, ff_fold_scratch(&e->f));
	k->run = !backward ? run_forward : w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}
