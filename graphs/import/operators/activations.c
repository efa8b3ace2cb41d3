/* Softmax, and activations that are several operators of the graph.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "activations.h"

#include <inttypes.h>
#include <string.h>

#include "import/arrange.h"
#include "import/emit.h"
#include "import/fold/fold_moves.h"
#include "import/inputs.h"
#include "import/lift.h"
#include "import/values.h"
#include "pointwise.h"

/* Before opset 13 all axes from `axis` on together, which is the same for the last. */
static int softmax(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op)
{
	union ff_attrs a = ff_attrs_preset(op);
	struct ff_onnx_value *in;
	uint32_t axis;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK)
		code = ff_onnx_axis_of(
				im, n, ff_onnx_int(n, "axis", im->opset < 13 ? 1 : -1), in, &axis);
	if (code < 0)
		return code;
	if (im->opset < 13 && axis + 1 < in->rank)
		return ff_import_fail(im, n,
				"over several axes (opset %" PRId64 ") is not supported",
				im->opset);
	a.softmax.axis = (int32_t)axis;
	return ff_onnx_many(im, n, op, &a);
}

int ff_onnx_softmax(struct ff_import *im, const Onnx__NodeProto *n)
{
	return softmax(im, n, FF_OP_SOFTMAX);
}

int ff_onnx_log_softmax(struct ff_import *im, const Onnx__NodeProto *n)
{
	return softmax(im, n, FF_OP_LOG_SOFTMAX);
}

/* A function of one element. */
static int one(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op, double a, double b,
		const struct ff_onnx_value *in, struct ff_onnx_value *ret)
{
	union ff_attrs attrs = ff_attrs_preset(op);
	const struct ff_emit e = {.op = op, .attrs = &attrs, .in = {*in}, .n_in = 1};

	ret->kind = FF_ONNX_NODE;
	if (op == FF_OP_SCALE || op == FF_OP_CLIP) {
		attrs.unary.a = a;
		attrs.unary.b = b;
	}
	return ff_emit(im, n, &e, ret, 1);
}

static int two(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const struct ff_onnx_value *a, const struct ff_onnx_value *b,
		struct ff_onnx_value *ret)
{
	const struct ff_emit e = {.op = op, .in = {*a, *b}, .n_in = 2};

	ret->kind = FF_ONNX_NODE;
	return ff_emit(im, n, &e, ret, 1);
}

#define LEAST (-3.402823466e38)

/* gamma (max(x, 0) + alpha (exp(min(x, 0) / by) - 1)) */
static int exponential(struct ff_import *im, const Onnx__NodeProto *n, double alpha, double gamma,
		double by)
{
	struct ff_onnx_value above = {0}, below = {0}, v = {0}, w = {0}, *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = one(im, n, FF_OP_RELU, 0, 0, in, &above)) < 0 ||
			(code = one(im, n, FF_OP_CLIP, LEAST, 0, in, &v)) < 0 ||
			(code = by == 1 ? FF_OK : one(im, n, FF_OP_SCALE, 1 / by, 0, &v, &v)) < 0 ||
			(code = one(im, n, FF_OP_EXP, 0, 0, &v, &w)) < 0 ||
			(code = one(im, n, FF_OP_SCALE, alpha, -alpha, &w, &below)) < 0 ||
			(code = two(im, n, FF_OP_ADD, &above, &below, &v)) < 0)
		return code;
	if (gamma != 1)
		code = one(im, n, FF_OP_SCALE, gamma, 0, &v, &v);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &v);
}

static int emit_elu(struct ff_import *im, const Onnx__NodeProto *n)
{
	return exponential(im, n, (double)ff_onnx_real(n, "alpha", 1), 1, 1);
}

static int emit_celu(struct ff_import *im, const Onnx__NodeProto *n)
{
	double alpha = (double)ff_onnx_real(n, "alpha", 1);

	if (!(alpha > 0))
		return ff_import_fail(im, n, "an alpha of %g", alpha);
	return exponential(im, n, alpha, 1, alpha);
}

static int emit_selu(struct ff_import *im, const Onnx__NodeProto *n)
{
	return exponential(im, n, (double)ff_onnx_real(n, "alpha", 1.67326319f),
			(double)ff_onnx_real(n, "gamma", 1.05070102f), 1);
}

/* max(x, 0) + log(1 + exp(-|x|)), which does not overflow */
static int softplus(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		struct ff_onnx_value *ret)
{
	struct ff_onnx_value above = {0}, v = {0}, w = {0};
	int code;

	if ((code = one(im, n, FF_OP_RELU, 0, 0, in, &above)) < 0 ||
			(code = one(im, n, FF_OP_ABS, 0, 0, in, &v)) < 0 ||
			(code = one(im, n, FF_OP_SCALE, -1, 0, &v, &w)) < 0 ||
			(code = one(im, n, FF_OP_EXP, 0, 0, &w, &v)) < 0 ||
			(code = one(im, n, FF_OP_SCALE, 1, 1, &v, &w)) < 0 ||
			(code = one(im, n, FF_OP_LOG, 0, 0, &w, &v)) < 0)
		return code;
	return two(im, n, FF_OP_ADD, &above, &v, ret);
}

static int emit_softplus(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value v = {0}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK)
		code = softplus(im, n, in, &v);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &v);
}

/* x tanh(softplus(x)) */
static int emit_mish(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value v = {0}, w = {0}, *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 || (code = softplus(im, n, in, &v)) < 0 ||
			(code = one(im, n, FF_OP_TANH, 0, 0, &v, &w)) < 0 ||
			(code = two(im, n, FF_OP_MUL, in, &w, &v)) < 0)
		return code;
	return ff_onnx_set_same(im, n, 0, &v);
}

/* x sigmoid(alpha x) */
static int emit_swish(struct ff_import *im, const Onnx__NodeProto *n)
{
	double alpha = (double)ff_onnx_real(n, "alpha", 1);
	struct ff_onnx_value v = {0}, w = {0}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK && alpha == 1)
		code = one(im, n, FF_OP_SILU, 0, 0, in, &v);
	else if (code < 0 || (code = one(im, n, FF_OP_SCALE, alpha, 0, in, &v)) < 0 ||
			(code = one(im, n, FF_OP_SIGMOID, 0, 0, &v, &w)) < 0 ||
			(code = two(im, n, FF_OP_MUL, in, &w, &v)) < 0)
		return code;
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &v);
}

/* max(x, 0) + slope min(x, 0) */
static int emit_prelu(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value above = {0}, below = {0}, v = {0}, *in;
	const struct ff_constant *slope;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &slope)) < 0 ||
			(code = one(im, n, FF_OP_RELU, 0, 0, in, &above)) < 0 ||
			(code = one(im, n, FF_OP_CLIP, LEAST, 0, in, &v)) < 0 ||
			(code = ff_onnx_times(im, n, &v, slope, &below)) < 0 ||
			(code = two(im, n, FF_OP_ADD, &above, &below, &v)) < 0)
		return code;
	return ff_onnx_set_same(im, n, 0, &v);
}

/* What is above a diagonal, or below it, of matrices that are computed. */
static int emit_triangle(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_constant ones = {.rank = 2, .shape = {0}}, mask;
	const struct ff_constant *in[2] = {&ones}, *diagonal;
	struct ff_onnx_value known = {0}, v = {0}, *x;
	int code = ff_onnx_in_node(im, n, 0, &x);

	if (code == FF_OK && ff_onnx_in(im, n, 1) &&
			(code = ff_onnx_in_constant(im, n, 1, &diagonal)) == FF_OK)
		in[1] = diagonal;
	if (code < 0)
		return code;
	if (x->rank < 3)
		return ff_import_fail(im, n, "expected matrices of each sample");
	for (uint32_t k = 0; k < 2; k++)
		ones.shape[k] = x->shape[x->rank - 2 + k];
	if ((code = ff_fold_alloc(im, n, &ones)) < 0)
		return code;
	for (int64_t i = 0; i < ones.n; i++)
		ones.f[i] = 1;
	if ((code = ff_fold_triangle(im, n, in, &mask)) < 0 ||
			(code = ff_emit_constant(im, n, &mask, x, &known)) < 0 ||
			(code = two(im, n, FF_OP_MUL, x, &known, &v)) < 0)
		return code;
	return ff_onnx_set_same(im, n, 0, &v);
}

const struct ff_onnx_row *ff_onnx_activation_row(const char *op)
{
	static const struct ff_onnx_row rows[] = {
			{"Elu", emit_elu, true},
			{"Celu", emit_celu, true},
			{"Selu", emit_selu, true},
			{"Softplus", emit_softplus, true},
			{"Mish", emit_mish, true},
			{"Swish", emit_swish, true},
			{"PRelu", emit_prelu, true},
			{"Trilu", emit_triangle},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].op, op))
			return &rows[i];
	return NULL;
}
