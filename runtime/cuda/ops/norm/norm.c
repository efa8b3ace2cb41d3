/* Layer, RMS and group norm.  SPDX-License-Identifier: Apache-2.0 */
#include "norm.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct norm {
	struct ff_norm n;
	enum ff_dtype type; /* gradients of weights are float32 */
	bool need[3], adds[3];
};

static struct ff_norm_values values_of(const struct norm *e, const struct ff_kernel_io *io)
{
	return (struct ff_norm_values){.x = io->in[0],
			.weight = io->in[1],
			.bias = io->in[2],
			.dy = io->dout[0],
			.y = io->out[0],
			.dx = io->din[0],
			.saved = io->out[1],
			.dweight = io->din[1],
			.dbias = io->din[2],
			.adds_x = e->adds[0],
			.adds_weight = e->adds[1],
			.adds_bias = e->adds[2]};
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct norm *e = k->state;
	const struct ff_norm_values v = values_of(e, io);

	return ff_kernel_launched(ff_launch_norm(e->type, &e->n, &v, ff_stream_queue(s)), k, err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct norm *e = k->state;
	const struct ff_norm_values v = values_of(e, io);
	cudaError_t code = cudaSuccess;

	if (e->need[0])
		code = ff_launch_norm_gradient(e->type, &e->n, &v, ff_stream_queue(s));
	if (code == cudaSuccess && (e->need[1] || e->need[2]))
		code = ff_launch_norm_weights(e->type, &e->n, &v, ff_kernel_scratch(k, io),
				ff_stream_tickets(s), ff_stream_queue(s));
	return ff_kernel_launched(code, k, err);
}

static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct norm *e = k->state;

	(void)err;
	*ret = e->adds[input] = true;
	return FF_OK;
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct norm *e = ff_kernel_state(k, sizeof(*e), err);

	if (!e)
		return FF_E_NOMEM;
	ff_norm_fill(w, &e->n);
	e->type = ff_work_type(w);
	for (uint32_t i = 0; i < w->node->n_in; i++)
		e->need[i] = w->need_din[i];
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	if (w->pass == FF_FORWARD)
		return FF_OK;
	k->add = add;
	ff_kernel_need(k, ff_norm_scratch(e->type, &e->n));
	return FF_OK;
}

int ff_cuda_layer_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, err);
}

int ff_cuda_rms_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, err);
}

int ff_cuda_group_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, err);
}
