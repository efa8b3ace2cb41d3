/* LSTM nodes as cells of elementary operators, one a step, that share their weights.
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* One direction: what its cells have in common. */
struct lstm {
	int32_t samples, steps, hidden;
	struct ff_onnx_value gates;       /* x W + b, of all steps: [N, L, 4 H] */
	const char *weight, *bias, *name; /* of the recurrent product; bias may be NULL */
};

static int unary(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const struct ff_onnx_value *in, struct ff_onnx_value *ret)
{
	const struct ff_emit e = {.op = op, .in = {*in}, .n_in = 1};

	return ff_emit(im, n, &e, ret, 1);
}

static int binary(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const struct ff_onnx_value *a, const struct ff_onnx_value *b,
		struct ff_onnx_value *ret)
{
	const struct ff_emit e = {.op = op, .in = {*a, *b}, .n_in = 2};

	return ff_emit(im, n, &e, ret, 1);
}

/* Elements from `at` on of axis `axis`. */
static int range(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		int32_t axis, int32_t at, int32_t size, struct ff_onnx_value *ret)
{
	union ff_attrs a = {.slice = {axis, at, at + size, 1}};
	const struct ff_emit e = {.op = FF_OP_SLICE, .attrs = &a, .in = {*in}, .n_in = 1};

	return ff_emit(im, n, &e, ret, 1);
}

/* Elements of a constant from `from` on under another shape, and a name that they have in this
 * node: their order is the gates', which is not PyTorch's. */
static struct ff_constant part_of(struct ff_import *im, const Onnx__NodeProto *n, const char *name,
		const struct ff_constant *c, int64_t from, uint32_t rank, int64_t rows,
		int64_t columns)
{
	struct ff_constant r = *c;

	r.weight = ff_arena_printf(
			im->arena, "%s.%s", n->name && n->name[0] ? n->name : n->output[0], name);
	r.swapped = false;
	r.rank = rank;
	r.shape[0] = rows;
	r.shape[1] = columns;
	r.n = rows * columns;
	r.f = c->f + from;
	return r;
}

/* What the gates of a step add from the state before: h R + b, of a state of zeros b alone. */
static int recur(struct ff_import *im, const Onnx__NodeProto *n, const struct lstm *l,
		const struct ff_onnx_value *x, const struct ff_onnx_value *h,
		struct ff_onnx_value *ret)
{
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), own = ff_attrs_preset(FF_OP_ADD);
	struct ff_emit e = {.op = FF_OP_LINEAR,
			.attrs = &fc,
			.n_in = 1,
			.params = {l->weight, l->bias}};
	struct ff_emit bias = {
			.op = FF_OP_ADD, .attrs = &own, .in = {*x}, .n_in = 1, .params = {l->bias}};
	struct ff_onnx_value product = {.kind = FF_ONNX_NODE};
	int code;

	if (!h) {
		own.binary.rank = 1;
		own.binary.shape[0] = 4 * l->hidden;
		*ret = *x;
		return l->bias ? ff_emit(im, n, &bias, ret, 1) : FF_OK;
	}
	fc.linear.out_features = 4 * l->hidden;
	fc.linear.bias = l->bias != NULL;
	e.in[0] = *h;
	code = ff_emit(im, n, &e, &product, 1);
	return code < 0 ? code : binary(im, n, FF_OP_ADD, x, &product, ret);
}

/* One step: h and c, NULL before the first, become what comes next.  ONNX has the gates input,
 * output, forget, cell. */
static int step(struct ff_import *im, const Onnx__NodeProto *n, const struct lstm *l, int32_t t,
		struct ff_onnx_value *h, struct ff_onnx_value *c, bool first)
{
	static const enum ff_op function[] = {
			FF_OP_SIGMOID, FF_OP_SIGMOID, FF_OP_SIGMOID, FF_OP_TANH};
	const int32_t row[2] = {l->samples, 4 * l->hidden};
	struct ff_onnx_value x = {.kind = FF_ONNX_NODE}, all = x, flat = x, gate[4], kept = x,
			     now = x;
	int code = range(im, n, &l->gates, 1, t, 1, &x);

	if (code == FF_OK)
		code = ff_emit_reshape(im, n, &x, 2, row, &flat);
	if (code == FF_OK)
		code = recur(im, n, l, &flat, first ? NULL : h, &all);
	for (int32_t k = 0; k < 4 && code == FF_OK; k++) {
		struct ff_onnx_value in = {.kind = FF_ONNX_NODE};

		gate[k] = in;
		if (first && k == 2) /* there is nothing to forget */
			continue;
		code = range(im, n, &all, 1, k * l->hidden, l->hidden, &in);
		if (code == FF_OK)
			code = unary(im, n, function[k], &in, &gate[k]);
	}
	if (code == FF_OK)
		code = binary(im, n, FF_OP_MUL, &gate[0], &gate[3], &now);
	if (code == FF_OK && !first)
		code = binary(im, n, FF_OP_MUL, &gate[2], c, &kept);
	if (code == FF_OK && !first)
		code = binary(im, n, FF_OP_ADD, &kept, &now, c);
	if (first)
		*c = now;
	x = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	if (code == FF_OK)
		code = unary(im, n, FF_OP_TANH, c, &x);
	return code < 0 ? code : binary(im, n, FF_OP_MUL, &gate[1], &x, h);
}

/* All steps; output [L, 1, N, H] of the model is [N, L, 1, H] here. */
static int unroll(struct ff_import *im, const Onnx__NodeProto *n, const struct lstm *l)
{
	const int32_t row[4] = {l->samples, 1, 1, l->hidden};
	union ff_attrs join = ff_attrs_preset(FF_OP_CONCAT);
	struct ff_emit *e = ff_arena_alloc(im->arena, sizeof(*e));
	struct ff_onnx_value h = {.kind = FF_ONNX_NODE}, c = h, out = h;
	int code = e ? FF_OK : ff_fail_memory(im->err);

	if (code < 0)
		return code;
	*e = (struct ff_emit){.op = FF_OP_CONCAT, .attrs = &join, .name = l->name};
	for (int32_t t = 0; t < l->steps && code == FF_OK; t++) {
		code = step(im, n, l, t, &h, &c, t == 0);
		e->in[e->n_in].kind = FF_ONNX_NODE;
		if (code == FF_OK)
			code = ff_emit_reshape(im, n, &h, 4, row, &e->in[e->n_in++]);
	}
	if (code == FF_OK)
		code = ff_emit(im, n, e, &out, 1);
	out.arranged = true;
	out.onnx_rank = 4;
	out.batch_at = 0;
	memcpy(out.group, (const uint8_t[]){2, 0, 1, 3}, 4);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

static bool is_zero(const struct ff_onnx_value *v)
{
	bool zero = !v || (v->kind == FF_ONNX_CONSTANT && !v->constant.whole);

	for (int64_t i = 0; v && zero && i < v->constant.n; i++)
		zero = v->constant.f[i] == 0;
	return zero;
}

/* What of an LSTM is not unrolled. */
static int check(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *x)
{
	static const char *const plain[] = {"activations", "activation_alpha", "activation_beta",
			"clip", "input_forget", "layout"};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (ff_onnx_attr(n, plain[i]) && ff_onnx_int(n, plain[i], 1))
			return ff_import_fail(im, n, "its %s is not supported", plain[i]);
	if (ff_onnx_attr(n, "direction") && !ff_onnx_is(n, "direction", "forward"))
		return ff_import_fail(im, n, "only the forward direction is supported");
	if (ff_onnx_in(im, n, 4) || ff_onnx_in(im, n, 7))
		return ff_import_fail(im, n, "lengths by sample and peepholes are not supported");
	if (!is_zero(ff_onnx_in(im, n, 5)) || !is_zero(ff_onnx_in(im, n, 6)))
		return ff_import_fail(im, n, "it must begin with zeros");
	for (size_t i = 1; i < n->n_output; i++)
		if (n->output[i][0] && ff_onnx_value(im, n->output[i])->uses)
			return ff_import_fail(
					im, n, "its last state is not supported as an output");
	if (!x->arranged || x->onnx_rank != 3 || x->rank != 3 || x->group[0] != 1)
		return ff_import_fail(im, n, "expected sequences, samples and features");
	if (x->shape[1] > FF_MAX_INPUTS - FF_MAX_PARAMS)
		return ff_import_fail(im, n, "more than %d steps", FF_MAX_INPUTS - FF_MAX_PARAMS);
	return FF_OK;
}

int ff_onnx_lstm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_emit e = {.op = FF_OP_LINEAR, .attrs = &fc, .n_in = 1};
	struct lstm l = {.gates = {.kind = FF_ONNX_NODE}};
	const struct ff_constant *w, *r, *b = NULL;
	struct ff_constant of_x, of_h, x_bias, h_bias;
	struct ff_onnx_value *x;
	int64_t gates;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &x)) < 0 || (code = check(im, n, x)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &w)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 2, &r)) < 0 ||
			(ff_onnx_in(im, n, 3) && (code = ff_onnx_in_constant(im, n, 3, &b)) < 0))
		return code;
	l.samples = x->shape[0];
	l.steps = x->shape[1];
	l.hidden = (int32_t)(r->rank == 3 ? r->shape[2] : 0);
	gates = 4 * (int64_t)l.hidden;
	if (w->whole || r->whole || !gates || w->n != gates * x->shape[2] ||
			r->n != gates * l.hidden || (b && (b->whole || b->n != 2 * gates)))
		return ff_import_fail(im, n, "its weights do not fit");
	of_x = part_of(im, n, "W", w, 0, 2, gates, x->shape[2]);
	of_h = part_of(im, n, "R", r, 0, 2, gates, l.hidden);
	if ((code = ff_emit_param(im, n, &of_x, false, &e.params[0])) < 0 ||
			(code = ff_emit_param(im, n, &of_h, false, &l.weight)) < 0)
		return code;
	if (b) {
		x_bias = part_of(im, n, "Wb", b, 0, 1, gates, 1);
		h_bias = part_of(im, n, "Rb", b, gates, 1, gates, 1);
		if ((code = ff_emit_param(im, n, &x_bias, false, &e.params[1])) < 0 ||
				(code = ff_emit_param(im, n, &h_bias, false, &l.bias)) < 0)
			return code;
	}
	fc.linear.out_features = (int32_t)gates;
	fc.linear.bias = b != NULL;
	e.in[0] = *x;
	e.in[0].arranged = false;
	code = ff_emit(im, n, &e, &l.gates, 1);
	return code < 0 ? code : unroll(im, n, &l);
}
