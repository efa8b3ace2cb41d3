/* Batch norm and its prelude.  SPDX-License-Identifier: Apache-2.0 */
#include "batch_norm.h"

#include "batch_moments.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"

struct batch {
	struct ff_batch b;
	enum ff_dtype type; /* of x, y and what is read of weight and bias; all else is float32 */
	bool weight, bias, need[4];
	bool adds; /* of the moments: to a gradient that is there */
	uint32_t n_in, n_out;
	enum ff_epilogue epilogue;
	float low, high;
};

static int run_moments(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *e = k->state;

	return ff_kernel_launched(ff_launch_batch_moments(e->type, &e->b, io->in[0], io->out[0],
						  ff_kernel_scratch(k, io), ff_stream_tickets(s),
						  ff_stream_queue(s)),
			k, err);
}

static int run_moments_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *e = k->state;

	return ff_kernel_launched(
			ff_launch_batch_moments_gradient(e->type, &e->b, io->in[0], io->dout[0],
					e->adds ? (void *)(uintptr_t)io->left : io->din[0],
					e->adds ? io->din[0] : NULL, ff_stream_queue(s)),
			k, err);
}

static int add_to_moments(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct batch *e = k->state;

	(void)input;
	(void)err;
	*ret = e->adds = true;
	return FF_OK;
}

static bool is_one_of(const struct batch *e, enum ff_epilogue one, enum ff_epilogue other)
{
	return e->epilogue == one || e->epilogue == other;
}

static void fill(const struct batch *e, const struct ff_kernel_io *io, struct ff_batch_values *v)
{
	*v = (struct ff_batch_values){.x = io->in[0],
			.weight = e->weight ? io->in[2] : NULL,
			.bias = e->bias ? io->in[3] : NULL,
			.dy = (void *)io->dout[0],
			.moments = io->in[1],
			.mean = io->out[1],
			.variance = io->out[2],
			.dmoments = e->need[1] ? io->din[1] : NULL,
			.dweight = e->need[2] ? io->din[2] : NULL,
			.dbias = e->need[3] ? io->din[3] : NULL,
			.relu = is_one_of(e, FF_EPILOGUE_RELU, FF_EPILOGUE_ADD_RELU),
			.clips = is_one_of(e, FF_EPILOGUE_CLIP, FF_EPILOGUE_CLIP_SLOPE),
			.low = e->low,
			.high = e->high};
	if (is_one_of(e, FF_EPILOGUE_ADD, FF_EPILOGUE_ADD_RELU))
		v->beside = io->in[e->n_in];
	if (is_one_of(e, FF_EPILOGUE_ADD_SLOPE, FF_EPILOGUE_ADD_RELU_SLOPE))
		v->dbeside = io->din[e->n_in];
	if (e->epilogue == FF_EPILOGUE_CLIP)
		v->kept = io->out[e->n_out];
	if (is_one_of(e, FF_EPILOGUE_RELU_SLOPE, FF_EPILOGUE_ADD_RELU_SLOPE) ||
			e->epilogue == FF_EPILOGUE_CLIP_SLOPE)
		v->slope_of = io->out[0];
	if (v->slope_of || v->dbeside || e->epilogue == FF_EPILOGUE_ADD_SLOPE)
		v->behind = io->dout[1];
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *e = k->state;
	struct ff_batch_values v;

	fill(e, io, &v);
	if (!io->training)
		v.moments = NULL;
	return ff_kernel_launched(
			ff_launch_batch_norm(e->type, &e->b, &v, io->out[0], ff_stream_queue(s)), k,
			err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct batch *e = k->state;
	struct ff_batch_values v;

	fill(e, io, &v);
	return ff_kernel_launched(
			ff_launch_batch_norm_gradient(e->type, &e->b, &v, ff_kernel_scratch(k, io),
					ff_stream_tickets(s), ff_stream_queue(s)),
			k, err);
}

static struct batch *prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct batch *e = ff_kernel_state(k, sizeof(*e), err);

	if (!e)
		return NULL;
	ff_batch_fill(w, &e->b);
	e->type = w->node->in_map[0].dtype;
	e->epilogue = k->epilogue;
	e->low = k->low;
	e->high = k->high;
	e->n_in = w->node->n_in;
	e->n_out = w->node->n_out;
	e->weight = w->node->n_in > 2;
	e->bias = w->node->n_in > 3;
	for (uint32_t i = 0; i < w->node->n_in; i++)
		e->need[i] = w->need_din[i];
	ff_kernel_need(k, ff_batch_scratch(e->type, &e->b));
	return e;
}

int ff_cuda_batch_moments_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? run_moments
		 : w->need_din[0]      ? run_moments_backward
				       : ff_kernel_run_nothing;
	k->add = w->pass == FF_FORWARD ? NULL : add_to_moments;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}

int ff_cuda_batch_norm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return prepare(k, w, err) ? FF_OK : FF_E_NOMEM;
}
