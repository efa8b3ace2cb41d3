/* Functions of two elements (kernels/binary.h), as their operands broadcast.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "fold.h"

struct binary {
	enum ff_dtype type, sink[2]; /* of the gradients */
	bool need_din[2], reads;
	struct ff_folding z, gradient[2];
};

static int launch(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		const struct ff_folding *f, enum ff_dtype sink_type, const void *const *read,
		void *sink, struct ff_error *err)
{
	const struct binary *b = k->state;

	return ff_kernel_launched(ff_launch_fold(f, b->type, sink_type, read, sink,
						  ff_kernel_scratch(k, io), ff_stream_queue(s)),
			k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct binary *b = k->state;
	const void *const read[FF_LOOP_READ] = {io->in[0], io->in[1]};

	return launch(k, s, io, &b->z, b->type, read, io->out[0], err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct binary *b = k->state;
	const void *const read[FF_LOOP_READ] = {
			b->reads ? io->in[0] : NULL, b->reads ? io->in[1] : NULL, io->dout[0]};
	int code = FF_OK;

	for (int i = 0; i < 2 && code == FF_OK; i++)
		if (b->need_din[i])
			code = launch(k, s, io, &b->gradient[i], b->sink[i], read, io->din[i], err);
	return code;
}

static void fill(struct ff_kernel *k, const struct ff_work *w, enum ff_binary f,
		enum ff_binary_part part, struct ff_folding *ret)
{
	*ret = (struct ff_folding){.function = (int32_t)f, .part = (int32_t)part, .scale = 1};
	ff_loops_binary(w, (int)part - 1, &ret->loops);
	ff_kernel_need(k, ff_fold_scratch(ret));
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_binary f,
		struct ff_error *err)
{
	struct binary *b;

	if (w->node->n_in > 2)
		return ff_cuda_sum_prepare(k, w, err);
	b = ff_kernel_state(k, sizeof(*b), err);
	if (!b)
		return FF_E_NOMEM;
	b->type = ff_work_type(w);
	b->reads = ff_op_row(w->node->op)->flags & FF_OP_BACKWARD_IN;
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	if (w->pass == FF_FORWARD)
		fill(k, w, f, FF_BINARY_Z, &b->z);
	for (uint32_t i = 0; i < 2 && w->pass == FF_BACKWARD; i++) {
		b->need_din[i] = w->need_din[i];
		b->sink[i] = (enum ff_dtype)w->node->in_map[i].gradient;
		if (b->need_din[i])
			fill(k, w, f, i ? FF_BINARY_DY : FF_BINARY_DX, &b->gradient[i]);
	}
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare(k, w, FF_BINARY_##row, err);                                        \
	}
FF_BINARY_OPS(PREPARE)
#undef PREPARE
