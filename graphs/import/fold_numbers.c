/* Constants that are computed with, element by element.  SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

void ff_fold_axis(struct ff_constant *c, int64_t size)
{
	if (c->rank < FF_IMPORT_RANK)
		c->shape[c->rank++] = size;
}

/* Whole numbers, element by element; a single one goes with every element. */
static int binary(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, int64_t (*combine)(uint64_t a, uint64_t b),
		struct ff_constant *ret)
{
	const struct ff_constant *large = in[0]->n >= in[1]->n ? in[0] : in[1];
	int code;

	if (in[0]->n != in[1]->n && in[0]->n != 1 && in[1]->n != 1)
		return ff_import_fail(im, n, "constants of these shapes are not folded");
	*ret = *large;
	ret->i = NULL;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		ret->i[k] = combine((uint64_t)in[0]->i[in[0]->n == 1 ? 0 : k],
				(uint64_t)in[1]->i[in[1]->n == 1 ? 0 : k]);
	return FF_OK;
}

/* unsigned: what a file has may overflow */
#define BINARY(name, expression)                                                                   \
	static int64_t combine_##name(uint64_t a, uint64_t b)                                      \
	{                                                                                          \
		return (int64_t)(expression);                                                      \
	}                                                                                          \
	int ff_fold_##name(struct ff_import *im, const Onnx__NodeProto *n,                         \
			const struct ff_constant *const *in, struct ff_constant *ret)              \
	{                                                                                          \
		return binary(im, n, in, combine_##name, ret);                                     \
	}
BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(quotient, b == 0 ? 0 : b == UINT64_MAX ? (int64_t)-a : (int64_t)a / (int64_t)b)

static double element(const struct ff_constant *c, int64_t i)
{
	i = c->n == 1 ? 0 : i;
	return c->whole ? (double)c->i[i] : (double)c->f[i];
}

/* Numbers of any kind, element by element. */
int ff_fold_compare(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const struct ff_constant *large = in[0]->n >= in[1]->n ? in[0] : in[1];
	char kind = n->op_type[0];
	int code;

	if (in[0]->n != in[1]->n && in[0]->n != 1 && in[1]->n != 1)
		return ff_import_fail(im, n, "constants of these shapes are not folded");
	*ret = *large;
	ret->whole = true;
	ret->trained = false;
	ret->weight = NULL;
	ret->i = NULL;
	ret->f = NULL;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++) {
		double a = element(in[0], k), b = element(in[1], k);

		ret->i[k] = kind == 'E' ? a == b : kind == 'G' ? a > b : a < b;
	}
	return FF_OK;
}

int ff_fold_not(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *const *in,
		struct ff_constant *ret)
{
	int code;

	if (!in[0]->whole)
		return ff_import_fail(im, n, "constants of this kind are not folded");
	*ret = *in[0];
	ret->i = NULL;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		ret->i[k] = !in[0]->i[k];
	return FF_OK;
}

int ff_fold_where(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const struct ff_constant *large = in[0];
	int code;

	for (int k = 1; k < 3; k++)
		large = in[k]->n > large->n ? in[k] : large;
	for (int k = 0; k < 3; k++)
		if (in[k]->whole != (k ? in[1]->whole : true) ||
				(in[k]->n != 1 && in[k]->n != large->n))
			return ff_import_fail(im, n, "constants of this kind are not folded");
	*ret = *large;
	ret->whole = in[1]->whole;
	ret->weight = NULL;
	ret->i = NULL;
	ret->f = NULL;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++) {
		const struct ff_constant *c = in[in[0]->i[in[0]->n == 1 ? 0 : k] ? 1 : 2];

		if (ret->whole)
			ret->i[k] = c->i[c->n == 1 ? 0 : k];
		else
			ret->f[k] = c->f[c->n == 1 ? 0 : k];
	}
	return FF_OK;
}

int ff_fold_reduce_prod(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	uint64_t product = 1;
	int code;

	if (!in[0]->whole || in[0]->rank > 1)
		return ff_import_fail(im, n, "constants of this kind are not folded");
	for (int64_t k = 0; k < in[0]->n; k++)
		product *= (uint64_t)in[0]->i[k];
	*ret = (struct ff_constant){.whole = true, .n = 1};
	if (ff_onnx_int(n, "keepdims", 1))
		ff_fold_axis(ret, 1);
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	ret->i[0] = (int64_t)product;
	return FF_OK;
}
