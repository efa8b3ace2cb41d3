/* Attention and its prelude, by kernels of our own.  SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include "kernel.h"

struct attention {
	struct ff_attention a;
	enum ff_dtype type; /* statistics and their gradient are float32 */
	uint32_t pairs;     /* the node: which input its statistics are */
};

static struct ff_attention_values values_of(
		const struct attention *k, const struct ff_kernel_io *io)
{
	return (struct ff_attention_values){.query = io->in[0],
			.key = io->in[1],
			.value = io->in[2],
			.mask = k->a.masked ? io->in[3] : NULL};
}

static int run_statistics(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_attention_values v = values_of(k, io);

	v.pairs = io->out[0];
	return ff_kernel_launched(ff_launch_attention(k->type, &k->a, &v, NULL, ff_stream_queue(s)),
			kernel, err);
}

static int run_nothing_found(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_attention *a = &((const struct attention *)kernel->state)->a;
	int64_t n = 2 * a->samples * a->heads * a->queries;

	return ff_kernel_launched(
			ff_launch_fill(io->out[0], FF_F32_BYTES, n, 0, ff_stream_queue(s)), kernel,
			err);
}

static int run_statistics_backward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_attention_values v = values_of(k, io);
	int code = FF_OK;

	v.pair_slopes = io->dout[0];
	if (io->din[1] || io->din[2])
		code = ff_kernel_launched(
				ff_launch_attention_keys(k->type, &k->a, &v, io->din[0], io->din[1],
						io->din[2], ff_stream_queue(s)),
				kernel, err);
	return code < 0 ? code
			: ff_kernel_launched(
					  ff_launch_attention_queries(k->type, &k->a, &v,
							  io->din[0], ff_kernel_scratch(kernel, io),
							  ff_stream_queue(s)),
					  kernel, err);
}

static int run_forward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_attention_values v = values_of(k, io);

	v.given = k->a.all_keys ? NULL : io->in[k->pairs];
	v.pairs = io->out[1];
	return ff_kernel_launched(
			ff_launch_attention(k->type, &k->a, &v, io->out[0], ff_stream_queue(s)),
			kernel, err);
}

static int run_backward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;

	return ff_kernel_launched(
			ff_launch_attention_rows(k->type, &k->a, io->out[1], io->out[0],
					io->dout[0], io->din[k->pairs], ff_stream_queue(s)),
			kernel, err);
}

static struct attention *prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = ff_kernel_state(kernel, sizeof(*k), err);

	if (!k)
		return NULL;
	ff_attention_fill(w, &k->a);
	k->type = w->node->in_map[0].dtype;
	k->pairs = w->node->n_prelude ? w->node->n_data - 1 : 0;
	return k;
}

int ff_cuda_attention_statistics_prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = prepare(kernel, w, err);

	if (!k)
		return FF_E_NOMEM;
	if (w->pass == FF_FORWARD) {
		kernel->run = k->a.all_keys ? run_nothing_found : run_statistics;
		return FF_OK;
	}
	kernel->run = w->need_din[0] ? run_statistics_backward : ff_kernel_run_nothing;
	ff_kernel_need(kernel, ff_attention_scratch(k->type, &k->a));
	return FF_OK;
}

int ff_cuda_attention_prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = prepare(kernel, w, err);

	if (!k)
		return FF_E_NOMEM;
	if (w->pass == FF_FORWARD)
		kernel->run = run_forward;
	else
		kernel->run = w->need_din[k->pairs] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}
