/* ONNX operators that go with constants, or to a shape.  SPDX-License-Identifier: Apache-2.0 */
#include "constants.h"

#include <inttypes.h>
#include <string.h>

#include "import/arrange.h"
#include "import/emit.h"
#include "import/fold/fold_moves.h"
#include "import/inputs.h"
#include "import/lift.h"
#include "import/values.h"

int ff_emit_pad(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_constant *pads, int32_t mode, double value)
{
	union ff_attrs a = {.pad = {.rank = (int32_t)in->rank, .rank_after = (int32_t)in->rank}};
	const struct ff_emit e = {.op = FF_OP_PAD, .attrs = &a, .in = {*in}, .n_in = 1};
	bool any = false;

	for (uint32_t k = 0; k < in->rank; k++) {
		int64_t before = pads->i[k], after = pads->i[k + in->rank];

		if (before < -INT32_MAX || before > INT32_MAX || after < -INT32_MAX ||
				after > INT32_MAX)
			return ff_import_fail(im, n, "padding of %" PRId64 " and %" PRId64, before,
					after);
		a.pad.before[k] = (int32_t)before;
		a.pad.after[k] = (int32_t)after;
		any = any || before || after;
	}
	a.pad.mode = mode;
	a.pad.value = value;
	return any ? ff_emit_as(im, n, &e) : ff_onnx_set_same(im, n, 0, in);
}

/* A shape to which `in` broadcasts, and what comes out. */
static int read_shape(struct ff_import *im, const Onnx__NodeProto *n, uint32_t rank,
		const int64_t *in, struct ff_expand_attrs *a)
{
	const struct ff_constant *want;
	int code = ff_onnx_in_constant(im, n, 1, &want);

	if (code < 0)
		return code;
	if (!want->whole || want->n > FF_MAX_RANK || rank > FF_MAX_RANK)
		return ff_import_fail(im, n, "expected a shape of at most %d axes", FF_MAX_RANK);
	a->rank = want->n > rank ? (int32_t)want->n : (int32_t)rank;
	for (uint32_t k = 0; k < (uint32_t)a->rank; k++) {
		uint32_t own = k + rank, to = k + (uint32_t)want->n;
		int64_t x = own < (uint32_t)a->rank ? 1 : in[own - (uint32_t)a->rank];
		int64_t y = to < (uint32_t)a->rank ? 1 : want->i[to - (uint32_t)a->rank];

		if ((x != y && x != 1 && y != 1) || y < 1 || y > INT32_MAX)
			return ff_import_fail(im, n,
					"axis %u of %" PRId64 " cannot become %" PRId64, k, x, y);
		a->shape[k] = (int32_t)(x > y ? x : y);
	}
	return FF_OK;
}

/* A parameter, whose first axis is the samples then. */
static int expand_weight(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *c, union ff_attrs *a)
{
	struct ff_emit e = {.op = FF_OP_EXPAND, .attrs = a};
	struct ff_constant own = *c;
	int code;

	while (own.rank > (uint32_t)a->expand.rank) { /* what broadcasts anyway */
		own.rank--;
		memmove(own.shape, own.shape + 1, own.rank * sizeof(*own.shape));
	}
	a->expand.own_rank = (int32_t)own.rank;
	for (uint32_t k = 0; k < own.rank; k++)
		a->expand.own[k] = (int32_t)own.shape[k];
	if ((code = ff_emit_param(im, n, &own, false, &e.params[0])) < 0)
		return code;
	return ff_emit_as(im, n, &e);
}

/* Whether its output is only what a recurrence begins with. */
static bool is_state(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *out = ff_onnx_value(im, n->output[0]);

	return out && out->uses == 1 && out->reader && ff_onnx_is_recurrent(out->reader);
}

/* Of a value whose samples are elsewhere only axes of one element that stand alone become more. */
static int expand_arranged(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_onnx_value *in, const struct ff_expand_attrs *want)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_EXPAND);
	struct ff_emit e = {.op = FF_OP_EXPAND, .attrs = &a, .in = {*in}, .n_in = 1};
	int64_t have[FF_IMPORT_RANK];
	bool same = want->rank == in->onnx_rank;

	ff_onnx_shape(in, have);
	a.expand.rank = (int32_t)in->rank;
	memcpy(a.expand.shape, in->shape, sizeof(a.expand.shape));
	for (uint32_t k = 0; k < in->onnx_rank && same; k++) {
		uint32_t axis;
		int code = FF_OK;

		if (want->shape[k] == have[k])
			continue;
		code = ff_onnx_axis_of(im, n, k, in, &axis);
		if (code < 0)
			return code;
		a.expand.shape[axis] = want->shape[k];
	}
	return same ? ff_emit_as(im, n, &e)
		    : ff_import_fail(im, n, "it would have more axes than before");
}

int ff_onnx_expand(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_EXPAND);
	struct ff_emit e = {.op = FF_OP_EXPAND, .attrs = &a, .n_in = 1};
	struct ff_onnx_value *in = ff_onnx_in(im, n, 0);
	int64_t shape[FF_IMPORT_RANK];
	bool same;
	int code;

	if (in && in->kind == FF_ONNX_CONSTANT && is_state(im, n)) /* made for the samples there */
		return ff_onnx_set_constant(im, n, 0, &in->constant);
	if (in && in->kind == FF_ONNX_CONSTANT) {
		code = read_shape(im, n, in->constant.rank, in->constant.shape, &a.expand);
		return code < 0 ? code : expand_weight(im, n, &in->constant, &a);
	}
	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = read_shape(im, n, ff_onnx_shape(in, shape), shape, &a.expand)) < 0)
		return code;
	if (in->arranged)
		return expand_arranged(im, n, in, &a.expand);
	same = a.expand.rank == (int32_t)in->rank &&
	       !memcmp(a.expand.shape, in->shape, in->rank * sizeof(*in->shape));
	if (same)
		return ff_onnx_set_same(im, n, 0, in);
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

/* Where `c` is `where`, 1; elsewhere 0, or what `other` says. */
static int select(struct ff_import *im, const struct ff_constant *c, bool where,
		const struct ff_constant *other, struct ff_constant *ret)
{
	const struct ff_constant *large = other && other->n > c->n ? other : c;

	*ret = *large;
	ret->whole = ret->trained = false;
	ret->i = NULL;
	ret->f = NULL;
	if (ff_constant_alloc(im, ret) < 0)
		return im->err->code;
	for (int64_t i = 0; i < ret->n; i++) {
		bool here = (c->i[c->n == 1 ? 0 : i] != 0) == where;
		int64_t k = other && other->n > 1 ? i : 0;

		ret->f[i] = !other         ? here
			    : !here        ? 0
			    : other->whole ? (float)other->i[k]
					   : other->f[k];
	}
	return FF_OK;
}

/* `v` where the condition is `where`, else 0. */
static int keep(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const struct ff_constant *c, bool where, struct ff_onnx_value *ret)
{
	struct ff_emit e = {.op = FF_OP_MUL, .in = {*v}, .n_in = 2};
	struct ff_constant mask;
	int code = select(im, c, where, NULL, &mask);

	e.in[1].kind = FF_ONNX_NODE;
	if (code == FF_OK)
		code = ff_emit_constant(im, n, &mask, v, &e.in[1]);
	return code < 0 ? code : ff_emit(im, n, &e, ret, 1);
}

/* One number in the place of many that are alike, where `v` has as many. */
static struct ff_constant single(const struct ff_constant *c, const struct ff_onnx_value *v)
{
	struct ff_constant one = *c;
	bool same = c->rank <= v->rank;

	for (uint32_t k = 0; k < c->rank && same; k++)
		same = c->shape[k] == 1 || c->shape[k] == v->shape[v->rank - c->rank + k];
	for (int64_t i = 1; i < c->n && same; i++)
		same = c->whole ? c->i[i] == c->i[0] : c->f[i] == c->f[0];
	if (same && c->n && !c->trained) {
		one.rank = 0;
		one.n = 1;
	}
	return one;
}

static bool of_one_shape(const struct ff_constant *a, const struct ff_constant *b)
{
	return a->rank == b->rank && !memcmp(a->shape, b->shape, a->rank * sizeof(*a->shape));
}

/* By a condition that is known: what is kept of one, and what is put in the place of the rest. */
int ff_onnx_where(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *in[3];
	struct ff_emit e = {.op = FF_OP_ADD, .n_in = 2};
	const struct ff_constant *c;
	struct ff_constant given, other;
	bool first;
	int code = ff_onnx_in_constant(im, n, 0, &c);

	for (size_t i = 0; i < 3; i++)
		in[i] = ff_onnx_in(im, n, i);
	if (code < 0 || !in[1] || !in[2] || !c->whole)
		return code < 0 ? code : ff_import_fail(im, n, "expected three inputs");
	if (in[1]->arranged || in[2]->arranged)
		return ff_import_fail(im, n, "its samples are not axis 0");
	first = in[1]->kind == FF_ONNX_NODE;
	e.in[0].kind = e.in[1].kind = FF_ONNX_NODE;
	if (in[first ? 1 : 2]->kind != FF_ONNX_NODE)
		return ff_import_fail(im, n, "of weights nothing is chosen");
	if ((code = keep(im, n, in[first ? 1 : 2], c, first, &e.in[0])) < 0)
		return code;
	if (first && in[2]->kind == FF_ONNX_NODE) {
		code = keep(im, n, in[2], c, false, &e.in[1]);
		return code < 0 ? code : ff_emit_as(im, n, &e);
	}
	given = single(&in[first ? 2 : 1]->constant, in[first ? 1 : 2]);
	if (given.trained && given.n > 1)
		return ff_import_fail(im, n, "of weights nothing is chosen");
	if (given.n > 1 && c->n > 1 && !of_one_shape(&given, c))
		return ff_import_fail(im, n, "its condition and its constant have other shapes");
	code = select(im, c, !first, &given, &other);
	if (code == FF_OK)
		code = ff_emit_constant(im, n, &other, &e.in[0], &e.in[1]);
	return code < 0 ? code : ff_emit_as(im, n, &e);
}

/* `number` everywhere but for what is scattered. */
static int scatter_in(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		float number, const struct ff_constant *index, const struct ff_constant *updates,
		struct ff_constant *ret)
{
	struct ff_constant all = {0};
	const struct ff_constant *in[3] = {&all, index, updates};
	int code;

	all.rank = ff_onnx_shape(v, all.shape);
	if ((code = ff_fold_alloc(im, n, &all)) < 0)
		return code;
	for (int64_t i = 0; i < all.n; i++)
		all.f[i] = number;
	return ff_fold_scatter(im, n, in, ret);
}

/* Numbers that are known in the place of some elements: of the others a mask, and those added. */
int ff_onnx_scatter_nd(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_emit keep = {.op = FF_OP_MUL, .n_in = 2}, add = {.op = FF_OP_ADD, .n_in = 2};
	struct ff_onnx_value known = {.kind = FF_ONNX_NODE}, *in;
	const struct ff_constant *index, *updates;
	struct ff_constant none, mask, rest;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &index)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 2, &updates)) < 0)
		return code;
	if (updates->whole || updates->trained)
		return ff_import_fail(im, n, "expected known numbers in the place of others");
	none = *updates;
	none.f = NULL;
	if ((code = ff_constant_alloc(im, &none)) < 0 ||
			(code = scatter_in(im, n, in, 1, index, &none, &mask)) < 0 ||
			(code = scatter_in(im, n, in, 0, index, updates, &rest)) < 0 ||
			(code = ff_emit_constant(im, n, &mask, in, &known)) < 0)
		return code;
	keep.in[0] = *in;
	keep.in[1] = known;
	add.in[0] = add.in[1] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	if ((code = ff_emit(im, n, &keep, &add.in[0], 1)) < 0 ||
			(code = ff_emit_constant(im, n, &rest, in, &add.in[1])) < 0)
		return code;
	return ff_emit_as(im, n, &add);
}
