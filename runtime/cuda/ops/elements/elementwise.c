/* Functions of one element, and sums of more than two: shards are dense on all sides and lie alike.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "elementwise.h"

_Static_assert(FF_SUMMANDS == FF_MAX_INPUTS, "an add may have as many inputs as a node");

struct elementwise {
	enum ff_unary function;
	float a, b; /* its attributes */
	bool reads_out;
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

/* ---- functions of one element ---- */

static int apply(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	const struct elementwise *e = k->state;

	return ff_kernel_launched(ff_launch_unary(e->function, e->type, io->in[0], NULL, io->out[0],
						  e->volume, e->a, e->b, ff_stream_queue(s)),
			k, err);
}

/* What backward does not read is anything that is there. */
static int apply_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct elementwise *e = k->state;
	const void *v = e->reads_out ? io->out[0] : io->in[0] ? io->in[0] : io->dout[0];

	return ff_kernel_launched(ff_launch_unary(e->function, e->type, v, io->dout[0], io->din[0],
						  e->volume, e->a, e->b, ff_stream_queue(s)),
			k, err);
}

static int prepare_unary(struct ff_kernel *k, const struct ff_work *w, enum ff_unary function,
		struct ff_error *err)
{
	const struct ff_unary_attrs *a = &w->node->attrs.unary;
	const struct ff_op_row *row = ff_op_row(w->node->op);
	struct elementwise *e = prepare(k, w, err);

	if (!e)
		return FF_E_NOMEM;
	if (row->n_attrs) {
		e->a = (float)a->a;
		e->b = (float)a->b;
		function += (uint32_t)a->form;
	}
	e->function = function;
	e->reads_out = row->flags & FF_OP_BACKWARD_OUT;
	if (w->pass == FF_FORWARD)
		k->run = apply;
	else
		k->run = w->need_din[0] ? apply_backward : ff_kernel_run_nothing;
	return FF_OK;
}

#define PREPARE(e, row)                                                                            \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)        \
	{                                                                                          \
		return prepare_unary(k, w, FF_UNARY_##row, err);                                   \
	}
FF_UNARY_OPS(PREPARE)
#undef PREPARE

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

int ff_cuda_sum_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? add : add_backward;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}
