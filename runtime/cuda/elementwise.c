/* Activations, sums and products: shards are dense on all sides and lie alike.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "copy.h"
#include "kernel.h"

_Static_assert(FF_SUMMANDS == FF_MAX_INPUTS, "an add may have as many inputs as a node");

struct elementwise {
	enum ff_activation activation;
	enum ff_dtype type;
	uint32_t n_in;
	int64_t volume;
	bool need_din[FF_MAX_INPUTS];
};

static struct elementwise *prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct elementwise *e = ff_kernel_state(k, sizeof(*e), err);

	if (!e)
		return NULL;
	e->type = ff_work_type(w);
	e->n_in = w->node->n_in;
	e->volume = ff_region_volume(&w->out[0]);
	memcpy(e->need_din, w->need_din, sizeof(e->need_din));
	return e;
}

/* ---- activations: backward reads the output only ---- */

static int activate(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct elementwise *e = k->state;

	return ff_kernel_launched(ff_launch_activate(e->activation, e->type, io->in[0], io->out[0],
						  e->volume, ff_stream_queue(s)),
			k, err);
}

static int deactivate(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct elementwise *e = k->state;

	return ff_kernel_launched(
			ff_launch_deactivate(e->activation, e->type, io->out[0], io->dout[0],
					io->din[0], e->volume, ff_stream_queue(s)),
			k, err);
}

static int prepare_activation(struct ff_kernel *k, const struct ff_work *w, enum ff_activation a,
		struct ff_error *err)
{
	struct elementwise *e = prepare(k, w, err);

	if (!e)
		return FF_E_NOMEM;
	e->activation = a;
	if (w->pass == FF_FORWARD)
		k->run = activate;
	else
		k->run = w->need_din[0] ? deactivate : ff_kernel_run_nothing;
	return FF_OK;
}

int ff_cuda_relu_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare_activation(k, w, FF_RELU, err);
}

int ff_cuda_tanh_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare_activation(k, w, FF_TANH, err);
}

int ff_cuda_sigmoid_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare_activation(k, w, FF_SIGMOID, err);
}

/* ---- sums ---- */

static int add(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct elementwise *e = k->state;
	struct ff_summands x = {.n = e->n_in};

	memcpy(x.in, io->in, e->n_in * sizeof(x.in[0]));
	return ff_kernel_launched(
			ff_launch_add(e->type, &x, io->out[0], e->volume, ff_stream_queue(s)), k,
			err);
}

static int add_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct elementwise *e = k->state;
	int code = FF_OK;

	for (uint32_t i = 0; i < e->n_in && code == FF_OK; i++)
		if (e->need_din[i])
			code = ff_kernel_launched(ff_cuda_run_of(e->type, io->dout[0], io->din[i],
								  e->volume, ff_stream_queue(s)),
					k, err);
	return code;
}

int ff_cuda_add_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? add : add_backward;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}

/* ---- products ---- */

static int multiply(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct elementwise *e = k->state;

	return ff_kernel_launched(ff_launch_multiply(e->type, io->in[0], io->in[1], io->out[0],
						  e->volume, ff_stream_queue(s)),
			k, err);
}

static int multiply_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct elementwise *e = k->state;
	int code = FF_OK;

	for (int i = 0; i < 2 && code == FF_OK; i++)
		if (e->need_din[i])
			code = ff_kernel_launched(
					ff_launch_multiply(e->type, io->dout[0], io->in[1 - i],
							io->din[i], e->volume, ff_stream_queue(s)),
					k, err);
	return code;
}

int ff_cuda_mul_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? multiply : multiply_backward;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}
