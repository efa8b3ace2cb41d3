/* Recurrences: a step is a product of all samples' states with the weights and a kernel of ours.
 * Where steps are short, all of them are one kernel.  States, and backward the gradients of what
 * the gates got of them, lie step by step, so that the weights' gradient is one product over all
 * steps.  Where a step is two halves, each has a product with all of the weights, of which it needs
 * some.
 *
 * cuDNN's recurrences do not fit: their cells multiply the layer's input themselves, or add the
 * same `hidden` features of it to every gate (NVIDIA, cuDNN 9, "cudnnRNNInputMode_t"), while here
 * each gate has features of its own, of a linear layer that is cut as such; and what they keep for
 * backward is as large as a GPU says (cudnnGetRNNTempSpaceSizes), while the memory plan is made
 * without one.  SPDX-License-Identifier: Apache-2.0 */
#include "recurrent.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/blas.h"
#include "ff/steps.h"
#include "kernels/recurrence.h"

struct recurrent {
	struct ff_recurrence r;
	enum ff_cell cell;  /* of the first half; that of the second is the next */
	enum ff_dtype type; /* gradients of parameters are float32 */
	struct ff_product *state, *weight;
	int64_t blocks;                /* of one kernel for all steps; 0: step by step */
	bool need_states, sum_columns; /* the bias's gradient by a kernel of ours */
	/* workspace, or -1: what a step's product gives and takes; gradients past it; cells or
	 * their gradients; of all steps what the product takes backward; the weights, transposed;
	 * scratch of sums */
	int64_t product, operand, through, dcell, du, turned, sums;
};

static void finish(struct ff_kernel *k)
{
	struct recurrent *c = k->state;

	ff_product_destroy(c->state);
	ff_product_destroy(c->weight);
}

/* What both passes are told. */
static struct ff_cells describe(const struct recurrent *c, const struct ff_kernel_io *io)
{
	const struct ff_recurrence *r = &c->r;
	const void *cell = r->has_cell && r->has_states ? io->in[r->first + 1] : NULL;

	return (struct ff_cells){.samples = r->samples,
			.hidden = r->hidden,
			.steps = r->steps,
			.halves = r->halves,
			.x_sample = r->x_sample,
			.x_step = r->x_step,
			.y_sample = r->y_sample,
			.y_step = r->y_step,
			.reverse = r->reverse,
			.need_states = c->need_states,
			.weight = io->in[r->weight],
			.bias = r->has_bias ? io->in[r->bias] : NULL,
			.x = io->in[0],
			.first_state = r->has_states ? io->in[r->first] : NULL,
			.first_cell = r->was_carried ? NULL : cell,
			.carried_cell = r->was_carried ? cell : NULL,
			.states = io->out[r->states],
			.kept = r->kept ? io->out[r->keeps] : NULL,
			.cells = r->has_cell ? io->out[r->cells] : NULL,
			.y = io->out[0],
			.product = ff_kernel_at(io, c->product),
			.cell = ff_kernel_at(io, c->dcell),
			.through = ff_kernel_at(io, c->through),
			.operand = ff_kernel_at(io, c->operand),
			.du = ff_kernel_at(io, c->du),
			.turned = ff_kernel_at(io, c->turned)};
}

/* ---- forward ---- */

static int run_steps(const struct ff_kernel *k, const struct ff_cells *p, cudaStream_t queue,
		void *scratch, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	int code = FF_OK;

	for (int64_t i = 0; i < p->steps * p->halves && code == FF_OK; i++) {
		enum ff_cell cell = (enum ff_cell)(c->cell + i % p->halves);

		if (i || p->first_state)
			code = ff_product_run(k, c->state, queue, i ? p->operand : p->first_state,
					p->weight, NULL, p->product, scratch, err);
		if (code == FF_OK)
			code = ff_kernel_launched(
					ff_launch_cell_step(cell, c->type, p, i, queue), k, err);
	}
	return code;
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	struct ff_cells p = describe(c, io);
	cudaStream_t queue = ff_stream_queue(s);

	p.last_cell = r->writes_cell ? io->out[1] : NULL;
	p.left = r->carries ? io->out[r->left] : NULL;
	p.left_cell = r->carries && r->has_cell ? io->out[r->left + 1] : NULL;
	if (!c->blocks)
		return run_steps(k, &p, queue, ff_kernel_scratch(k, io), err);
	return ff_kernel_launched(
			ff_launch_cell_steps(c->cell, c->type, &p, c->blocks, queue), k, err);
}

/* ---- backward ---- */

static int run_weights(const struct ff_kernel *k, const struct ff_kernel_io *io, cudaStream_t queue,
		struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	void *dbias = r->has_bias ? io->din[r->bias] : NULL, *du = ff_kernel_at(io, c->du);
	int code = FF_OK;

	if (c->weight)
		code = ff_product_run(k, c->weight, queue, du, io->out[r->states], dbias,
				io->din[r->weight], ff_kernel_scratch(k, io), err);
	if (code < 0 || !c->sum_columns)
		return code;
	return ff_kernel_launched(ff_launch_columns(c->type, r->steps * r->halves * r->samples,
						  r->gates * r->hidden, du, dbias,
						  ff_kernel_at(io, c->sums), queue),
			k, err);
}

static int run_slopes(const struct ff_kernel *k, const struct ff_cells *p, cudaStream_t queue,
		void *scratch, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	int code = FF_OK;

	for (int64_t i = p->steps * p->halves; i-- > 0 && code == FF_OK;) {
		enum ff_cell cell = (enum ff_cell)(c->cell + i % p->halves);

		code = ff_kernel_launched(ff_launch_cell_slope(cell, c->type, p, i, queue), k, err);
		if (code == FF_OK && (i || c->need_states))
			code = ff_product_run(k, c->state, queue, p->operand, p->weight, NULL,
					p->product, scratch, err);
	}
	if (code == FF_OK && c->need_states)
		code = ff_kernel_launched(ff_launch_cell_states(c->type, p, queue), k, err);
	return code;
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	struct ff_cells p = describe(c, io);
	void *dcell = r->has_cell && r->has_states ? io->din[r->first + 1] : NULL;
	cudaStream_t queue = ff_stream_queue(s);
	int code;

	p.grad.dy = io->dout[0];
	p.grad.dlast_cell = r->writes_cell ? io->dout[1] : NULL;
	p.grad.dleft = r->carries ? io->dout[r->left] : NULL;
	p.grad.dleft_cell = r->carries && r->has_cell ? io->dout[r->left + 1] : NULL;
	p.grad.dx = io->din[0];
	p.grad.dstate = r->has_states ? io->din[r->first] : NULL;
	p.grad.dfirst_cell = r->was_carried ? NULL : dcell;
	p.grad.dcarried_cell = r->was_carried ? dcell : NULL;
	if (c->blocks)
		code = ff_kernel_launched(
				ff_launch_cell_slopes(c->cell, c->type, &p, c->blocks, queue), k,
				err);
	else
		code = run_slopes(k, &p, queue, ff_kernel_scratch(k, io), err);
	return code < 0 ? code : run_weights(k, io, queue, err);
}

/* ---- both ---- */

static int prepare_weights(struct ff_kernel *k, struct recurrent *c, const struct ff_work *w,
		struct ff_error *err)
{
	const struct ff_recurrence *r = &c->r;
	bool bias = r->has_bias && w->need_din[r->bias];
	const struct ff_product_shape weight = {.rows = r->gates * r->hidden,
			.inner = r->steps * r->halves * r->samples,
			.columns = r->hidden,
			.a_transposed = true,
			.gives_sums = bias,
			.type = c->type,
			.sink = FF_F32};
	int code = FF_OK;

	if (w->need_din[r->weight])
		code = ff_product_create(k, &weight, &c->weight, err);
	if (code < 0)
		return code;
	c->sum_columns = bias && !(c->weight && ff_product_gives_sums(c->weight));
	if (c->sum_columns)
		c->sums = ff_kernel_reserve(k, ff_column_scratch(r->steps * r->halves * r->samples,
							       r->gates * r->hidden));
	return FF_OK;
}

/* What a launch for each step takes, and its product. */
static int prepare_steps(
		struct ff_kernel *k, struct recurrent *c, bool forward, struct ff_error *err)
{
	const struct ff_recurrence *r = &c->r;
	int64_t all = r->gates * r->hidden;
	const struct ff_product_shape state = {.rows = r->samples,
			.inner = forward ? r->hidden : all,
			.columns = forward ? all : r->hidden,
			.b_transposed = forward,
			.type = c->type,
			.sink = FF_F32};

	c->product = ff_kernel_reserve(k, state.rows * state.columns * FF_F32_BYTES);
	c->operand = ff_kernel_reserve(k, state.rows * state.inner * ff_dtype_bytes(c->type));
	return ff_product_create(k, &state, &c->state, err);
}

static void reserve(struct ff_kernel *k, struct recurrent *c, bool forward)
{
	const struct ff_recurrence *r = &c->r;
	int64_t each = r->samples * r->hidden, size = ff_dtype_bytes(c->type);

	c->dcell = ff_kernel_reserve(k, each * FF_F32_BYTES);
	if (forward)
		return;
	c->through = ff_kernel_reserve(k, each * FF_F32_BYTES);
	c->du = ff_kernel_reserve(k, r->steps * r->halves * each * r->gates * size);
	if (c->blocks)
		c->turned = ff_kernel_reserve(k, r->gates * r->hidden * r->hidden * size);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_cell cell,
		struct ff_error *err)
{
	struct recurrent *c = ff_kernel_state(k, sizeof(*c), err);
	bool forward = w->pass == FF_FORWARD;
	const struct ff_recurrence *r;
	int code = FF_OK;

	if (!c)
		return FF_E_NOMEM;
	k->finish = finish;
	k->run = forward ? run_forward : run_backward;
	ff_recurrence_fill(w, &c->r);
	r = &c->r;
	c->cell = cell;
	c->type = ff_work_type(w);
	c->product = c->operand = c->through = c->du = c->turned = -1;
	c->need_states = !forward && r->has_states &&
			 (w->need_din[r->first] || (r->has_cell && w->need_din[r->first + 1]));
	if (ff_steps_are_whole(r->samples, r->gates * r->hidden, r->hidden, r->halves))
		c->blocks = k->dev->persistent;
	reserve(k, c, forward);
	if (!c->blocks)
		code = prepare_steps(k, c, forward, err);
	return code < 0 || forward ? code : prepare_weights(k, c, w, err);
}

int ff_cuda_rnn_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, FF_CELL_rnn, err);
}

int ff_cuda_lstm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, FF_CELL_lstm, err);
}

int ff_cuda_gru_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool halves = w->node->attrs.recurrent.reset_first;

	return prepare(k, w, halves ? FF_CELL_gru_reset : FF_CELL_gru, err);
}
