/* Constants that are computed with, many elements at once.  SPDX-License-Identifier: Apache-2.0 */
#include "fold_moves.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "import/values.h"

int ff_fold_range(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	double first, step, steps;
	int code;

	if (in[0]->n != 1 || in[1]->n != 1 || in[2]->n != 1)
		return ff_import_fail(im, n, "expected single numbers");
	first = ff_fold_element(in[0], 0);
	step = ff_fold_element(in[2], 0);
	steps = step == 0 ? -1 : ceil((ff_fold_element(in[1], 0) - first) / step);
	if (step != 0 && steps < 0)
		steps = 0;
	if (!(steps >= 0 && steps <= FF_FOLD_MOST))
		return ff_import_fail(im, n, "its range is none, or too large to be computed");
	*ret = (struct ff_constant){.whole = in[0]->whole};
	ff_fold_axis(ret, (int64_t)steps);
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		if (ret->whole)
			ret->i[k] = (int64_t)(first + (double)k * step);
		else
			ret->f[k] = (float)(first + (double)k * step);
	return FF_OK;
}

/* Of a constant: elements of an axis in order, one after the other at `pitch`, for each place
 * before and behind it. */
struct lines {
	int64_t before, size, behind;
};

static struct lines lines_of(const struct ff_constant *c, uint32_t axis)
{
	struct lines l = {.size = c->shape[axis]};

	ff_fold_around(c, axis, &l.before, &l.behind);
	return l;
}

static int64_t at_line(const struct lines *l, int64_t line, int64_t k)
{
	return (line / l->behind * l->size + k) * l->behind + line % l->behind;
}

static double reduce_line(
		const char *op, const struct ff_constant *c, const struct lines *l, int64_t line)
{
	bool most = !strcmp(op, "ReduceMax"), least = !strcmp(op, "ReduceMin");
	bool product = !strcmp(op, "ReduceProd");
	double sum = product ? 1 : most ? -INFINITY : least ? INFINITY : 0;

	for (int64_t k = 0; k < l->size; k++) {
		double x = ff_fold_element(c, at_line(l, line, k));

		sum = product ? sum * x : most ? fmax(sum, x) : least ? fmin(sum, x) : sum + x;
	}
	return !strcmp(op, "ReduceMean") ? sum / (double)l->size : sum;
}

/* Over one axis, which stays with one element. */
static int reduce_axis(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *in,
		uint32_t axis, struct ff_constant *ret)
{
	struct lines l = lines_of(in, axis);
	int code;

	*ret = *in;
	ret->shape[axis] = 1;
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t line = 0; line < l.before * l.behind; line++) {
		double x = reduce_line(n->op_type, in, &l, line);

		if (!ret->whole)
			ret->f[line] = (float)x;
		else if (x > -9e18 && x < 9e18)
			ret->i[line] = (int64_t)x;
	}
	return FF_OK;
}

int ff_fold_reduce(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	bool marked[FF_IMPORT_RANK] = {0}, any = false, keep = ff_onnx_int(n, "keepdims", 1) != 0;
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "axes");
	const struct ff_constant *given = n->n_input > 1 ? in[1] : NULL;
	int64_t count = a ? (int64_t)a->n_ints : given && given->whole ? given->n : 0;
	struct ff_constant at = *in[0];
	int code = FF_OK;

	for (int64_t k = 0; k < count && code == FF_OK; k++) {
		uint32_t axis;

		code = ff_onnx_axis(im, n, a ? a->ints[k] : given->i[k], at.rank, &axis);
		if (code == FF_OK)
			marked[axis] = any = true;
	}
	if (!any && ff_onnx_int(n, "noop_with_empty_axes", 0)) {
		*ret = at;
		return code;
	}
	for (uint32_t k = 0; k < in[0]->rank && code == FF_OK; k++) {
		if (any && !marked[k])
			continue;
		code = reduce_axis(im, n, &at, k, ret);
		at = *ret;
	}
	*ret = at;
	ret->rank = 0;
	for (uint32_t k = 0; k < at.rank && code == FF_OK; k++)
		if (keep || (any && !marked[k]))
			ff_fold_axis(ret, at.shape[k]);
	return code;
}

int ff_fold_cumulate(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	struct lines l;
	uint32_t axis;
	int code;

	if (ff_onnx_int(n, "exclusive", 0) || ff_onnx_int(n, "reverse", 0))
		return ff_import_fail(im, n, "exclusive and reverse are not supported");
	if (!in[1]->whole || in[1]->n != 1)
		return ff_import_fail(im, n, "its axis is no single number");
	*ret = *in[0];
	if ((code = ff_onnx_axis(im, n, in[1]->i[0], in[0]->rank, &axis)) < 0 ||
			(code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	l = lines_of(in[0], axis);
	for (int64_t line = 0; line < l.before * l.behind; line++) {
		uint64_t whole = 0;
		double sum = 0;

		for (int64_t k = 0; k < l.size; k++) {
			int64_t at = at_line(&l, line, k);

			if (ret->whole)
				ret->i[at] = (int64_t)(whole += (uint64_t)in[0]->i[at]);
			else
				ret->f[at] = (float)(sum += (double)in[0]->f[at]);
		}
	}
	return FF_OK;
}

/* Matrices, and before them axes that both have alike, or the second not at all. */
int ff_fold_product(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const struct ff_constant *a = in[0], *b = in[1];
	int64_t rows, inner, columns, each;
	bool fits = a->rank >= 2 && b->rank >= 2 && !a->whole && !b->whole &&
		    (b->rank == 2 || b->rank == a->rank);
	int code;

	for (uint32_t k = 0; fits && k + 2 < b->rank; k++)
		fits = a->shape[k] == b->shape[k];
	if (!fits || a->shape[a->rank - 1] != b->shape[b->rank - 2])
		return ff_import_fail(im, n, "constants of these shapes are not multiplied");
	inner = a->shape[a->rank - 1];
	rows = a->shape[a->rank - 2];
	columns = b->shape[b->rank - 1];
	*ret = *a;
	ret->shape[a->rank - 1] = columns;
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	if (ret->n && inner > FF_FOLD_ALL / ret->n)
		return ff_import_fail(im, n, "its product takes too long to be computed");
	each = b->rank == 2 ? 0 : inner * columns;
	for (int64_t i = 0; i < ret->n; i++) {
		const float *left = a->f + i / columns * inner;
		const float *right = b->f + i / columns / rows * each + i % columns;
		double sum = 0;

		for (int64_t k = 0; k < inner; k++)
			sum += (double)left[k] * (double)right[k * columns];
		ret->f[i] = (float)sum;
	}
	return FF_OK;
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
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	if (ret->whole)
		memcpy(ret->i, in[0]->i, (size_t)ret->n * sizeof(*ret->i));
	else
		memcpy(ret->f, in[0]->f, (size_t)ret->n * sizeof(*ret->f));
	for (int64_t r = 0; r < rows; r++) {
		int64_t at = ff_fold_place(ret, index->i + r * depth, depth);

		if (at < 0)
			return ff_import_fail(im, n, "its indices do not fit");
		for (int64_t k = 0; k < run; k++)
			ff_fold_copy(in[2], r * run + k, ret, at * run + k);
	}
	return FF_OK;
}
