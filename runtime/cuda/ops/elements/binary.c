/* Functions of two elements (kernels/binary.h), as their operands broadcast.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "fold.h"

struct binary {
	enum ff_dtype type, sink[2]; /* of the gradients */
	bool need_din[2], reads;
	bool at_once; /* both gradients */
	bool relu;    /* backward: the output goes through one, whose gradient is given */
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
	const void *const read[FF_LOOP_READ] = {b->reads ? io->in[0] : NULL,
			b->reads ? io->in[1] : NULL, io->dout[b->relu]};
	int code = FF_OK;

	if (b->at_once)
		return ff_kernel_launched(ff_launch_fold_two(b->gradient, b->type, b->sink[0], read,
							  b->relu ? io->out[0] : NULL, io->din,
							  ff_stream_queue(s)),
				k, err);
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

/* Whether element by element is read and written, from side `k` on, where they lie. */
static bool is_plain(const struct ff_loops *l, int k, int end)
{
	bool plain = l->kept == l->rank && l->rank <= 1;

	for (; k < end && l->rank; k++)
		plain = plain && l->stride[k][0] == 1;
	return plain;
}

/* With a relu only where its memory plan does not matter: by element, what is read is read first.
 */
static bool takes_relu(const struct binary *b, bool forward)
{
	if (forward)
		return is_plain(&b->z.loops, FF_LOOP_X, FF_LOOP_Z);
	return b->at_once && !b->reads &&
	       is_plain(&b->gradient[0].loops, FF_LOOP_Z, FF_LOOP_READ) &&
	       is_plain(&b->gradient[1].loops, FF_LOOP_Z, FF_LOOP_READ);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_binary f,
		struct ff_error *err)
{
	struct binary *b;

	if (w->node->n_in > 2) {
		k->declined = k->epilogue != FF_EPILOGUE_NONE;
		return ff_cuda_sum_prepare(k, w, err);
	}
	b = ff_kernel_state(k, sizeof(*b), err);
	if (!b)
		return FF_E_NOMEM;
	b->type = ff_work_type(w);
	b->reads = ff_op_row(w->node->op)->flags & FF_OP_BACKWARD_IN;
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	if (w->pass == FF_FORWARD) {
		fill(k, w, f, FF_BINARY_Z, &b->z);
		b->z.relu = k->epilogue == FF_EPILOGUE_RELU;
	}
	for (uint32_t i = 0; i < 2 && w->pass == FF_BACKWARD; i++) {
		b->need_din[i] = w->need_din[i];
		b->sink[i] = (enum ff_dtype)w->node->in_map[i].gradient;
		if (b->need_din[i])
			fill(k, w, f, i ? FF_BINARY_DY : FF_BINARY_DX, &b->gradient[i]);
	}
	b->at_once = b->need_din[0] && b->need_din[1] && ff_fold_alike(b->gradient, b->sink);
	b->relu = k->epilogue == FF_EPILOGUE_RELU_SLOPE;
	k->declined = k->epilogue != FF_EPILOGUE_NONE && !takes_relu(b, w->pass == FF_FORWARD);
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
