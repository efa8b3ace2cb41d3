/* ONNX operators of one element and of two.  SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#include <inttypes.h>
#include <string.h>

#include "import/arrange.h"
#include "import/emit.h"
#include "import/inputs.h"
#include "import/lift.h"
#include "import/origin.h"
#include "import/values.h"

/* One input, one output. */
static int emit(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		enum ff_op op, const union ff_attrs *attrs)
{
	const struct ff_emit e = {.op = op, .attrs = attrs, .in = {*in}, .n_in = 1};

	return ff_emit_as(im, n, &e);
}

/* ONNX operators that become one of ours without attributes. */
static const struct {
	const char *name;
	enum ff_op op;
} plain[] = {
		{"Relu", FF_OP_RELU},
		{"Tanh", FF_OP_TANH},
		{"Sigmoid", FF_OP_SIGMOID},
		{"HardSwish", FF_OP_HARDSWISH},
		{"Exp", FF_OP_EXP},
		{"Log", FF_OP_LOG},
		{"Sqrt", FF_OP_SQRT},
		{"Neg", FF_OP_NEG},
		{"Abs", FF_OP_ABS},
		{"Erf", FF_OP_ERF},
		{"Sin", FF_OP_SIN},
		{"Cos", FF_OP_COS},
		{"Asin", FF_OP_ASIN},
		{"Acos", FF_OP_ACOS},
		{"Atan", FF_OP_ATAN},
		{"Floor", FF_OP_FLOOR},
		{"Round", FF_OP_ROUND},
};

static int emit_plain(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value *in;
	uint32_t k = 0;
	int code = ff_onnx_in_node(im, n, 0, &in);

	while (code == FF_OK && strcmp(plain[k].name, n->op_type) != 0)
		k++;
	return code < 0 ? code : emit(im, n, in, plain[k].op, NULL);
}

static int emit_leaky_relu(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LEAKY_RELU);
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	a.unary.a = (double)ff_onnx_real(n, "alpha", 0.01f);
	return code < 0 ? code : emit(im, n, in, FF_OP_LEAKY_RELU, &a);
}

static int emit_gelu(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_GELU);
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	a.unary.form = ff_onnx_is(n, "approximate", "tanh");
	return code < 0 ? code : emit(im, n, in, FF_OP_GELU, &a);
}

/* factor x + offset */
static int scale(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		double factor, double offset, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_SCALE);
	const struct ff_emit e = {.op = FF_OP_SCALE, .attrs = &a, .in = {*in}, .n_in = 1};

	a.unary.a = factor;
	a.unary.b = offset;
	return ff_emit(im, n, &e, ret, 1);
}

/* min(max(alpha x + beta, 0), 1) */
static int emit_hard_sigmoid(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CLIP);
	struct ff_onnx_value line = {.kind = FF_ONNX_NODE}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK)
		code = scale(im, n, in, (double)ff_onnx_real(n, "alpha", 0.2f),
				(double)ff_onnx_real(n, "beta", 0.5f), &line);
	a.unary.a = 0;
	a.unary.b = 1;
	return code < 0 ? code : emit(im, n, &line, FF_OP_CLIP, &a);
}

static bool is_number(const struct ff_constant *c)
{
	return c->n == 1;
}

static double number_of(const struct ff_constant *c)
{
	return c->whole ? (double)c->i[0] : (double)c->f[0];
}

/* A limit that is left out is none. */
static int read_limit(struct ff_import *im, const Onnx__NodeProto *n, size_t i, double *ret)
{
	const struct ff_constant *c;
	int code;

	if (!ff_onnx_in(im, n, i))
		return FF_OK;
	if ((code = ff_onnx_in_constant(im, n, i, &c)) < 0)
		return code;
	if (!is_number(c))
		return ff_import_fail(im, n, "its limits are not single numbers");
	*ret = number_of(c);
	return FF_OK;
}

static int emit_clip(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CLIP);
	struct ff_onnx_value *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = read_limit(im, n, 1, &a.unary.a)) < 0 ||
			(code = read_limit(im, n, 2, &a.unary.b)) < 0)
		return code;
	return emit(im, n, in, FF_OP_CLIP, &a);
}

static int power(struct ff_import *im, const Onnx__NodeProto *n, double exponent)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POW);
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	a.unary.a = exponent;
	return code < 0 ? code : emit(im, n, in, FF_OP_POW, &a);
}

static int emit_reciprocal(struct ff_import *im, const Onnx__NodeProto *n)
{
	return power(im, n, -1);
}

static int emit_pow(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_constant *exponent;
	int code = ff_onnx_in_constant(im, n, 1, &exponent);

	if (code < 0)
		return code;
	if (!is_number(exponent))
		return ff_import_fail(im, n, "its exponent is not a single number");
	return power(im, n, number_of(exponent));
}

/* Functions of two: what they become, and with a number c on the right, or on the left, as
 * factor x + offset where `scales` says that they can. */
static const struct binary {
	const char *name;
	enum ff_op op;
	bool commutes, scales;
	double factor, by_c; /* c on the right: factor + by_c c, or by_c / c of a quotient */
	double offset_by_c;
} binaries[] = {
		{"Add", FF_OP_ADD, true, true, 1, 0, 1},
		{"Sum", FF_OP_ADD, true, true, 1, 0, 1},
		{"Sub", FF_OP_SUB, false, true, 1, 0, -1},
		{"Mul", FF_OP_MUL, true, true, 0, 1, 0},
		{"Div", FF_OP_DIV, false, true, 0, 1, 0},
		{"Min", FF_OP_MIN, true, false, 0, 0, 0},
		{"Max", FF_OP_MAX, true, false, 0, 0, 0},
};

static const struct binary *binary_of(const Onnx__NodeProto *n)
{
	uint32_t k = 0;

	while (strcmp(binaries[k].name, n->op_type) != 0)
		k++;
	return &binaries[k];
}

/* A tensor's weights beside a computed one, as a value of every sample: elements that were moved,
 * or on the left of what does not commute. */
static int with_lifted(struct ff_import *im, const Onnx__NodeProto *n, const struct binary *b,
		const struct ff_onnx_value *in, const struct ff_constant *own, bool left)
{
	struct ff_onnx_value known = {.kind = FF_ONNX_NODE};
	struct ff_emit e = {.op = b->op, .n_in = 2};
	int32_t shape[FF_MAX_RANK] = {in->shape[0]};
	uint32_t more = in->rank - own->rank;
	int code;

	for (uint32_t k = 1; k < in->rank; k++)
		shape[k] = k < more ? 1 : (int32_t)own->shape[k - more];
	code = ff_lift(im, n, own, in->rank, shape, &known);
	known.arranged = in->arranged;
	known.onnx_rank = in->onnx_rank;
	known.batch_at = in->batch_at;
	memcpy(known.group, in->group, sizeof(known.group));
	e.in[left] = *in;
	e.in[!left] = known;
	return code < 0 ? code : ff_emit_as(im, n, &e);
}

/* A tensor's weights beside a computed one: a parameter of the node. */
static int with_parameter(struct ff_import *im, const Onnx__NodeProto *n, const struct binary *b,
		const struct ff_onnx_value *in, const struct ff_constant *c, bool left)
{
	union ff_attrs a = ff_attrs_preset(b->op);
	struct ff_emit e = {.op = b->op, .attrs = &a, .in = {*in}, .n_in = 1};
	struct ff_constant own;
	int code = ff_onnx_fit(im, n, c, in, &own);

	if (code == FF_OK && !in->arranged && own.rank == in->rank)
		code = ff_lift_sample(im, n, &own, &own);
	if (code < 0)
		return code;
	if (own.places || own.swapped || (left && !b->commutes))
		return with_lifted(im, n, b, in, &own, left);
	if (!own.rank) /* a single number */
		own.shape[own.rank++] = 1;
	a.binary.rank = (int32_t)own.rank;
	for (uint32_t k = 0; k < own.rank; k++)
		a.binary.shape[k] = (int32_t)own.shape[k];
	if ((code = ff_emit_param(im, n, &own, false, &e.params[0])) < 0)
		return code;
	return ff_emit_as(im, n, &e);
}

/* What with_parameter makes of `n`, whose output 0 that becomes, as a value of its own. */
int ff_onnx_times(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const struct ff_constant *c, struct ff_onnx_value *ret)
{
	const struct binary product = {"Mul", FF_OP_MUL, true, true, 0, 1, 0};
	struct ff_emit e = {.op = FF_OP_MUL, .in = {*v}, .n_in = 2};
	int code;

	if (!c->trained) {
		e.in[1] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
		code = ff_emit_constant(im, n, c, v, &e.in[1]);
		return code < 0 ? code : ff_emit(im, n, &e, ret, 1);
	}
	if ((code = with_parameter(im, n, &product, v, c, false)) == FF_OK)
		*ret = *ff_onnx_value(im, n->output[0]);
	return code;
}

/* Numbers that are not trained, on either side of a computed tensor. */
static int with_constant(struct ff_import *im, const Onnx__NodeProto *n, const struct binary *b,
		const struct ff_onnx_value *in, const struct ff_constant *c, bool left)
{
	struct ff_onnx_value known = {.kind = FF_ONNX_NODE};
	struct ff_emit e = {.op = b->op, .n_in = 2};
	int code = ff_emit_constant(im, n, c, in, &known);

	e.in[left] = *in;
	e.in[!left] = known;
	return code < 0 ? code : ff_emit_as(im, n, &e);
}

/* A number on either side. */
static int with_number(struct ff_import *im, const Onnx__NodeProto *n, const struct binary *b,
		const struct ff_onnx_value *in, double c, bool left)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, turned = *in;
	bool quotient = b->op == FF_OP_DIV;
	union ff_attrs a = ff_attrs_preset(FF_OP_POW);
	const struct ff_emit inverse = {.op = FF_OP_POW, .attrs = &a, .in = {*in}, .n_in = 1};
	double factor = b->factor + b->by_c * (quotient && !left ? 1 / c : c);
	double offset = b->offset_by_c * c;
	int code = FF_OK;

	a.unary.a = -1;
	if (left && quotient) /* c / x */
		code = ff_emit(im, n, &inverse, &turned, 1);
	if (left && b->op == FF_OP_SUB) { /* c - x */
		factor = -1;
		offset = c;
	}
	if (code == FF_OK && factor == 1 && offset == 0)
		return ff_onnx_set_same(im, n, 0, &turned);
	if (code == FF_OK)
		code = scale(im, n, &turned, factor, offset, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

static int emit_binary(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct binary *b = binary_of(n);
	const struct ff_onnx_value *in[2] = {ff_onnx_in(im, n, 0), ff_onnx_in(im, n, 1)};
	bool left = in[0] && in[0]->kind == FF_ONNX_CONSTANT;
	struct ff_onnx_value *bad;
	int code;

	if (n->n_input != 2 || !in[0] || !in[1] ||
			(in[0]->kind == FF_ONNX_NODE && in[1]->kind == FF_ONNX_NODE))
		return ff_onnx_many(im, n, b->op, NULL);
	for (size_t i = 0; i < 2; i++)
		if (in[i]->kind == FF_ONNX_APART)
			return ff_onnx_in_node(im, n, i, &bad);
	if (in[left]->kind == FF_ONNX_CONSTANT) { /* one of them is trained */
		left = in[1]->constant.n > in[0]->constant.n;
		if ((code = ff_onnx_in_node(im, n, left, &bad)) < 0)
			return code;
		in[left] = bad;
	}
	ff_origin_doubt(im, &in[!left]->constant);
	if (is_number(&in[!left]->constant) && !in[!left]->constant.trained && b->scales)
		return with_number(im, n, b, in[left], number_of(&in[!left]->constant), left);
	if (!in[!left]->constant.trained)
		return with_constant(im, n, b, in[left], &in[!left]->constant, left);
	return with_parameter(im, n, b, in[left], &in[!left]->constant, left);
}

const struct ff_onnx_row *ff_onnx_pointwise_row(const char *op)
{
	static const struct ff_onnx_row rows[] = {
			{"LeakyRelu", emit_leaky_relu, true},
			{"Gelu", emit_gelu, true},
			{"HardSigmoid", emit_hard_sigmoid, true},
			{"Clip", emit_clip, true},
			{"Reciprocal", emit_reciprocal, true},
			{"Pow", emit_pow, true},
	};
	static const struct ff_onnx_row one = {"", emit_plain, true}, two = {"", emit_binary, true};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].op, op))
			return &rows[i];
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!strcmp(plain[i].name, op))
			return &one;
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++)
		if (!strcmp(binaries[i].name, op))
			return &two;
	return NULL;
}
