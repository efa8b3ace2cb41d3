/* Recurrences: a step is a product of all samples' states with the weights, which are brought
 * into the layout that suits that once a pass, then the cells, in float32.  States, and backward
 * the gradients of what the gates got of them, lie step by step, so that the weights' gradient
 * is one product over all steps.  Where a step is two halves, each has a product with all of the
 * weights, of which it needs some.  SPDX-License-Identifier: Apache-2.0 */
#include "kernels/recurrence.h"

#include <string.h>

#include "cpu/core/functions.h"
#include "cpu/core/product.h"
#include "cpu/core/real.h"

#include "kernels/cells.h" /* needs functions.h */

/* What a step reads and writes of one sample, by feature; gates lie behind each other. */
struct step {
	const void *x, *bias, *before;
	const float *u;
	void *y, *next;
	float *kept, *cell, *cells;
};
struct slope {
	const void *dy, *y, *before;
	const float *kept, *cells;
	float *through, *carry, *dcell; /* of the state: past u, by way of u; of the cell */
	void *dx, *du;
};

struct cell {
	void (*step)(enum ff_dtype t, int64_t hidden, const struct step *p);
	void (*slope)(enum ff_dtype t, int64_t hidden, const struct slope *p);
};

struct recurrent {
	struct ff_recurrence r;
	enum ff_dtype type;           /* gradients of parameters are float32 */
	const struct cell *cell_of;   /* by half */
	struct ff_call *pack, *state; /* U; h U^T, backward du U */
	struct ff_call *weight;       /* backward: du^T h */
	bool need_dx, need_states;
	/* workspace: U; h U^T or du U of a step; zeros; gradients past U; cells or their
	 * gradients; du of all steps; what is of no use */
	int64_t packed, product, zeros, through, cell, du, spare;
};

#define STEP(row, gates, n_kept, has_cell, half)                                                   \
	FF_REAL_LOOP void step_typed_##row(                                                        \
			enum ff_dtype t, int64_t hidden, const struct step *all)                   \
	{                                                                                          \
		const struct step p = *all;                                                        \
                                                                                                   \
		_Pragma("omp simd") for (int64_t j = 0; j < hidden; j++)                           \
		{                                                                                  \
			struct ff_step_in in = {.cell = 0};                                        \
			struct ff_step_out out;                                                    \
                                                                                                   \
			for (int g = 0; g < (gates); g++) {                                        \
				in.x[g] = ff_real_get(t, p.x, g * hidden + j);                     \
				in.u[g] = p.u[g * hidden + j] +                                    \
					  ff_real_get(t, p.bias, g * hidden + j);                  \
			}                                                                          \
			in.state = ff_real_get(t, p.before, j);                                    \
			if ((has_cell))                                                            \
				in.cell = p.cells[j] = p.cell[j];                                  \
			for (int i = 0; (half) == 2 && i < (n_kept); i++)                          \
				in.kept[i] = p.kept[i * hidden + j];                               \
			ff_step_##row(&in, &out);                                                  \
			for (int i = 0; i < (n_kept); i++)                                         \
				p.kept[i * hidden + j] = out.kept[i];                              \
			if ((has_cell))                                                            \
				p.cell[j] = out.cell;                                              \
			ff_real_put(t, p.y, j, out.state);                                         \
			ff_real_put(t, p.next, j, out.state);                                      \
		}                                                                                  \
	}                                                                                          \
	FF_REAL_LOOP void slope_typed_##row(                                                       \
			enum ff_dtype t, int64_t hidden, const struct slope *all)                  \
	{                                                                                          \
		const struct slope p = *all;                                                       \
                                                                                                   \
		_Pragma("omp simd") for (int64_t j = 0; j < hidden; j++)                           \
		{                                                                                  \
			struct ff_slope_in in = {.cell = 0};                                       \
			struct ff_slope_out out;                                                   \
                                                                                                   \
			in.dstate = ff_real_get(t, p.dy, j) + p.through[j] + p.carry[j];           \
			in.out = ff_real_get(t, p.y, j);                                           \
			in.state = ff_real_get(t, p.before, j);                                    \
			for (int i = 0; i < (n_kept); i++)                                         \
				in.kept[i] = p.kept[i * hidden + j];                               \
			if ((has_cell))                                                            \
				in.cell = p.cells[j];                                              \
			if ((has_cell) || (half))                                                  \
				in.dcell = p.dcell[j];                                             \
			ff_slope_##row(&in, &out);                                                 \
			for (int g = 0; g < (gates); g++) {                                        \
				ff_real_put(t, p.dx, g *hidden + j, out.dx[g]);                    \
				ff_real_put(t, p.du, g *hidden + j, out.du[g]);                    \
			}                                                                          \
			p.through[j] = out.dstate;                                                 \
			if ((has_cell) || (half))                                                  \
				p.dcell[j] = out.dcell;                                            \
		}                                                                                  \
	}                                                                                          \
	static void step_##row(enum ff_dtype t, int64_t hidden, const struct step *p)              \
	{                                                                                          \
		FF_REAL_CALL(t, step_typed_##row, hidden, p);                                      \
	}                                                                                          \
	static void slope_##row(enum ff_dtype t, int64_t hidden, const struct slope *p)            \
	{                                                                                          \
		FF_REAL_CALL(t, slope_typed_##row, hidden, p);                                     \
	}
FF_CELLS(STEP)
#undef STEP

/* ---- forward ---- */

/* A cell that was carried is as it was computed. */
static float first_cell(const struct recurrent *c, const void *cell, int64_t i)
{
	return c->r.was_carried ? ((const float *)cell)[i]
				: FF_REAL_CALL(c->type, ff_real_get, cell, i);
}

/* The state before the first step, the cell, and what stands for a state that there is not. */
static void begin(const struct recurrent *c, const struct ff_kernel_io *io)
{
	const struct ff_recurrence *r = &c->r;
	size_t each = (size_t)(r->samples * r->hidden);
	void *state = ff_real_out(c->type, io->out[r->states],
			ff_recurrence_half(r, 0) * r->samples * r->hidden);

	memset(ff_kernel_at(io, c->zeros), 0, (size_t)(r->gates * r->hidden) * sizeof(float));
	if (r->has_states)
		memcpy(state, io->in[r->first], each * (size_t)ff_dtype_bytes(c->type));
	else
		memset(state, 0, each * (size_t)ff_dtype_bytes(c->type));
	for (size_t i = 0; r->has_cell && i < each; i++) {
		float *cell = ff_kernel_at(io, c->cell);

		cell[i] = r->has_states ? first_cell(c, io->in[r->first + 1], (int64_t)i) : 0;
	}
}

/* All samples of the `number`th half. */
static void run_cells(const struct recurrent *c, const struct ff_kernel_io *io, int64_t number)
{
	const struct ff_recurrence *r = &c->r;
	int64_t now = ff_recurrence_step(r, number / r->halves), half = number % r->halves;
	bool ends = number + 1 == r->steps * r->halves, writes = half + 1 == r->halves;
	int64_t before = ff_recurrence_half(r, number - half);
	int64_t next = ends ? -1 : ff_recurrence_half(r, number + 1);
	const void *bias = r->has_bias ? io->in[r->bias] : ff_kernel_at(io, c->zeros);
	int64_t h = r->hidden, gates = r->gates * h, first = now * r->samples;
	void *left = r->carries ? io->out[r->left] : ff_kernel_at(io, c->spare);

#pragma omp parallel for if (r->samples * gates >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < r->samples; i++) {
		int64_t at = first + i, behind = next * r->samples + i;
		const struct step p = {
				.x = ff_real_in(c->type, io->in[0],
						i * r->x_sample + now * r->x_step),
				.bias = bias,
				.before = ff_real_in(c->type, io->out[r->states],
						(before * r->samples + i) * h),
				.u = (float *)ff_kernel_at(io, c->product) + i * gates,
				.y = writes ? ff_real_out(c->type, io->out[0],
							      i * r->y_sample + now * r->y_step)
					    : ff_real_out(c->type, ff_kernel_at(io, c->spare),
							      i * h),
				.next = next < 0 ? ff_real_out(c->type, left, i * h)
						 : ff_real_out(c->type, io->out[r->states],
								   behind * h),
				.kept = r->kept ? (float *)io->out[r->keeps] + at * r->kept * h
						: NULL,
				.cell = (float *)ff_kernel_at(io, c->cell) + i * h,
				.cells = r->has_cell ? (float *)io->out[r->cells] + at * h : NULL,
		};

		c->cell_of[half].step(c->type, h, &p);
	}
}

static void write_cell(const struct recurrent *c, const struct ff_kernel_io *io)
{
	const float *cell = ff_kernel_at(io, c->cell);
	int64_t n = c->r.samples * c->r.hidden;

	for (int64_t i = 0; i < n && c->r.writes_cell; i++)
		FF_REAL_CALL(c->type, ff_real_put, io->out[1], i, cell[i]);
	if (c->r.carries && c->r.has_cell)
		memcpy(io->out[c->r.left + 1], cell, (size_t)n * sizeof(*cell));
}

static int pack(const struct ff_kernel *k, const struct ff_kernel_io *io, const void **weight,
		struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const void *memory[] = {io->in[c->r.weight], ff_kernel_at(io, c->packed)};

	*weight = c->pack ? memory[1] : memory[0];
	return c->pack ? ff_call_run(k, c->pack, io, memory, err) : FF_OK;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	void *product = ff_kernel_at(io, c->product);
	const void *weight;
	int code = pack(k, io, &weight, err);

	begin(c, io);
	for (int64_t i = 0; i < r->steps * r->halves && code == FF_OK; i++) {
		int64_t now = ff_recurrence_half(r, i);
		const void *memory[] = {ff_real_in(c->type, io->out[r->states],
							now * r->samples * r->hidden),
				weight, product};

		if (i || r->has_states)
			code = ff_call_run(k, c->state, io, memory, err);
		else
			memset(product, 0,
					(size_t)(r->samples * r->gates * r->hidden) *
							sizeof(float));
		if (code == FF_OK)
			run_cells(c, io, i);
	}
	if (code == FF_OK)
		write_cell(c, io);
	return code;
}

/* ---- backward ---- */

/* Behind the last step no gradient comes but the cell's, where that is an output, and where the
 * state is carried on both. */
static void begin_backward(const struct recurrent *c, const struct ff_kernel_io *io)
{
	const struct ff_recurrence *r = &c->r;
	int64_t each = r->samples * r->hidden;
	float *dcell = ff_kernel_at(io, c->cell), *dstate = ff_kernel_at(io, c->through);

	memset(ff_kernel_at(io, c->product), 0, (size_t)each * sizeof(float));
	memset(ff_kernel_at(io, c->zeros), 0, (size_t)r->hidden * sizeof(float));
	for (int64_t i = 0; i < each; i++)
		dstate[i] = r->carries ? FF_REAL_CALL(c->type, ff_real_get, io->dout[r->left], i)
				       : 0;
	for (int64_t i = 0; r->has_cell && i < each; i++)
		dcell[i] = r->writes_cell ? FF_REAL_CALL(c->type, ff_real_get, io->dout[1], i) : 0;
	if (r->has_cell && r->carries)
		memcpy(dcell, io->dout[r->left + 1], (size_t)each * sizeof(*dcell));
}

/* A step's first half of two makes the gradient of all of its x, its second has that of y. */
static void run_slopes(const struct recurrent *c, const struct ff_kernel_io *io, int64_t number)
{
	const struct ff_recurrence *r = &c->r;
	int64_t now = ff_recurrence_step(r, number / r->halves), half = number % r->halves;
	int64_t place = ff_recurrence_half(r, number),
		before = ff_recurrence_half(r, number - half);
	bool writes = c->need_dx && !half, reads = half + 1 == r->halves;
	int64_t h = r->hidden, gates = r->gates * h, first = now * r->samples;

#pragma omp parallel for if (r->samples * gates >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < r->samples; i++) {
		int64_t at = first + i, y = i * r->y_sample + now * r->y_step;
		void *du = ff_real_out(
				c->type, ff_kernel_at(io, c->du), (place * r->samples + i) * gates);
		void *dx = writes ? ff_real_out(c->type, io->din[0],
						    i * r->x_sample + now * r->x_step)
				  : ff_real_out(c->type, ff_kernel_at(io, c->spare), i * gates);
		const struct slope p = {
				.dy = reads ? ff_real_in(c->type, io->dout[0], y)
					    : ff_kernel_at(io, c->zeros),
				.y = io->out[0] ? ff_real_in(c->type, io->out[0], y) : du,
				.before = ff_real_in(c->type, io->out[r->states],
						(before * r->samples + i) * h),
				.kept = r->kept ? (float *)io->out[r->keeps] + at * r->kept * h
						: NULL,
				.cells = r->has_cell ? (float *)io->out[r->cells] + at * h : NULL,
				.through = (float *)ff_kernel_at(io, c->through) + i * h,
				.carry = (float *)ff_kernel_at(io, c->product) + i * h,
				.dcell = (float *)ff_kernel_at(io, c->cell) + i * h,
				.dx = dx,
				.du = du,
		};

		c->cell_of[half].slope(c->type, h, &p);
	}
}

/* What the first step's state and cell were given. */
static void write_states(const struct recurrent *c, const struct ff_kernel_io *io)
{
	const float *past = ff_kernel_at(io, c->through), *by_way = ff_kernel_at(io, c->product);
	const float *dcell = ff_kernel_at(io, c->cell);
	void *state = io->din[c->r.first], *cell = c->r.has_cell ? io->din[c->r.first + 1] : NULL;
	int64_t n = c->r.samples * c->r.hidden;

	for (int64_t i = 0; i < n && state; i++)
		FF_REAL_CALL(c->type, ff_real_put, state, i, past[i] + by_way[i]);
	if (cell && c->r.was_carried)
		memcpy(cell, dcell, (size_t)n * sizeof(*dcell));
	for (int64_t i = 0; i < n && cell && !c->r.was_carried; i++)
		FF_REAL_CALL(c->type, ff_real_put, cell, i, dcell[i]);
}

static int run_weights(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	const void *du = ff_kernel_at(io, c->du);
	const void *memory[] = {du, io->out[r->states], io->din[r->weight]};
	int64_t rows = r->steps * r->halves * r->samples, gates = r->gates * r->hidden;

	if (r->has_bias && io->din[r->bias])
		ff_column_sums(c->type, rows, gates, du, io->din[r->bias]);
	if (!io->din[r->weight])
		return FF_OK;
	if (c->type == FF_BF16)
		return ff_call_run(k, c->weight, io, memory, err);
	return ff_dnnl_check(dnnl_sgemm('T', 'N', gates, r->hidden, rows, 1, du, gates,
					     io->out[r->states], r->hidden, 0, io->din[r->weight],
					     r->hidden),
			k, "multiply", err);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct recurrent *c = k->state;
	const struct ff_recurrence *r = &c->r;
	const void *weight;
	int code = pack(k, io, &weight, err);

	begin_backward(c, io);
	for (int64_t i = r->steps * r->halves; i-- > 0 && code == FF_OK;) {
		int64_t now = ff_recurrence_half(r, i);
		const void *memory[] = {ff_real_in(c->type, ff_kernel_at(io, c->du),
							now * r->samples * r->gates * r->hidden),
				weight, ff_kernel_at(io, c->product)};

		run_slopes(c, io, i);
		if (i || c->need_states)
			code = ff_call_run(k, c->state, io, memory, err);
	}
	if (code < 0)
		return code;
	if (c->need_states)
		write_states(c, io);
	return run_weights(k, io, err);
}

/* ---- both ---- */

static int prepare_products(
		struct ff_kernel *k, struct recurrent *c, bool forward, struct ff_error *err)
{
	const struct ff_recurrence *r = &c->r;
	int64_t gates = r->gates * r->hidden, packed;
	const struct ff_product state = {.rows = r->samples,
			.inner = forward ? r->hidden : gates,
			.columns = forward ? gates : r->hidden,
			.b_transposed = forward,
			.type = c->type,
			.sink = FF_F32};
	const struct ff_product weight = {.rows = gates,
			.inner = r->steps * r->halves * r->samples,
			.columns = r->hidden,
			.a_transposed = true,
			.type = c->type,
			.sink = FF_F32};
	int code = ff_product_prepare_packed(k, &state, &c->pack, &packed, &c->state, err);

	c->packed = ff_kernel_reserve(k, packed);
	if (code < 0 || forward || c->type == FF_F32)
		return code;
	return ff_product_prepare(k, &weight, &c->weight, err);
}

static void reserve(struct ff_kernel *k, struct recurrent *c, bool forward)
{
	const struct ff_recurrence *r = &c->r;
	int64_t each = r->samples * r->hidden, size = ff_dtype_bytes(c->type);
	int64_t single = (int64_t)sizeof(float);

	c->product = ff_kernel_reserve(k, each * (forward ? r->gates : 1) * single);
	c->zeros = ff_kernel_reserve(k, (forward ? r->gates : 1) * r->hidden * single);
	c->cell = ff_kernel_reserve(k, each * single);
	c->through = ff_kernel_reserve(k, forward ? 0 : each * single);
	c->du = ff_kernel_reserve(k, forward ? 0 : r->steps * r->halves * each * r->gates * size);
	c->spare = ff_kernel_reserve(k, each * (forward ? 1 : r->gates) * size);
}

static int prepare(struct ff_kernel *k, const struct ff_work *w, const struct cell *cells,
		struct ff_error *err)
{
	struct recurrent *c = ff_kernel_state(k, sizeof(*c), err);
	bool forward = w->pass == FF_FORWARD;

	if (!c)
		return FF_E_NOMEM;
	ff_recurrence_fill(w, &c->r);
	c->type = ff_work_type(w);
	c->cell_of = cells;
	c->need_dx = !forward && w->need_din[0];
	c->need_states =
			!forward && c->r.has_states &&
			(w->need_din[c->r.first] || (c->r.has_cell && w->need_din[c->r.first + 1]));
	k->run = forward ? run_forward : run_backward;
	reserve(k, c, forward);
	return prepare_products(k, c, forward, err);
}

#define CELL(row, gates, n_kept, has_cell, half) {step_##row, slope_##row},
static const struct cell cells[] = {FF_CELLS(CELL)};
#undef CELL
#define CELL(row, gates, n_kept, has_cell, half) CELL_##row,
enum { FF_CELLS(CELL) };
#undef CELL

int ff_cpu_rnn_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, &cells[CELL_rnn], err);
}

int ff_cpu_lstm_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	return prepare(k, w, &cells[CELL_lstm], err);
}

/* The halves stand behind each other. */
int ff_cpu_gru_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	bool halves = w->node->attrs.recurrent.reset_first;

	return prepare(k, w, &cells[halves ? CELL_gru_reset : CELL_gru], err);
}
