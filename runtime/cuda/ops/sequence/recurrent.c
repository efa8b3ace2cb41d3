/* Recurrences: a step is a product of all samples' states with the weights and a kernel of ours.
 * States, and backward the gradients of what the gates got of them, lie step by step, so that
 * the weights' gradient is one product over all steps.  Where a step is two halves, each has a
 * product with all of the weights, of which it needs some.  SPDX-License-Identifier: Apache-2.0 */
#include "recurrent.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/blas.h"
#include "kernels/recurrence.h"

struct recurrent {
	struct ff_recurrence r;
	enum ff_cell cell;  /* of the first half; that of the second is the next */
	enum ff_dtype type; /* gradients of parameters are float32 */
	struct ff_product *state, *weight;
	bool need_states, sum_columns; /* the bias's gradient by a kernel of ours */
	/* workspace: what a step's product gives and takes; gradients past it; cells or their
	 * gradients; of all steps what the product takes backward; scratch of sums */
	int64_t product, operand, through, dcell, du, sums;
};

static void finish(struct ff_kernel *k)
{
	struct recurrent *c = k->state;

	ff_product_destroy(c->state);
	ff_product_destroy(c->weight);
}

/* Element 0 of the step at `now` of what lies step by step; NULL stays that. */
static void *of_step(const struct recurrent *c, enum ff_dtype type, void *array, int64_t now,
		int64_t features)
{
	return array ? ff_to(type, array, now * c->r.samples * features) : NULL;
}

/* ---- forward ---- */

static struct ff_cell_step describe_step(
		const struct recurrent *c, const struct ff_kernel_io *io, int64_t i)
{
	const struct ff_recurrence *r = &c->r;
	int64_t now = ff_recurrence_step(r, i / r->halves), half = i % r->halves, h = r->hidden;
	bool first = i == 0, last = i + 1 == r->steps * r->halves, writes = half + 1 == r->halves;
	void *state = of_step(c, c->type, io->out[r->states], ff_recurrence_half(r, i - half), h);
	const void *cell = first && r->has_cell && r->has_states ? io->in[r->first + 1] : NULL;

	return (struct ff_cell_step){.samples = r->samples,
			.hidden = h,
			.x_sample = r->x_sample,
			.y_sample = r->y_sample,
			.x = ff_at(c->type, io->in[0], now * r->x_step),
			.bias = r->has_bias ? io->in[r->bias] : NULL,
			.before = !first          ? state
				  : r->has_states ? io->in[r->first]
						  : NULL,
			.before_kept = first ? state : NULL,
			.first_cell = r->was_carried ? NULL : cell,
			.carried_cell = r->was_carried ? cell : NULL,
			.u = first && !r->has_states ? NULL : ff_kernel_at(io, c->product),
			.y = writes ? ff_to(c->type, io->out[0], now * r->y_step) : NULL,
			.next = last ? (r->carries ? io->out[r->left] : NULL)
				     : of_step(c, c->type, io->out[r->states],
						       ff_recurrence_half(r, i + 1), h),
			.operand = ff_kernel_at(io, c->operand),
			.last_cell = last && r->writes_cell ? io->out[1] : NULL,
			.left_cell = last && r->carries && r->has_cell ? io->out[r->left + 1]
								       : NULL,
			.kept = r->kept ? of_step(c, FF_F32, io->out[r->keeps], now, r->kept * h)
					: NULL,
			.cell = ff_kernel_at(io, c->dcell),
			.cells = r->has_cell ? of_step(c, FF_F32, io->out[r->cells], now, h) : NULL,
			.first = first};
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int code = FF_OK;

	for (int64_t i = 0; i < c->r.steps * c->r.halves && code == FF_OK; i++) {
		struct ff_cell_step p = describe_step(c, io, i);
		enum ff_cell cell = (enum ff_cell)(c->cell + i % c->r.halves);

		if (p.u)
			code = ff_product_run(k, c->state, queue, i ? p.operand : p.before,
					io->in[c->r.weight], NULL, ff_kernel_at(io, c->product),
					ff_kernel_scratch(k, io), err);
		if (code == FF_OK)
			code = ff_kernel_launched(
					ff_launch_cell_step(cell, c->type, &p, queue), k, err);
	}
	return code;
}

/* ---- backward ---- */

/* A step's first half of two makes the gradient of all of its x, its second has that of y. */
static struct ff_cell_slope describe_slope(
		const struct recurrent *c, const struct ff_kernel_io *io, int64_t i)
{
	const struct ff_recurrence *r = &c->r;
	int64_t now = ff_recurrence_step(r, i / r->halves), half = i % r->halves, h = r->hidden;
	bool writes = io->din[0] && !half, reads = half + 1 == r->halves;

	return (struct ff_cell_slope){.samples = r->samples,
			.hidden = h,
			.x_sample = r->x_sample,
			.y_sample = r->y_sample,
			.dy = reads ? ff_at(c->type, io->dout[0], now * r->y_step) : NULL,
			.y = io->out[0] ? ff_at(c->type, io->out[0], now * r->y_step) : NULL,
			.before = of_step(c, c->type, io->out[r->states],
					ff_recurrence_half(r, i - half), h),
			.dlast_cell = r->writes_cell ? io->dout[1] : NULL,
			.dleft = r->carries ? io->dout[r->left] : NULL,
			.dleft_cell = r->carries && r->has_cell ? io->dout[r->left + 1] : NULL,
			.kept = r->kept ? of_step(c, FF_F32, io->out[r->keeps], now, r->kept * h)
					: NULL,
			.cells = r->has_cell ? of_step(c, FF_F32, io->out[r->cells], now, h) : NULL,
			.carry = ff_kernel_at(io, c->product),
			.through = ff_kernel_at(io, c->through),
			.dcell = ff_kernel_at(io, c->dcell),
			.dx = writes ? ff_to(c->type, io->din[0], now * r->x_step) : NULL,
			.du = of_step(c, c->type, ff_kernel_at(io, c->du), ff_recurrence_half(r, i),
					r->gates * h),
			.operand = ff_kernel_at(io, c->operand),
			.last = i + 1 == r->steps * r->halves};
}

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

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	cudaStream_t queue = ff_stream_queue(s);
	void *dcell = r->has_cell && r->has_states ? io->din[r->first + 1] : NULL;
	int code = FF_OK;

	for (int64_t i = r->steps * r->halves; i-- > 0 && code == FF_OK;) {
		struct ff_cell_slope p = describe_slope(c, io, i);
		enum ff_cell cell = (enum ff_cell)(c->cell + i % r->halves);

		code = ff_kernel_launched(ff_launch_cell_slope(cell, c->type, &p, queue), k, err);
		if (code == FF_OK && (i || c->need_states))
			code = ff_product_run(k, c->state, queue, p.operand, io->in[r->weight],
					NULL, ff_kernel_at(io, c->product),
					ff_kernel_scratch(k, io), err);
	}
	if (code == FF_OK && c->need_states)
		code = ff_kernel_launched(
				ff_launch_cell_states(c->type, r->samples * r->hidden,
						ff_kernel_at(io, c->through),
						ff_kernel_at(io, c->product),
						ff_kernel_at(io, c->dcell), io->din[r->first],
						r->was_carried ? NULL : dcell,
						r->was_carried ? dcell : NULL, queue),
				k, err);
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

static int prepare(struct ff_kernel *k, const struct ff_work *w, enum ff_cell cell,
		struct ff_error *err)
{
	struct recurrent *c = ff_kernel_state(k, sizeof(*c), err);
	struct ff_product_shape state = {.b_transposed = w->pass == FF_FORWARD, .sink = FF_F32};
	const struct ff_recurrence *r;
	int64_t each, single = (int64_t)sizeof(float);
	bool forward = w->pass == FF_FORWARD;

	if (!c)
		return FF_E_NOMEM;
	k->finish = finish;
	ff_recurrence_fill(w, &c->r);
	r = &c->r;
	c->cell = cell;
	c->type = state.type = ff_work_type(w);
	c->need_states = !forward && r->has_states &&
			 (w->need_din[r->first] || (r->has_cell && w->need_din[r->first + 1]));
	each = r->samples * r->hidden;
	state.rows = r->samples;
	state.inner = forward ? r->hidden : r->gates * r->hidden;
	state.columns = forward ? r->gates * r->hidden : r->hidden;
	c->product = ff_kernel_reserve(k, r->samples * state.columns * single);
	c->operand = ff_kernel_reserve(k, r->samples * state.inner * ff_dtype_bytes(c->type));
	c->dcell = ff_kernel_reserve(k, each * single);
	if (!forward) {
		c->through = ff_kernel_reserve(k, each * single);
		c->du = ff_kernel_reserve(k,
				r->steps * r->halves * each * r->gates * ff_dtype_bytes(c->type));
	}
	k->run = forward ? run_forward : run_backward;
	if (ff_product_create(k, &state, &c->state, err) < 0)
		return err->code;
	return forward ? FF_OK : prepare_weights(k, c, w, err);
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
