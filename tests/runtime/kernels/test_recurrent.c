/* Property test: kernels of recurrences, forward and backward, of some of the samples, against
 * PyTorch's formulas in double precision, gradients by going back through time.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/work.h"
#include "inputs.h"
#include "typed.h"

#define ROUNDS 60
#define MOST_VALUES 7 /* inputs, data and parameters, or outputs, saved ones included */

static const struct ff_backend *backend;

struct array {
	double *v;
	int64_t n;
};

/* A node, some of its samples, and whole arrays: row-major. */
struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node;
	struct ff_work work;
	enum ff_dtype type;
	int32_t samples, steps, hidden, gates;
	bool bias, states, cell, reset_first;
	struct array in[MOST_VALUES], din[MOST_VALUES], out[4], dout[4];
	bool counts; /* the step at hand is the part's: weights have its gradient */
	struct ff_device *dev;
	struct ff_stream *stream;
};

static int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

/* ---- the graph ---- */

/* What it writes, joined, and a linear layer. */
static void end(struct trial *t, struct ff_builder *b, uint32_t node)
{
	union ff_attrs join = ff_attrs_preset(FF_OP_CONCAT), flat = {.reshape = {2, {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	uint32_t x[2] = {node, FF_PORT(node, 1)};

	join.concat.axis = 1;
	if (t->cell)
		x[0] = ff_builder_add(b, FF_OP_CONCAT, "join", &join, x, 2);
	x[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, x, 1);
	fc.linear.out_features = 2;
	x[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, x, 1);
	x[1] = add_input(b, "labels", 1, &t->samples, 2);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, x, 2);
}

static void build(struct trial *t, enum ff_op op)
{
	union ff_attrs a = ff_attrs_preset(op);
	int32_t shape[3] = {t->samples, t->steps, t->gates * t->hidden};
	int32_t state[3] = {t->samples, 1, t->hidden};
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[3];

	a.recurrent.bias = t->bias;
	a.recurrent.reverse = draw(t, 0, 1);
	a.recurrent.cell = t->cell;
	a.recurrent.reset_first = t->reset_first;
	check(ff_builder_create("sequence", &t->arena, &b, &err), &err);
	ff_builder_set_dtype(b, t->type);
	in[0] = add_input(b, "x", 3, shape, 0);
	if (t->states) {
		in[1] = add_input(b, "state", 3, state, 0);
		in[2] = op == FF_OP_LSTM ? add_input(b, "memory", 3, state, 0) : FF_NONE;
	}
	end(t, b, ff_builder_add(b, op, "node", &a, in, !t->states ? 1 : op == FF_OP_LSTM ? 3 : 2));
	check(ff_builder_finish(b, &t->graph, &err), &err);
	t->node = &t->graph.nodes[ff_graph_find(&t->graph, "node")];
}

static struct array whole(struct trial *t, const struct ff_operand *o, bool random)
{
	struct array a = {.n = 1};

	for (uint32_t i = 0; i < o->rank; i++)
		a.n *= o->shape[i];
	a.v = ff_arena_array(&t->arena, (size_t)a.n, sizeof(*a.v));
	ck_assert_ptr_nonnull(a.v);
	for (int64_t i = 0; i < a.n && random; i++)
		a.v[i] = typed_round(o->dtype, (float)ff_random_unit(&t->r) * 2 - 1);
	return a;
}

/* ---- the definition ---- */

/* Number `i` that is carried, between the step at `at` and the next one in the order of time, of
 * feature `j` of sample `n`: what is left there is found there, and so are gradients. */
static void carry(
		struct trial *t, uint32_t i, int32_t n, int32_t at, int32_t j, double x, bool back)
{
	int32_t between = t->node->attrs.recurrent.reverse ? at - 1 : at;
	uint32_t left = ff_node_outputs(t->node) + i, found = t->node->n_data - t->node->n_carried;
	struct array *a = back ? &t->dout[left] : &t->out[left];
	struct array *b = back ? &t->din[found + i] : &t->in[found + i];

	if (between >= 0 && between < t->steps - 1)
		a->v[(n * (t->steps - 1) + between) * t->hidden + j] =
				b->v[(n * (t->steps - 1) + between) * t->hidden + j] = x;
}

static bool counts(const struct trial *t, int32_t at)
{
	return at >= t->work.box.lo[1] && at < t->work.box.hi[1];
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

/* One sample: what happens at each step, for going back. */
struct moment {
	double u[4], gate[4]; /* of one feature: what the gates got of the state; the gates */
	double state, cell, out, cell_out;
};

/* One feature of one step from x and u of its gates. */
static void forward_one(const struct trial *t, const double *x, struct moment *m)
{
	switch (t->node->op) {
	case FF_OP_RNN:
		m->out = tanh(x[0] + m->u[0]);
		break;
	case FF_OP_GRU:
		m->gate[0] = sigmoid(x[0] + m->u[0]);
		m->gate[1] = sigmoid(x[1] + m->u[1]);
		m->gate[2] = tanh(x[2] + m->gate[0] * m->u[2]);
		m->out = (1 - m->gate[1]) * m->gate[2] + m->gate[1] * m->state;
		break;
	default:
		for (int g = 0; g < 4; g++)
			m->gate[g] = g == 2 ? tanh(x[g] + m->u[g]) : sigmoid(x[g] + m->u[g]);
		m->cell_out = m->gate[1] * m->cell + m->gate[0] * m->gate[2];
		m->out = m->gate[3] * tanh(m->cell_out);
		break;
	}
	m->out = typed_round(t->type, m->out);
}

/* Gradients of x, of u, of the state past u and (in place) of the cell. */
static void backward_one(const struct trial *t, const struct moment *m, double d, double *dcell,
		double *dx, double *du, double *dstate)
{
	const double *g = m->gate;

	*dstate = 0;
	switch (t->node->op) {
	case FF_OP_RNN:
		dx[0] = d * (1 - m->out * m->out);
		break;
	case FF_OP_GRU:
		dx[2] = d * (1 - g[1]) * (1 - g[2] * g[2]);
		dx[1] = d * (m->state - g[2]) * g[1] * (1 - g[1]);
		dx[0] = dx[2] * m->u[2] * g[0] * (1 - g[0]);
		*dstate = d * g[1];
		break;
	default:
		*dcell += d * g[3] * (1 - tanh(m->cell_out) * tanh(m->cell_out));
		dx[0] = *dcell * g[2] * g[0] * (1 - g[0]);
		dx[1] = *dcell * m->cell * g[1] * (1 - g[1]);
		dx[2] = *dcell * g[0] * (1 - g[2] * g[2]);
		dx[3] = d * tanh(m->cell_out) * g[3] * (1 - g[3]);
		*dcell *= g[1];
		break;
	}
	for (int32_t i = 0; i < t->gates; i++)
		du[i] = typed_round(
				t->type, t->node->op == FF_OP_GRU && i == 2 ? dx[2] * g[0] : dx[i]);
}

static void forward_sample(struct trial *t, int32_t n, struct moment *m)
{
	int32_t h = t->hidden, w = t->gates * h;
	const double *weight = t->in[t->node->n_data].v;
	const double *bias = t->bias ? t->in[t->node->n_data + 1].v : NULL;

	for (int32_t k = 0; k < t->steps; k++) {
		int32_t at = t->node->attrs.recurrent.reverse ? t->steps - 1 - k : k;
		struct moment *now = &m[k * h], *past = now - h;

		for (int32_t j = 0; j < h; j++) {
			double x[4] = {0};

			now[j].state = k ? past[j].out : t->states ? t->in[1].v[n * h + j] : 0;
			now[j].cell = k ? past[j].cell_out : 0;
			if (!k && t->states && t->node->op == FF_OP_LSTM)
				now[j].cell = t->in[2].v[n * h + j];
			for (int32_t g = 0; g < t->gates; g++) {
				x[g] = t->in[0].v[(n * t->steps + at) * w + g * h + j];
				now[j].u[g] = bias ? bias[g * h + j] : 0;
				for (int32_t i = 0; i < h; i++)
					now[j].u[g] += weight[(g * h + j) * h + i] *
						       (k                          ? past[i].out
								       : t->states ? t->in[1].v[n * h +
												     i]
										   : 0);
			}
			forward_one(t, x, &now[j]);
			t->out[0].v[(n * t->steps + at) * h + j] = now[j].out;
			carry(t, 0, n, at, j, now[j].out, false);
			if (t->node->op == FF_OP_LSTM)
				carry(t, 1, n, at, j, now[j].cell_out, false);
			if (t->cell && k + 1 == t->steps)
				t->out[1].v[n * h + j] = now[j].cell_out;
		}
	}
}

static void backward_sample(struct trial *t, int32_t n, const struct moment *m)
{
	int32_t h = t->hidden, w = t->gates * h;
	uint32_t p = t->node->n_data;
	double *dstate = calloc((size_t)h, sizeof(*dstate));
	double *dcell = calloc((size_t)h, sizeof(*dcell));
	double *du = calloc((size_t)w, sizeof(*du)), dx[4];

	for (int32_t j = 0; t->cell && j < h; j++)
		dcell[j] = t->dout[1].v[n * h + j];
	for (int32_t k = t->steps; k-- > 0;) {
		int32_t at = t->node->attrs.recurrent.reverse ? t->steps - 1 - k : k;
		const struct moment *now = &m[k * h];

		for (int32_t j = 0; j < h; j++) {
			double one[4], d = dstate[j] + t->dout[0].v[(n * t->steps + at) * h + j];

			carry(t, 0, n, at, j, dstate[j], true);
			if (t->node->op == FF_OP_LSTM)
				carry(t, 1, n, at, j, dcell[j], true);
			backward_one(t, &now[j], d, &dcell[j], dx, one, &dstate[j]);
			for (int32_t g = 0; g < t->gates; g++) {
				du[g * h + j] = one[g];
				t->din[0].v[(n * t->steps + at) * w + g * h + j] = dx[g];
				if (t->bias && counts(t, at))
					t->din[p + 1].v[g * h + j] += one[g];
			}
		}
		for (int32_t r = 0; r < w; r++)
			for (int32_t i = 0; i < h; i++) {
				if (counts(t, at))
					t->din[p].v[r * h + i] += du[r] * now[i].state;
				dstate[i] += du[r] * t->in[p].v[r * h + i];
			}
	}
	for (int32_t j = 0; t->states && j < h; j++) {
		t->din[1].v[n * h + j] = dstate[j];
		if (t->node->op == FF_OP_LSTM)
			t->din[2].v[n * h + j] = dcell[j];
	}
	free(du);
	free(dcell);
	free(dstate);
}

/* ---- the definition of a GRU that resets the state before its product ---- */

/* Of one sample's step: gates r, z, n, the state before it, that as it is reset. */
struct reset {
	double *gate, *state, *product;
};

static double row_times(const struct trial *t, int32_t row, const double *x)
{
	double sum = t->bias ? t->in[t->node->n_data + 1].v[row] : 0;

	for (int32_t i = 0; i < t->hidden; i++)
		sum += t->in[t->node->n_data].v[row * t->hidden + i] * x[i];
	return sum;
}

static void forward_reset(struct trial *t, const double *x, const struct reset *m, double *y)
{
	int32_t h = t->hidden;

	for (int32_t j = 0; j < 2 * h; j++)
		m->gate[j] = sigmoid(x[j] + row_times(t, j, m->state));
	for (int32_t j = 0; j < h; j++)
		m->product[j] = typed_round(t->type, m->gate[j] * m->state[j]);
	for (int32_t j = 0; j < h; j++) {
		double n, z = m->gate[h + j];

		n = m->gate[2 * h + j] = tanh(x[2 * h + j] + row_times(t, 2 * h + j, m->product));
		y[j] = typed_round(t->type, (1 - z) * n + z * m->state[j]);
	}
}

/* Adds what gate `row` has of its gradient to the weights', the bias's and what it multiplied. */
static void spread_row(struct trial *t, int32_t row, double du, const double *x, double *dx)
{
	uint32_t p = t->node->n_data;

	du = typed_round(t->type, du);
	for (int32_t i = 0; i < t->hidden; i++) {
		if (t->counts)
			t->din[p].v[row * t->hidden + i] += du * x[i];
		dx[i] += du * t->in[p].v[row * t->hidden + i];
	}
	if (t->bias && t->counts)
		t->din[p + 1].v[row] += du;
}

/* In place: of the state behind a step that of the one before. */
static void backward_reset(struct trial *t, const struct reset *m, double *dstate, double *dx)
{
	int32_t h = t->hidden;
	const double *r = m->gate, *z = r + h, *n = z + h;
	double *past = calloc((size_t)h, sizeof(*past)),
	       *dproduct = calloc((size_t)h, sizeof(*past));

	for (int32_t j = 0; j < h; j++) {
		dx[2 * h + j] = dstate[j] * (1 - z[j]) * (1 - n[j] * n[j]);
		spread_row(t, 2 * h + j, dx[2 * h + j], m->product, dproduct);
	}
	for (int32_t j = 0; j < h; j++) {
		dx[j] = dproduct[j] * m->state[j] * r[j] * (1 - r[j]);
		dx[h + j] = dstate[j] * (m->state[j] - n[j]) * z[j] * (1 - z[j]);
		past[j] += dstate[j] * z[j] + dproduct[j] * r[j];
	}
	for (int32_t j = 0; j < 2 * h; j++)
		spread_row(t, j, dx[j], m->state, past);
	memcpy(dstate, past, (size_t)h * sizeof(*past));
	free(dproduct);
	free(past);
}

static void define_reset(struct trial *t, int32_t n)
{
	int32_t h = t->hidden, w = 3 * h, last = t->steps - 1;
	bool reverse = t->node->attrs.recurrent.reverse;
	double *all = calloc((size_t)(5 * h * t->steps + 2 * h), sizeof(*all));
	double *dstate = all + 5 * h * t->steps, *y = dstate + h;

	for (int32_t i = 0; i < h && t->states; i++)
		y[i] = t->in[1].v[n * h + i];
	for (int32_t k = 0; k < t->steps; k++) {
		int32_t step = reverse ? last - k : k, at = n * t->steps + step;
		double *own = all + 5 * h * k;
		const struct reset m = {own, own + 3 * h, own + 4 * h};

		memcpy(m.state, y, (size_t)h * sizeof(*y));
		forward_reset(t, t->in[0].v + at * w, &m, y);
		memcpy(t->out[0].v + at * h, y, (size_t)h * sizeof(*y));
		for (int32_t j = 0; j < h; j++)
			carry(t, 0, n, step, j, y[j], false);
	}
	for (int32_t k = t->steps; k-- > 0;) {
		int32_t step = reverse ? last - k : k, at = n * t->steps + step;
		double *own = all + 5 * h * k;
		const struct reset m = {own, own + 3 * h, own + 4 * h};

		t->counts = counts(t, step);
		for (int32_t i = 0; i < h; i++) {
			carry(t, 0, n, step, i, dstate[i], true);
			dstate[i] += t->dout[0].v[at * h + i];
		}
		backward_reset(t, &m, dstate, t->din[0].v + at * w);
	}
	for (int32_t i = 0; i < h && t->states; i++)
		t->din[1].v[n * h + i] = dstate[i];
	free(all);
}

static void define(struct trial *t)
{
	struct moment *m = calloc((size_t)(t->steps * t->hidden), sizeof(*m));

	ck_assert_ptr_nonnull(m);
	for (int32_t n = t->work.box.lo[0]; n < t->work.box.hi[0]; n++) {
		if (t->reset_first) {
			define_reset(t, n);
			continue;
		}
		forward_sample(t, n, m);
		backward_sample(t, n, m);
	}
	free(m);
}

/* ---- kernels ---- */

/* Element `i` of `region`, in the order of its axes, as all lies that is compared: among all. */
static int64_t among_all(const struct ff_operand *o, const struct ff_region *region, int64_t i)
{
	int64_t at = 0, step = 1;

	for (uint32_t a = o->rank; a-- > 0; step *= o->shape[a]) {
		at += (region->lo[a] + i % ff_region_size(region, a)) * step;
		i /= ff_region_size(region, a);
	}
	return at;
}

/* NULL where there is nothing. */
static void *put(struct trial *t, enum ff_dtype type, const struct ff_operand *o,
		const struct ff_region *region, const struct array *from)
{
	int64_t n = ff_region_volume(region);
	void *host = malloc((size_t)(n * ff_dtype_bytes(type)) + 1), *device = NULL;

	ck_assert_ptr_nonnull(host);
	memset(host, 0xff, (size_t)(n * ff_dtype_bytes(type)));
	for (int64_t i = 0; i < n && from; i++)
		typed_put(type, host, i, from->v[among_all(o, region, i)]);
	if (n)
		device = chosen_put(t->dev, t->stream, host, (size_t)(n * ff_dtype_bytes(type)));
	free(host);
	return device;
}

static void compare(struct trial *t, const char *what, const struct ff_operand *o,
		const struct ff_region *region, const void *device, const struct array *want)
{
	enum ff_dtype type = (enum ff_dtype)o->gradient;
	int64_t n = ff_region_volume(region);
	void *host = malloc((size_t)(n * ff_dtype_bytes(type)) + 1);
	double largest = 0.1, bound;
	char key[FF_KEY_BYTES];

	ck_assert_ptr_nonnull(host);
	if (n)
		chosen_get(t->stream, host, device, (size_t)(n * ff_dtype_bytes(type)));
	for (int64_t i = 0; i < want->n; i++)
		largest = fmax(largest, fabs(want->v[i]));
	/* a state that is rounded the other way is a unit in the last place */
	bound = (t->type == FF_BF16 ? 0.02 : 2e-5) * largest;
	for (int64_t i = 0; i < n; i++) {
		double have = typed_get(type, host, i), expected = want->v[among_all(o, region, i)];

		if (fabs(have - expected) <= bound)
			continue;
		ff_work_key(&t->work, key);
		ck_abort_msg("%s %lld of %lld is %g, expected %g: %s", what, (long long)i,
				(long long)n, have, expected, key);
	}
	free(host);
}

static void run(struct trial *t, const struct ff_kernel_io *io)
{
	struct ff_kernel_io ready = *io;
	struct ff_kernel *k;
	struct ff_error err;

	check(backend->kernel.open(t->dev, &t->work, &k, &err), &err);
	ready.workspace = chosen_put(t->dev, t->stream, NULL, (size_t)backend->kernel.workspace(k));
	check(backend->kernel.run(t->stream, k, &ready, &err), &err);
	check(backend->stream.drain(t->stream, &err), &err);
	backend->kernel.close(k);
	backend->memory.free(t->dev, ready.workspace);
}

static void run_forward(struct trial *t, struct ff_kernel_io *io)
{
	const struct ff_node *n = t->node;
	uint32_t seen = n->n_out - n->n_saved;

	for (uint32_t i = 0; i < n->n_in; i++)
		io->in[i] = put(t, n->in_map[i].dtype, &n->in_map[i], &t->work.in[i], &t->in[i]);
	for (uint32_t k = 0; k < n->n_out; k++)
		io->out[k] = put(t, n->out_map[k].dtype, &n->out_map[k], &t->work.out[k], NULL);
	run(t, io);
	for (uint32_t k = 0; k < seen; k++)
		compare(t, "output", &n->out_map[k], &t->work.out[k], io->out[k], &t->out[k]);
}

/* Only what the row says is read is there. */
static void run_backward(struct trial *t, struct ff_kernel_io *io)
{
	const struct ff_node *n = t->node;
	uint32_t seen = n->n_out - n->n_saved;
	struct ff_kernel_io back = *io;

	t->work.pass = FF_BACKWARD;
	for (uint32_t i = 0; i < n->n_in; i++) {
		t->work.need_din[i] = i >= n->n_data || draw(t, 0, 2);
		back.in[i] = i < n->n_data ? NULL : io->in[i];
		if (t->work.need_din[i])
			back.din[i] = put(t, (enum ff_dtype)n->in_map[i].gradient, &n->in_map[i],
					&t->work.in[i], NULL);
	}
	for (uint32_t k = 0; k < seen; k++) {
		back.dout[k] = put(t, n->out_map[k].dtype, &n->out_map[k], &t->work.out[k],
				&t->dout[k]);
		if (!(ff_op_row(n->op)->flags & FF_OP_BACKWARD_OUT))
			back.out[k] = NULL;
	}
	run(t, &back);
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (t->work.need_din[i])
			compare(t, "gradient", &n->in_map[i], &t->work.in[i], back.din[i],
					&t->din[i]);
		backend->memory.free(t->dev, back.din[i]);
	}
	for (uint32_t k = 0; k < seen; k++)
		backend->memory.free(t->dev, (void *)(uintptr_t)back.dout[k]);
}

static void give_back(struct trial *t, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < t->node->n_in; i++)
		backend->memory.free(t->dev, (void *)(uintptr_t)io->in[i]);
	for (uint32_t k = 0; k < t->node->n_out; k++)
		backend->memory.free(t->dev, io->out[k]);
}

static void draw_trial(struct trial *t, enum ff_op op)
{
	struct ff_region box = {.rank = 2};
	const struct ff_node *n;

	t->samples = draw(t, 0, 3) ? draw(t, 1, 5) : draw(t, 6, 20);
	t->steps = draw(t, 1, 5);
	t->hidden = draw(t, 0, 3) ? draw(t, 1, 9) : 16 * draw(t, 1, 3);
	t->gates = op == FF_OP_LSTM ? 4 : op == FF_OP_GRU ? 3 : 1;
	t->bias = draw(t, 0, 1);
	t->states = draw(t, 0, 1);
	t->cell = op == FF_OP_LSTM && draw(t, 0, 1);
	build(t, op);
	n = t->node;
	box.lo[0] = draw(t, 0, t->samples - 1);
	box.hi[0] = draw(t, box.lo[0] + 1, t->samples);
	box.lo[1] = draw(t, 0, 2) ? draw(t, 0, t->steps - 1) : 0;
	box.hi[1] = draw(t, 0, 2) ? draw(t, box.lo[1] + 1, t->steps) : t->steps;
	ff_work_fill(&t->graph, (uint32_t)(n - t->graph.nodes), &box, FF_FORWARD, &t->work);
	for (uint32_t i = 0; i < n->n_in; i++) {
		t->in[i] = whole(t, &n->in_map[i], true);
		t->din[i] = whole(t, &n->in_map[i], false);
	}
	for (uint32_t k = 0; k < n->n_out - n->n_saved; k++) {
		t->out[k] = whole(t, &n->out_map[k], false);
		t->dout[k] = whole(t, &n->out_map[k], true);
	}
	define(t);
}

START_TEST(cells)
{
	static const enum ff_op ops[] = {FF_OP_RNN, FF_OP_LSTM, FF_OP_GRU, FF_OP_GRU};
	enum ff_dtype rounded = chosen_rounded();
	uint64_t seed = ff_test_seed(40);

	for (uint32_t i = 0; i < ff_test_rounds(ROUNDS); i++) {
		struct trial t = {.r = {seed + (uint64_t)_i, i, 0},
				.type = i % 3 == 2 ? rounded : FF_F32,
				.reset_first = _i == 3};
		struct ff_kernel_io io = {.seed = 0};
		struct ff_error err;

		ff_arena_init(&t.arena);
		check(backend->device.open(0, &t.dev, &err), &err);
		check(backend->stream.open(t.dev, false, &t.stream, &err), &err);
		draw_trial(&t, ops[_i]);
		run_forward(&t, &io);
		run_backward(&t, &io);
		give_back(&t, &io);
		backend->stream.close(t.stream);
		backend->device.close(t.dev);
		ff_arena_finish(&t.arena);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("recurrent");
	TCase *c = tcase_create("cells");

	backend = chosen_backend();
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, cells, 0, 4);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
