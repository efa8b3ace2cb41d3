/* Constant folding: what exporters write to compute shapes and masks, and what they do to weights
 * before these are read.  What is trained is moved here, and known to be moved, but not computed
 * with, so that weights stay what they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <inttypes.h>
#include <string.h>

#include "fold_moves.h"
#include "import/arrange.h"
#include "import/model.h"
#include "import/values.h"

static int constant_of(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const Onnx__AttributeProto *t = ff_onnx_attr(n, "value");
	const Onnx__AttributeProto *i = ff_onnx_attr(n, "value_int"),
				   *is = ff_onnx_attr(n, "value_ints");
	const Onnx__AttributeProto *f = ff_onnx_attr(n, "value_float"),
				   *fs = ff_onnx_attr(n, "value_floats");
	int code;

	(void)in;
	if (t && t->t)
		return ff_onnx_tensor(im, t->t, ret);
	*ret = (struct ff_constant){.whole = !f && !fs, .n = 1};
	if (is || fs) {
		ret->rank = 1;
		ret->n = ret->shape[0] = (int64_t)(is ? is->n_ints : fs->n_floats);
	}
	if (!i && !is && !f && !fs)
		return ff_import_fail(im, n, "its value is of a kind that is not supported");
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		if (f || fs)
			ret->f[k] = f ? f->f : fs->floats[k];
		else
			ret->i[k] = is ? is->ints[k] : i->i;
	return FF_OK;
}

static int same(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *const *in,
		struct ff_constant *ret)
{
	(void)im, (void)n;
	*ret = *in[0];
	return FF_OK;
}

bool ff_fold_is_real(int64_t type)
{
	return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
	       type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
	       type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
	       type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

static int cast(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *const *in,
		struct ff_constant *ret)
{
	int64_t to = ff_onnx_int(n, "to", 0);

	return ff_fold_convert(im, in[0], !ff_fold_is_real(to),
			to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, ret);
}

enum kind {
	COMPUTES, /* not with what is trained */
	ASKS,     /* the same of what is trained, whose elements do not go on */
	MOVES,    /* from place to place */
	VIEWS,    /* the same elements in the same order */
};

static const struct fold {
	const char *op;
	size_t inputs; /* at least */
	enum kind kind;
	ff_fold_function fold;
} folds[] = {
		{"Constant", 0, VIEWS, constant_of},
		{"ConstantOfShape", 1, ASKS, ff_fold_constant_of_shape},
		{"Identity", 1, VIEWS, same},
		{"Cast", 1, VIEWS, cast},
		{"Unsqueeze", 1, VIEWS, ff_fold_unsqueeze},
		{"Squeeze", 1, VIEWS, ff_fold_squeeze},
		{"Reshape", 2, VIEWS, ff_fold_reshape},
		{"Flatten", 1, VIEWS, ff_fold_flatten},
		{"Transpose", 1, MOVES, ff_fold_transpose},
		{"Concat", 1, MOVES, ff_fold_concat},
		{"Gather", 2, MOVES, ff_fold_gather},
		{"GatherND", 2, MOVES, ff_fold_gather_nd},
		{"Slice", 3, MOVES, ff_fold_slice},
		{"Expand", 2, MOVES, ff_fold_expand},
		{"Tile", 2, MOVES, ff_fold_tile},
		{"Trilu", 1, COMPUTES, ff_fold_triangle},
		{"Abs", 1, COMPUTES, ff_fold_unary},
		{"Ceil", 1, COMPUTES, ff_fold_unary},
		{"Cos", 1, COMPUTES, ff_fold_unary},
		{"Erf", 1, COMPUTES, ff_fold_unary},
		{"Exp", 1, COMPUTES, ff_fold_unary},
		{"Floor", 1, COMPUTES, ff_fold_unary},
		{"Log", 1, COMPUTES, ff_fold_unary},
		{"Neg", 1, COMPUTES, ff_fold_unary},
		{"Reciprocal", 1, COMPUTES, ff_fold_unary},
		{"Relu", 1, COMPUTES, ff_fold_unary},
		{"Round", 1, COMPUTES, ff_fold_unary},
		{"Sigmoid", 1, COMPUTES, ff_fold_unary},
		{"Sign", 1, COMPUTES, ff_fold_unary},
		{"Sin", 1, COMPUTES, ff_fold_unary},
		{"Sqrt", 1, COMPUTES, ff_fold_unary},
		{"Tanh", 1, COMPUTES, ff_fold_unary},
		{"Add", 2, COMPUTES, ff_fold_binary},
		{"Sum", 1, COMPUTES, ff_fold_binary},
		{"Sub", 2, COMPUTES, ff_fold_binary},
		{"Mul", 2, COMPUTES, ff_fold_binary},
		{"Div", 2, COMPUTES, ff_fold_binary},
		{"Mod", 2, COMPUTES, ff_fold_binary},
		{"Pow", 2, COMPUTES, ff_fold_binary},
		{"Min", 1, COMPUTES, ff_fold_binary},
		{"Max", 1, COMPUTES, ff_fold_binary},
		{"Clip", 1, COMPUTES, ff_fold_clip},
		{"Equal", 2, ASKS, ff_fold_compare},
		{"Greater", 2, ASKS, ff_fold_compare},
		{"GreaterOrEqual", 2, ASKS, ff_fold_compare},
		{"Less", 2, ASKS, ff_fold_compare},
		{"LessOrEqual", 2, ASKS, ff_fold_compare},
		{"And", 2, ASKS, ff_fold_compare},
		{"Or", 2, ASKS, ff_fold_compare},
		{"Xor", 2, ASKS, ff_fold_compare},
		{"Not", 1, ASKS, ff_fold_not},
		{"Where", 3, COMPUTES, ff_fold_where},
		{"Range", 3, COMPUTES, ff_fold_range},
		{"ScatterND", 3, COMPUTES, ff_fold_scatter},
		{"CumSum", 2, COMPUTES, ff_fold_cumulate},
		{"MatMul", 2, COMPUTES, ff_fold_product},
		{"ReduceMax", 1, COMPUTES, ff_fold_reduce},
		{"ReduceMean", 1, COMPUTES, ff_fold_reduce},
		{"ReduceMin", 1, COMPUTES, ff_fold_reduce},
		{"ReduceProd", 1, COMPUTES, ff_fold_reduce},
		{"ReduceSum", 1, COMPUTES, ff_fold_reduce},
};

/* The shape of what is computed is known too; since opset 15 of some of its axes. */
static int shape_of(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_onnx_value *v = ff_onnx_in(im, n, 0);
	struct ff_constant c = {.whole = true, .rank = 1};
	int64_t shape[FF_IMPORT_RANK], start, end, rank;
	int code;

	if (!v)
		return ff_import_fail(im, n, "input 0 is missing");
	rank = v->kind == FF_ONNX_NODE ? ff_onnx_shape(v, shape) : v->constant.rank;
	start = ff_onnx_int(n, "start", 0);
	end = ff_onnx_int(n, "end", rank);
	start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
	end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
	c.n = c.shape[0] = end > start ? end - start : 0;
	if ((code = ff_constant_alloc(im, &c)) < 0)
		return code;
	for (int64_t k = 0; k < c.n; k++)
		c.i[k] = v->kind == FF_ONNX_NODE ? shape[start + k] : v->constant.shape[start + k];
	*done = true;
	return ff_onnx_set_constant(im, n, 0, &c);
}

static int size_of(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_onnx_value *v = ff_onnx_in(im, n, 0);
	struct ff_constant c = {.whole = true, .n = 1};
	int64_t shape[FF_IMPORT_RANK];
	uint32_t rank;
	int code;

	if (!v)
		return ff_import_fail(im, n, "input 0 is missing");
	rank = v->kind == FF_ONNX_NODE ? ff_onnx_shape(v, shape) : 0;
	if ((code = ff_constant_alloc(im, &c)) < 0)
		return code;
	c.i[0] = v->kind == FF_ONNX_NODE ? 1 : v->constant.n;
	for (uint32_t k = 0; k < rank; k++)
		c.i[0] = (int64_t)((uint64_t)c.i[0] * (uint64_t)shape[k]);
	*done = true;
	return ff_onnx_set_constant(im, n, 0, &c);
}

/* A constant of the type that another value has. */
static int cast_like(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_onnx_value *v = ff_onnx_in(im, n, 0), *like = ff_onnx_in(im, n, 1);
	struct ff_constant c;
	bool whole;
	int code;

	if (!v || !like || v->kind != FF_ONNX_CONSTANT)
		return FF_OK;
	whole = like->kind == FF_ONNX_CONSTANT ? like->constant.whole
					       : ff_dtype_is_whole(like->dtype);
	if ((code = ff_fold_convert(im, &v->constant, whole, false, &c)) < 0)
		return code;
	*done = true;
	return ff_onnx_set_constant(im, n, 0, &c);
}

/* Operators that are folded by what is known of their inputs beside constants, such as shapes. */
static const struct {
	const char *op;
	int (*fold)(struct ff_import *im, const Onnx__NodeProto *n, bool *done);
} known[] = {{"Shape", shape_of}, {"Size", size_of}, {"CastLike", cast_like}};

static const struct fold *find_fold(const char *op)
{
	for (size_t k = 0; k < sizeof(folds) / sizeof(folds[0]); k++)
		if (!strcmp(folds[k].op, op))
			return &folds[k];
	return NULL;
}

bool ff_fold_has(const char *op)
{
	for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		if (!strcmp(known[k].op, op))
			return true;
	return find_fold(op) != NULL;
}

int ff_fold_places(struct ff_import *im, const struct ff_constant *c, struct ff_constant *ret)
{
	const struct ff_constant *root = c->root;

	*ret = *c;
	ret->whole = true;
	ret->trained = false;
	if (ff_fold_alloc_moved(im, ret) < 0)
		return im->err->code;
	ret->places = ret->i;
	for (int64_t i = 0; i < c->n; i++)
		ret->i[i] = c->places     ? c->places[i]
			    : !c->swapped ? i
					  : i % root->shape[0] * root->shape[1] +
							    i / root->shape[0];
	return FF_OK;
}

void ff_fold_set_places(
		const struct ff_constant *root, const int64_t *places, struct ff_constant *c)
{
	bool same = c->n == root->n;

	for (int64_t i = 0; i < c->n && same; i++)
		same = places[i] == i;
	c->root = root;
	c->places = same ? NULL : places;
	c->weight = same ? root->weight : NULL;
	c->swapped = false;
}

/* What is moved of one initializer keeps that it is, by moving places in the same way. */
static int move_places(struct ff_import *im, const Onnx__NodeProto *n, const struct fold *f,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	size_t moved = f->fold == ff_fold_concat ? n->n_input : 1;
	const struct ff_constant **of;
	struct ff_constant *places, all;
	int code = FF_OK;

	if (!ret->trained || ret->weight || ret->n > FF_FOLD_MOST)
		return FF_OK;
	for (size_t i = 0; i < moved; i++)
		if (!in[i] || !in[i]->root || in[i]->root != in[0]->root || in[i]->n > FF_FOLD_MOST)
			return FF_OK;
	of = ff_arena_array(im->arena, n->n_input + 1, sizeof(*of));
	places = ff_arena_array(im->arena, moved, sizeof(*places));
	if (!of || !places)
		return ff_fail_memory(im->err);
	for (size_t i = 0; i < n->n_input; i++)
		of[i] = i < moved ? &places[i] : in[i];
	for (size_t i = 0; i < moved && code == FF_OK; i++)
		code = ff_fold_places(im, in[i], &places[i]);
	if (code == FF_OK && (code = f->fold(im, n, of, &all)) == FF_OK)
		ff_fold_set_places(in[0]->root, all.i, ret);
	return code;
}

int ff_fold_part(struct ff_import *im, const struct ff_constant *c, uint32_t axis, int64_t from,
		int64_t to, struct ff_constant *ret)
{
	struct ff_constant places, part;
	int code = ff_fold_cut(im, c, axis, from, to, 1, ret);

	if (code < 0 || !c->trained || !c->root || c->n > FF_FOLD_MOST)
		return code;
	if ((code = ff_fold_places(im, c, &places)) < 0 ||
			(code = ff_fold_cut(im, &places, axis, from, to, 1, &part)) < 0)
		return code;
	ff_fold_set_places(c->root, part.i, ret);
	return FF_OK;
}

/* What is trained is expanded by a node of its own over the samples, and as a state that a
 * recurrence begins with. */
static bool has_node(
		struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *shape)
{
	const struct ff_onnx_value *out = ff_onnx_value(im, n->output[0]);

	return (shape->whole && shape->n && shape->i[0] == im->samples) ||
	       (out && out->uses == 1 && out->reader && ff_onnx_is_recurrent(out->reader));
}

/* Whether all inputs of `n` are constants that it may be computed from. */
static int read_inputs(struct ff_import *im, const Onnx__NodeProto *n, const struct fold *f,
		const struct ff_constant **in, bool *good)
{
	*good = false;
	for (size_t i = 0; i < n->n_input; i++) {
		const struct ff_onnx_value *v = ff_onnx_in(im, n, i);

		if (v && (v->kind != FF_ONNX_CONSTANT ||
					 (f->kind == COMPUTES && v->constant.trained)))
			return FF_OK;
		if (!v && i < f->inputs)
			return ff_import_fail(im, n, "input %zu is missing", i);
		in[i] = v ? &v->constant : NULL;
	}
	*good = f->fold != ff_fold_expand || !in[0]->trained || !has_node(im, n, in[1]);
	return FF_OK;
}

int ff_fold(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct fold *f = find_fold(n->op_type);
	const struct ff_constant **in;
	struct ff_constant c;
	bool good;
	int code;

	*done = false;
	for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
		if (!strcmp(known[k].op, n->op_type))
			return known[k].fold(im, n, done);
	if (!f || n->n_input < f->inputs || !n->n_output)
		return FF_OK;
	in = ff_arena_array(im->arena, n->n_input + 1, sizeof(*in));
	if (!in)
		return ff_fail_memory(im->err);
	if ((code = read_inputs(im, n, f, in, &good)) < 0 || !good)
		return code;
	if ((code = f->fold(im, n, in, &c)) < 0)
		return code;
	if (f->kind == MOVES && (code = move_places(im, n, f, in, &c)) < 0)
		return code;
	*done = true;
	return ff_onnx_set_constant(im, n, 0, &c);
}
