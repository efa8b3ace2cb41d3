/* Functions of one element: one output element from one input element.  What they compute,
 * runtime/kernels/unary.h says.  SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, unary.field)
static const struct ff_attr_row leaky_relu_attrs[] = {{.name = "slope",
		.type = FF_ATTR_REAL,
		.offset = AT(a),
		.max = (double)FLT_MAX,
		.preset = 0.01}};
static const struct ff_attr_row gelu_attrs[] = {{.name = "approximate",
		.type = FF_ATTR_CHOICE,
		.offset = AT(form),
		.max = 1,
		.choices = "none|tanh",
		.in_key = 1}};
static const struct ff_attr_row pow_attrs[] = {{.name = "exponent",
		.type = FF_ATTR_REAL,
		.offset = AT(a),
		.min = -(double)FLT_MAX,
		.max = (double)FLT_MAX,
		.required = 1,
		.in_key = 1}};
#define LIMIT(key, field, value)                                                                   \
	{                                                                                          \
		.name = (key), .type = FF_ATTR_REAL, .offset = AT(field), .min = -(double)FLT_MAX, \
		.max = (double)FLT_MAX, .preset = (value)                                          \
	}
static const struct ff_attr_row clip_attrs[] = {
		LIMIT("min", a, -(double)FLT_MAX), LIMIT("max", b, (double)FLT_MAX)};
static const struct ff_attr_row scale_attrs[] = {LIMIT("factor", a, 1), LIMIT("offset", b, 0)};
#undef LIMIT
#undef AT

/* Operations an element, forward and backward: a comparison, a sum, a product or a root. */
static int derive_short(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 1, 1, err);
}

/* dx = dy (1 - y y) and dx = dy y (1 - y): three operations each. */
static int derive_smooth(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 1, 3, err);
}

/* A product with a smooth function. */
static int derive_gate(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 4, 6, err);
}

/* A series, behind a recurrence. */
static int derive_series(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 30, 30, err);
}

/* Exponents of which the power is a product or a quotient: the other forms in
 * runtime/kernels/unary.h. */
static int derive_pow(struct ff_derive *d, struct ff_error *err)
{
	static const double forms[] = {2, 3, -1};
	struct ff_unary_attrs *a = &d->node->attrs.unary;

	a->form = 0;
	for (int32_t i = 0; i < 3; i++)
		if (a->a == forms[i])
			a->form = i + 1;
	return ff_derive_alike(d, 1, 3, err);
}

static int derive_clip(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_unary_attrs *a = &d->node->attrs.unary;

	if (a->a > a->b)
		return ff_derive_fail(d, err, "\"min\" %g is larger than \"max\" %g", a->a, a->b);
	return ff_derive_alike(d, 2, 2, err);
}

/* `what` backward reads: FF_OP_BACKWARD_IN, FF_OP_BACKWARD_OUT or nothing. */
#define UNARY(row, text, what, how, ...)                                                           \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = text,                                                           \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.flags = what,                                                             \
			.derive = derive_##how,                                                    \
			__VA_ARGS__}
#define WITH(table) .attrs = (table), .n_attrs = sizeof(table) / sizeof((table)[0])

UNARY(relu, "max(x, 0)", FF_OP_BACKWARD_OUT, short);
UNARY(leaky_relu, "x, or slope x where x is negative", FF_OP_BACKWARD_OUT, short,
		WITH(leaky_relu_attrs));
UNARY(tanh, "hyperbolic tangent", FF_OP_BACKWARD_OUT, smooth);
UNARY(sigmoid, "1 / (1 + exp(-x))", FF_OP_BACKWARD_OUT, smooth);
UNARY(gelu, "x times the normal distribution's share below x", FF_OP_BACKWARD_IN, gate,
		WITH(gelu_attrs));
UNARY(silu, "x sigmoid(x), also called swish", FF_OP_BACKWARD_IN, gate);
UNARY(hardswish, "x min(max(x + 3, 0), 6) / 6", FF_OP_BACKWARD_IN, gate);
UNARY(exp, "exponential function", FF_OP_BACKWARD_OUT, short);
UNARY(log, "natural logarithm", FF_OP_BACKWARD_IN, short);
UNARY(sqrt, "square root", FF_OP_BACKWARD_OUT, short);
UNARY(pow, "x to a constant power", FF_OP_BACKWARD_IN, pow, WITH(pow_attrs),
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "exponent" : 2}));
UNARY(neg, "-x", 0, short);
UNARY(scale, "factor x + offset, both constant", 0, short, WITH(scale_attrs));
UNARY(abs, "absolute value", FF_OP_BACKWARD_IN, short);
UNARY(clip, "x, or the limit that it is beyond", FF_OP_BACKWARD_IN, clip, WITH(clip_attrs));
UNARY(erf, "error function", FF_OP_BACKWARD_IN, smooth);
UNARY(sin, "sine of radians", FF_OP_BACKWARD_IN, smooth);
UNARY(cos, "cosine of radians", FF_OP_BACKWARD_IN, smooth);
UNARY(asin, "inverse sine, in radians", FF_OP_BACKWARD_IN, smooth);
UNARY(acos, "inverse cosine, in radians", FF_OP_BACKWARD_IN, smooth);
UNARY(atan, "inverse tangent, in radians", FF_OP_BACKWARD_IN, smooth);
UNARY(floor, "the largest whole number that is not above x; no gradient", 0, short);
UNARY(round, "the nearest whole number, of two the even one; no gradient", 0, short);
UNARY(lgamma, "logarithm of the gamma function's absolute value", FF_OP_BACKWARD_IN, series);
UNARY(digamma, "slope of lgamma", FF_OP_BACKWARD_IN, series);
UNARY(detach, "x, of which no gradient comes back", 0, short);
