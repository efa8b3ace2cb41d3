/* RNN, GRU and LSTM: of each direction a linear layer, which makes of all steps at once what their
 * gates get of the input, and the recurrence over the steps.  Parameters are as PyTorch has them,
 * gates in its order.  SPDX-License-Identifier: Apache-2.0 */
#include "recurrent.h"

#include <inttypes.h>
#include <string.h>

#include "import/emit.h"
#include "import/inputs.h"
#include "import/lift.h"
#include "import/values.h"

#define MAX_GATES 4
#define MAX_STATES 2

struct cell {
	const char *type;
	enum ff_op op;
	int32_t gates;
	size_t states;                     /* inputs 5 and behind it, outputs 1 and behind it */
	uint8_t from[MAX_GATES];           /* by gate of ours: which of ONNX' it is */
	const char *activation[MAX_GATES]; /* up to NULL */
};

static const struct cell cells[] = {
		{"RNN", FF_OP_RNN, 1, 1, {0}, {"Tanh"}},
		{"GRU", FF_OP_GRU, 3, 1, {1, 0, 2}, {"Sigmoid", "Tanh"}},
		{"LSTM", FF_OP_LSTM, 4, 2, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}},
};

/* A node, and what its directions have in common. */
struct layer {
	const struct cell *cell;
	struct ff_onnx_value x; /* [N, L, features] */
	int32_t hidden, directions;
	bool backwards;                      /* the first direction */
	bool samples_first;                  /* as ONNX has its values (layout) */
	const struct ff_constant *w, *r, *b; /* b may be NULL */
	bool wants[1 + MAX_STATES];          /* which outputs */
};

/* What each direction makes: all states, the last state, the last cell, [N, L or 1, H]. */
struct made {
	struct ff_onnx_value out[1 + MAX_STATES];
};

static const struct cell *find_cell(const Onnx__NodeProto *n)
{
	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++)
		if (!strcmp(cells[i].type, n->op_type))
			return &cells[i];
	return NULL;
}

/* ---- what is not supported ---- */

static bool has_own_functions(const struct layer *l, const Onnx__NodeProto *n)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "activations");
	size_t each = 0;
	bool own = false;

	while (l->cell->activation[each])
		each++;
	for (size_t i = 0; a && i < a->n_strings; i++) {
		const char *usual = l->cell->activation[i % each];

		own = own || a->strings[i].len != strlen(usual) ||
		      memcmp(a->strings[i].data, usual, strlen(usual)) != 0;
	}
	return own;
}

/* Whether the node of a value of three axes has the samples first: as the model has it, or where
 * it has them second. */
static bool lies(const struct layer *l, const struct ff_onnx_value *v)
{
	if (l->samples_first)
		return !v->arranged && v->rank == 3;
	return v->arranged && v->onnx_rank == 3 && v->rank == 3 && v->group[0] == 1 &&
	       v->group[1] == 0;
}

static int check(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l)
{
	if (ff_onnx_int(n, "input_forget", 0))
		return ff_import_fail(im, n, "its input_forget is not supported");
	if (ff_onnx_attr(n, "clip"))
		return ff_import_fail(im, n, "its clip is not supported");
	if (has_own_functions(l, n))
		return ff_import_fail(im, n,
				"only sigmoid and tanh in their usual places are "
				"supported");
	if (ff_onnx_in(im, n, 4) || ff_onnx_in(im, n, 7))
		return ff_import_fail(im, n, "lengths by sample and peepholes are not supported");
	if (!lies(l, &l->x) || l->x.dtype != FF_F32)
		return ff_import_fail(im, n, "expected %s and features",
				l->samples_first ? "samples, sequences" : "sequences, samples");
	return FF_OK;
}

static int read_direction(struct ff_import *im, const Onnx__NodeProto *n, struct layer *l)
{
	l->backwards = ff_onnx_is(n, "direction", "reverse");
	l->directions = ff_onnx_is(n, "direction", "bidirectional") ? 2 : 1;
	if (ff_onnx_attr(n, "direction") && l->directions == 1 && !l->backwards &&
			!ff_onnx_is(n, "direction", "forward"))
		return ff_import_fail(
				im, n, "its direction is not forward, reverse or bidirectional");
	return FF_OK;
}

static int read_weights(struct ff_import *im, const Onnx__NodeProto *n, struct layer *l)
{
	int64_t rows;
	int code;

	if ((code = ff_onnx_in_constant(im, n, 1, &l->w)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 2, &l->r)) < 0 ||
			(ff_onnx_in(im, n, 3) && (code = ff_onnx_in_constant(im, n, 3, &l->b)) < 0))
		return code;
	l->hidden = (int32_t)(l->r->rank == 3 && l->r->shape[2] < INT32_MAX / 8 ? l->r->shape[2]
										: 0);
	rows = (int64_t)l->cell->gates * l->hidden;
	if (!l->hidden || l->w->whole || l->r->whole || l->w->rank != 3 ||
			l->w->shape[0] != l->directions || l->w->shape[1] != rows ||
			l->w->shape[2] != l->x.shape[2] || l->r->shape[0] != l->directions ||
			l->r->shape[1] != rows ||
			(l->b && (l->b->whole || l->b->rank != 2 ||
						 l->b->shape[0] != l->directions ||
						 l->b->shape[1] != 2 * rows)))
		return ff_import_fail(im, n, "its weights do not fit");
	return FF_OK;
}

/* ---- one direction ---- */

static bool is_reverse(const struct layer *l, int32_t direction)
{
	return l->backwards || direction == 1;
}

/* A name in this node. */
static const char *own_name(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		const char *what, int32_t direction)
{
	return ff_arena_printf(im->arena, "%s.%s%s", n->name && n->name[0] ? n->name : n->output[0],
			what, is_reverse(l, direction) ? "_reverse" : "");
}

/* Matrices of `columns`, or with 0 a vector, from element `at` of a constant on, one a gate. */
static int claim(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		const char *name, const struct ff_constant *c, int64_t at, int64_t columns,
		const char **ret)
{
	struct ff_constant own = *c;
	int64_t each = l->hidden * (columns ? columns : 1);

	own.weight = name;
	own.swapped = false;
	own.rank = columns ? 2 : 1;
	own.shape[0] = (int64_t)l->cell->gates * l->hidden;
	own.shape[1] = columns;
	own.n = l->cell->gates * each;
	own.f = NULL;
	if (!name || ff_constant_alloc(im, &own) < 0)
		return ff_fail_memory(im->err);
	for (int32_t gate = 0; gate < l->cell->gates; gate++)
		memcpy(own.f + gate * each, c->f + at + l->cell->from[gate] * each,
				(size_t)each * sizeof(*own.f));
	return ff_emit_param(im, n, &own, false, ret);
}

/* What the gates get of the input: [N, L, gates H]. */
static int add_gates(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		int32_t direction, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_emit e = {.op = FF_OP_LINEAR, .attrs = &a, .in = {l->x}, .n_in = 1};
	int64_t rows = (int64_t)l->cell->gates * l->hidden, features = l->x.shape[2];
	int code = claim(im, n, l, own_name(im, n, l, "weight_ih", direction), l->w,
			direction * rows * features, features, &e.params[0]);

	if (code == FF_OK && l->b)
		code = claim(im, n, l, own_name(im, n, l, "bias_ih", direction), l->b,
				(int64_t)2 * direction * rows, 0, &e.params[1]);
	a.linear.out_features = (int32_t)rows;
	a.linear.bias = l->b != NULL;
	e.name = own_name(im, n, l, "gates", direction);
	return code < 0 ? code : ff_emit(im, n, &e, ret, 1);
}

static bool is_zero(const struct ff_onnx_value *v)
{
	bool zero = !v || (v->kind == FF_ONNX_CONSTANT && !v->constant.whole);

	for (int64_t i = 0; v && zero && i < v->constant.n; i++)
		zero = v->constant.f[i] == 0;
	return zero;
}

/* One row for all samples: trained, or as it stands; zeros where it is left out. */
static int add_known_state(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		const struct ff_constant *c, const char *name, int32_t direction,
		struct ff_onnx_value *ret)
{
	const struct ff_onnx_value like = {
			.rank = 3, .shape = {l->x.shape[0], 1, l->hidden}, .dtype = FF_F32};
	union ff_attrs a = {.expand = {.rank = 3,
					    .shape = {l->x.shape[0], 1, l->hidden},
					    .own_rank = 3,
					    .own = {1, 1, l->hidden}}};
	struct ff_emit e = {.op = FF_OP_EXPAND, .attrs = &a};
	struct ff_constant own = {.rank = 3, .shape = {1, 1, l->hidden}, .n = l->hidden};
	int code;

	if (c && (c->whole || c->rank != 3 || c->shape[l->samples_first] != l->directions ||
				 c->shape[!l->samples_first] != 1 || c->shape[2] != l->hidden))
		return ff_import_fail(im, n,
				"states that it begins with differ from sample to "
				"sample, and are constants");
	own.trained = c && c->trained &&
		      !is_zero(&(struct ff_onnx_value){.kind = FF_ONNX_CONSTANT, .constant = *c});
	own.weight = c && c->weight && l->directions == 1 ? c->weight : name;
	if (ff_constant_alloc(im, &own) < 0)
		return ff_fail_memory(im->err);
	for (int32_t i = 0; i < l->hidden; i++)
		own.f[i] = c ? c->f[direction * l->hidden + i] : 0;
	if (!own.trained)
		return ff_emit_constant(im, n, &own, &like, ret);
	e.name = ff_arena_printf(im->arena, "%s.all", name);
	code = ff_emit_param(im, n, &own, false, &e.params[0]);
	return code < 0 ? code : ff_emit(im, n, &e, ret, 1);
}

/* Of states [directions, N, H], in the node [N, directions, H], one. */
static int add_state(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		size_t state, int32_t direction, struct ff_onnx_value *ret)
{
	static const char *const names[MAX_STATES] = {"h0", "c0"};
	const struct ff_onnx_value *v = ff_onnx_in(im, n, 5 + state);
	union ff_attrs a = {.slice = {1, direction, direction + 1, 1}};
	struct ff_emit e = {.op = FF_OP_SLICE, .attrs = &a, .n_in = 1};
	struct ff_onnx_value plain;

	if (!v || v->kind == FF_ONNX_CONSTANT)
		return add_known_state(im, n, l, v ? &v->constant : NULL,
				own_name(im, n, l, names[state], direction), direction, ret);
	if (!lies(l, v) || v->shape[1] != l->directions || v->shape[2] != l->hidden)
		return ff_import_fail(im, n, "expected states of directions, samples and features");
	plain = *v;
	plain.arranged = false;
	if (l->directions == 1) {
		*ret = plain;
		return FF_OK;
	}
	e.in[0] = plain;
	return ff_emit(im, n, &e, ret, 1);
}

static int add_last(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *y,
		bool reverse, struct ff_onnx_value *ret)
{
	int32_t at = reverse ? 0 : y->shape[1] - 1;
	union ff_attrs a = {.slice = {1, at, at + 1, 1}};
	const struct ff_emit e = {.op = FF_OP_SLICE, .attrs = &a, .in = {*y}, .n_in = 1};

	if (y->shape[1] == 1) {
		*ret = *y;
		return FF_OK;
	}
	return ff_emit(im, n, &e, ret, 1);
}

static int add_direction(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		int32_t direction, struct made *ret)
{
	union ff_attrs a = ff_attrs_preset(l->cell->op);
	struct ff_emit e = {.op = l->cell->op, .attrs = &a, .n_in = 1};
	int64_t rows = (int64_t)l->cell->gates * l->hidden;
	struct ff_onnx_value out[2] = {{.kind = FF_ONNX_NODE}, {.kind = FF_ONNX_NODE}};
	bool from_zero = true;
	int code = add_gates(im, n, l, direction, &e.in[0]);

	for (size_t i = 0; i < l->cell->states; i++)
		from_zero = from_zero && is_zero(ff_onnx_in(im, n, 5 + i));
	for (size_t i = 0; !from_zero && i < l->cell->states && code == FF_OK; i++)
		code = add_state(im, n, l, i, direction, &e.in[e.n_in++]);
	if (code == FF_OK)
		code = claim(im, n, l, own_name(im, n, l, "weight_hh", direction), l->r,
				direction * rows * l->hidden, l->hidden, &e.params[0]);
	if (code == FF_OK && l->b)
		code = claim(im, n, l, own_name(im, n, l, "bias_hh", direction), l->b,
				(2 * direction + 1) * rows, 0, &e.params[1]);
	if (code < 0)
		return code;
	a.recurrent.bias = l->b != NULL;
	a.recurrent.reverse = is_reverse(l, direction);
	a.recurrent.cell = l->wants[2];
	a.recurrent.reset_first =
			l->cell->op == FF_OP_GRU && !ff_onnx_int(n, "linear_before_reset", 0);
	code = ff_emit(im, n, &e, out, l->wants[2] ? 2 : 1);
	ret->out[0] = out[0];
	ret->out[2] = out[1];
	if (code == FF_OK && l->wants[1])
		code = add_last(im, n, &out[0], is_reverse(l, direction), &ret->out[1]);
	return code;
}

/* ---- outputs ---- */

/* Output 0, [L, directions, N, H] of the model, is [N, L, directions, H] here; the others,
 * [directions, N, H], are [N, directions, H]; as with layout 1 they are in the model. */
static int set_output(struct ff_import *im, const Onnx__NodeProto *n, const struct layer *l,
		size_t i, const struct made made[2])
{
	const struct ff_onnx_value *first = &made[0].out[i];
	const int32_t shape[4] = {first->shape[0], first->shape[1], l->directions, l->hidden};
	union ff_attrs a = {.concat = {i ? 1 : 2}};
	const struct ff_emit e = {
			.op = FF_OP_CONCAT, .attrs = &a, .in = {*first, made[1].out[i]}, .n_in = 2};
	struct ff_onnx_value joined = *first, out = {.kind = FF_ONNX_NODE};
	int code = l->directions == 2 ? ff_emit(im, n, &e, &joined, 1) : FF_OK;

	out = joined;
	if (code == FF_OK && !i)
		code = ff_emit_reshape(im, n, &joined, 4, shape, &out);
	out.arranged = !l->samples_first;
	out.onnx_rank = i ? 3 : 4;
	out.batch_at = 0;
	if (out.arranged)
		memcpy(out.group, i ? (const uint8_t[]){1, 0, 2, 0} : (const uint8_t[]){2, 0, 1, 3},
				4);
	return code < 0 ? code : ff_onnx_set_same(im, n, i, &out);
}

int ff_onnx_recurrent(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct layer l = {.cell = find_cell(n)};
	struct made made[2] = {0};
	struct ff_onnx_value *x;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &x)) < 0)
		return code;
	l.x = *x;
	l.samples_first = ff_onnx_int(n, "layout", 0) == 1;
	if ((code = check(im, n, &l)) < 0 || (code = read_direction(im, n, &l)) < 0 ||
			(code = read_weights(im, n, &l)) < 0)
		return code;
	l.x.arranged = false;
	for (size_t i = 0; i <= l.cell->states && i < n->n_output; i++)
		l.wants[i] = n->output[i][0] && ff_onnx_value(im, n->output[i])->uses;
	for (int32_t d = 0; d < l.directions && code == FF_OK; d++)
		code = add_direction(im, n, &l, d, &made[d]);
	for (size_t i = 0; i <= l.cell->states && code == FF_OK; i++)
		if (l.wants[i])
			code = set_output(im, n, &l, i, made);
	return code;
}
