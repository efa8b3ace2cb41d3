/* Constants that are computed with, element by element.  SPDX-License-Identifier: Apache-2.0 */
#include "fold_numbers.h"

#include <math.h>
#include <string.h>

#include "values.h"

void ff_fold_axis(struct ff_constant *c, int64_t size)
{
	if (c->rank < FF_IMPORT_RANK)
		c->shape[c->rank++] = size;
}

/* How inputs broadcast to one shape, as NumPy has it. */
struct spread {
	int64_t stride[3][FF_IMPORT_RANK];
};

/* The shape that `count` inputs have together; `ret` gets room for elements of its kind. */
static int spread_all(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, uint32_t count, bool whole, struct spread *s,
		struct ff_constant *ret)
{
	*ret = (struct ff_constant){.whole = whole, .n = 1};
	for (uint32_t k = 0; k < count; k++)
		ret->rank = in[k]->rank > ret->rank ? in[k]->rank : ret->rank;
	for (uint32_t a = 0; a < ret->rank; a++) {
		int64_t size = 1;

		for (uint32_t k = 0; k < count; k++) {
			uint32_t own = a + in[k]->rank;
			int64_t x = own < ret->rank ? 1 : in[k]->shape[own - ret->rank];

			if (x != size && x != 1 && size != 1)
				return ff_import_fail(
						im, n, "constants of these shapes do not match");
			size = x == 1 ? size : x;
		}
		ret->shape[a] = size;
		if (__builtin_mul_overflow(ret->n, size, &ret->n) || ret->n > INT32_MAX)
			return ff_import_fail(im, n, "a constant is too large to be folded");
	}
	for (uint32_t k = 0; k < count; k++) {
		int64_t pitch = 1;

		for (uint32_t a = in[k]->rank; a-- > 0; pitch *= in[k]->shape[a])
			s->stride[k][a + ret->rank - in[k]->rank] =
					in[k]->shape[a] == 1 ? 0 : pitch;
	}
	return ff_constant_alloc(im, ret);
}

/* Which element of input `k` goes to element `i`. */
static int64_t source_of(
		const struct spread *s, uint32_t k, const struct ff_constant *ret, int64_t i)
{
	int64_t at = 0;

	for (uint32_t a = ret->rank; a-- > 0; i /= ret->shape[a])
		at += i % ret->shape[a] * s->stride[k][a];
	return at;
}

static double element(const struct ff_constant *c, int64_t i)
{
	return c->whole ? (double)c->i[i] : (double)c->f[i];
}

/* Whole numbers, element by element. */
static int binary(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, int64_t (*combine)(uint64_t a, uint64_t b),
		struct ff_constant *ret)
{
	struct spread s = {0};
	int code = spread_all(im, n, in, 2, true, &s, ret);

	for (int64_t k = 0; k < ret->n && code == FF_OK; k++)
		ret->i[k] = combine((uint64_t)in[0]->i[source_of(&s, 0, ret, k)],
				(uint64_t)in[1]->i[source_of(&s, 1, ret, k)]);
	return code;
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
BINARY(modulo, b == 0 ? 0 : b == UINT64_MAX ? 0 : (int64_t)a % (int64_t)b)
BINARY(quotient, b == 0 ? 0 : b == UINT64_MAX ? (int64_t)-a : (int64_t)a / (int64_t)b)

/* Numbers of any kind, element by element. */
int ff_fold_compare(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	struct spread s = {0};
	char kind = n->op_type[0];
	int code = spread_all(im, n, in, 2, true, &s, ret);

	for (int64_t k = 0; k < ret->n && code == FF_OK; k++) {
		double a = element(in[0], source_of(&s, 0, ret, k));
		double b = element(in[1], source_of(&s, 1, ret, k));

		ret->i[k] = kind == 'E' ? a == b : kind == 'G' ? a > b : a < b;
	}
	return code;
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
	struct spread s = {0};
	int code;

	if (!in[0]->whole || in[1]->whole != in[2]->whole)
		return ff_import_fail(im, n, "constants of this kind are not folded");
	code = spread_all(im, n, in, 3, in[1]->whole, &s, ret);
	for (int64_t k = 0; k < ret->n && code == FF_OK; k++) {
		uint32_t which = in[0]->i[source_of(&s, 0, ret, k)] ? 1 : 2;
		int64_t at = source_of(&s, which, ret, k);

		if (ret->whole)
			ret->i[k] = in[which]->i[at];
		else
			ret->f[k] = in[which]->f[at];
	}
	return code;
}

int ff_fold_real(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	char kind = n->op_type[0] == 'P' ? '^' : n->op_type[0];
	struct spread s = {0};
	int code = spread_all(im, n, in, 2, false, &s, ret);

	for (int64_t k = 0; k < ret->n && code == FF_OK; k++) {
		double a = element(in[0], source_of(&s, 0, ret, k));
		double b = element(in[1], source_of(&s, 1, ret, k));

		ret->f[k] = (float)(kind == 'A'   ? a + b
				    : kind == 'S' ? a - b
				    : kind == 'M' ? a * b
				    : kind == 'D' ? a / b
						  : pow(a, b));
	}
	return code;
}

int ff_fold_range(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	double first = element(in[0], 0), step = element(in[2], 0);
	double steps = step == 0 ? -1 : (element(in[1], 0) - first) / step;
	int code;

	if (in[0]->n != 1 || in[1]->n != 1 || in[2]->n != 1 ||
			!(steps >= 0 && steps < FF_FOLD_MOST))
		return ff_import_fail(im, n, "its range is none, or too large to be folded");
	*ret = (struct ff_constant){.whole = in[0]->whole};
	ret->n = (int64_t)steps + ((double)(int64_t)steps < steps);
	ff_fold_axis(ret, ret->n);
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		if (ret->whole)
			ret->i[k] = (int64_t)(first + (double)k * step);
		else
			ret->f[k] = (float)(first + (double)k * step);
	return FF_OK;
}

/* Where a row of indices points to among the elements of `c`, or -1. */
static int64_t place_of(const struct ff_constant *c, const int64_t *index, int64_t depth)
{
	int64_t at = 0;

	for (int64_t k = 0; k < depth; k++) {
		int64_t i = index[k] < 0 ? index[k] + c->shape[k] : index[k];

		if (i < 0 || i >= c->shape[k])
			return -1;
		at = at * c->shape[k] + i;
	}
	return at;
}

/* The first with rows of the third put where the second says. */
int ff_fold_scatter(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const struct ff_constant *index = in[1];
	int64_t depth = index->rank ? index->shape[index->rank - 1] : 0, run = 1, rows;
	int code;

	if (!index->whole || depth < 1 || depth > in[0]->rank || in[2]->whole != in[0]->whole)
		return ff_import_fail(im, n, "constants of this kind are not folded");
	for (uint32_t k = (uint32_t)depth; k < in[0]->rank; k++)
		run *= in[0]->shape[k];
	rows = index->n / depth;
	if (in[2]->n != rows * run)
		return ff_import_fail(im, n, "its updates do not fit");
	*ret = *in[0];
	ret->weight = NULL;
	ret->i = NULL;
	ret->f = NULL;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	if (ret->whole)
		memcpy(ret->i, in[0]->i, (size_t)ret->n * sizeof(*ret->i));
	else
		memcpy(ret->f, in[0]->f, (size_t)ret->n * sizeof(*ret->f));
	for (int64_t r = 0; r < rows; r++) {
		int64_t at = place_of(ret, index->i + r * depth, depth);

		if (at < 0)
			return ff_import_fail(im, n, "its indices do not fit");
		for (int64_t k = 0; k < run; k++)
			if (ret->whole)
				ret->i[at * run + k] = in[2]->i[r * run + k];
			else
				ret->f[at * run + k] = in[2]->f[r * run + k];
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
