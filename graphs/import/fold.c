/* Constant folding: what exporters write to compute shapes, and what they do to weights
 * before these are read.  Whole numbers are folded by every operator here; real ones only
 * where they are moved, not where they are computed with, so that weights stay what they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <inttypes.h>
#include <string.h>

#include "arrange.h"
#include "fold_numbers.h"
#include "model.h"
#include "values.h"

static int constant_of(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const Onnx__AttributeProto *t = ff_onnx_attr(n, "value");
	const Onnx__AttributeProto *i = ff_onnx_attr(n, "value_int"),
				   *is = ff_onnx_attr(n, "value_ints");
	const Onnx__AttributeProto *f = ff_onnx_attr(n, "value_float");
	int code;

	(void)in;
	if (t && t->t)
		return ff_onnx_tensor(im, t->t, ret);
	*ret = (struct ff_constant){.whole = !f, .n = 1};
	if (is) {
		ret->rank = 1;
		ret->n = ret->shape[0] = (int64_t)is->n_ints;
	}
	if (!i && !is && !f)
		return ff_import_fail(im, n, "its value is of a kind that is not supported");
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		if (f)
			ret->f[k] = f->f;
		else
			ret->i[k] = is ? is->ints[k] : i->i;
	return FF_OK;
}

static int constant_of_shape(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const Onnx__AttributeProto *t = ff_onnx_attr(n, "value");
	struct ff_constant one = {0};
	int code = t && t->t ? ff_onnx_tensor(im, t->t, &one) : FF_OK;

	if (code < 0)
		return code;
	*ret = (struct ff_constant){.whole = one.i != NULL, .rank = (uint32_t)in[0]->n, .n = 1};
	if (!in[0]->whole || in[0]->n > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "expected a shape");
	for (uint32_t k = 0; k < ret->rank; k++) {
		ret->shape[k] = in[0]->i[k];
		if (ret->shape[k] < 0 || ret->shape[k] > FF_FOLD_MOST ||
				(ret->n *= ret->shape[k]) > FF_FOLD_MOST)
			return ff_import_fail(
					im, n, "its shape is none, or too large to be folded");
	}
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		if (ret->whole)
			ret->i[k] = one.i[0];
		else
			ret->f[k] = one.f ? one.f[0] : 0;
	return FF_OK;
}

/* The same elements under another shape. */
static void view(const struct ff_constant *in, struct ff_constant *ret)
{
	*ret = *in;
	ret->rank = 0;
}

static bool has_axis(const int64_t *axes, size_t n, int64_t axis, int64_t rank)
{
	for (size_t i = 0; i < n; i++)
		if (axes[i] == axis || axes[i] + rank == axis)
			return true;
	return false;
}

/* Axes are an attribute before opset 13 and an input since. */
static void axes_of(const Onnx__NodeProto *n, const struct ff_constant *given, const int64_t **axes,
		size_t *count)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "axes");

	*axes = a ? a->ints : given && given->whole ? given->i : NULL;
	*count = a ? a->n_ints : given && given->whole ? (size_t)given->n : 0;
}

static int unsqueeze(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const int64_t *axes;
	size_t count;
	int64_t rank;
	uint32_t at = 0;

	axes_of(n, n->n_input > 1 ? in[1] : NULL, &axes, &count);
	rank = in[0]->rank + (int64_t)count;
	if (rank > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "more than %d axes", FF_IMPORT_RANK);
	view(in[0], ret);
	for (int64_t k = 0; k < rank; k++) {
		bool added = has_axis(axes, count, k, rank) || at == in[0]->rank;

		ff_fold_axis(ret, added ? 1 : in[0]->shape[at]);
		at += !added;
	}
	return FF_OK;
}

static int squeeze(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const int64_t *axes;
	size_t count;

	(void)im;
	axes_of(n, n->n_input > 1 ? in[1] : NULL, &axes, &count);
	view(in[0], ret);
	for (uint32_t k = 0; k < in[0]->rank; k++)
		if (in[0]->shape[k] != 1 || (count && !has_axis(axes, count, k, in[0]->rank)))
			ff_fold_axis(ret, in[0]->shape[k]);
	return FF_OK;
}

static int reshape(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	int64_t known = 1;

	view(in[0], ret);
	if (!in[1]->whole || in[1]->n > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "expected a shape");
	for (int64_t k = 0; k < in[1]->n; k++) {
		int64_t size = in[1]->i[k];

		if (size == 0 && k < in[0]->rank)
			size = in[0]->shape[k];
		if (size < -1 || size > INT64_C(1) << 40)
			return ff_import_fail(im, n, "expected a shape");
		if (size > 0 && __builtin_mul_overflow(known, size, &known))
			return ff_import_fail(im, n, "expected a shape");
		ff_fold_axis(ret, size);
	}
	for (uint32_t k = 0; k < ret->rank; k++)
		if (ret->shape[k] == -1) {
			ret->shape[k] = known ? ret->n / known : 0;
			known *= ret->shape[k];
		}
	if (known != ret->n)
		return ff_import_fail(im, n, "its shape does not fit %" PRId64 " elements", ret->n);
	return FF_OK;
}

static int same(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *const *in,
		struct ff_constant *ret)
{
	(void)im, (void)n;
	*ret = *in[0];
	return FF_OK;
}

static int cast(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *const *in,
		struct ff_constant *ret)
{
	int64_t to = ff_onnx_int(n, "to", 0);
	bool real = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
		    to == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
		    to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
		    to == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
	int code;

	*ret = *in[0];
	if (real == !in[0]->whole && to != ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)
		return FF_OK;
	ret->whole = !real;
	ret->i = NULL;
	ret->f = NULL;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < ret->n; k++)
		if (real)
			ret->f[k] = (float)in[0]->i[k];
		else if (in[0]->whole)
			ret->i[k] = in[0]->i[k] != 0;
		else
			ret->i[k] = in[0]->f[k] > -9e18f && in[0]->f[k] < 9e18f
						    ? (int64_t)in[0]->f[k]
						    : 0;
	return FF_OK;
}

/* Elements from `from`, `count` runs of `run` that are `pitch` apart, to `to`. */
static void move(const struct ff_constant *in, int64_t from, int64_t pitch, int64_t run,
		int64_t count, struct ff_constant *ret, int64_t to, int64_t to_pitch)
{
	size_t size = in->whole ? sizeof(*in->i) : sizeof(*in->f);
	const char *source = in->whole ? (const char *)in->i : (const char *)in->f;
	char *sink = ret->whole ? (char *)ret->i : (char *)ret->f;

	for (int64_t k = 0; k < count; k++)
		memcpy(sink + (size_t)(to + k * to_pitch) * size,
				source + (size_t)(from + k * pitch) * size, (size_t)run * size);
}

/* Elements before and behind an axis. */
static void around(const struct ff_constant *c, uint32_t axis, int64_t *before, int64_t *behind)
{
	*before = *behind = 1;
	for (uint32_t k = 0; k < axis; k++)
		*before *= c->shape[k];
	for (uint32_t k = axis + 1; k < c->rank; k++)
		*behind *= c->shape[k];
}

static int concat(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	int64_t before, behind, at = 0, all = 0;
	uint32_t axis;
	int code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0), in[0]->rank, &axis);

	if (code < 0)
		return code;
	for (size_t k = 0; k < n->n_input; k++) {
		if (!in[k])
			return ff_import_fail(im, n, "input %zu is missing", k);
		if (in[k]->whole != in[0]->whole || in[k]->rank != in[0]->rank)
			return ff_import_fail(im, n, "its inputs do not match");
		for (uint32_t j = 0; j < in[0]->rank; j++)
			if (j != axis && in[k]->shape[j] != in[0]->shape[j])
				return ff_import_fail(im, n, "its inputs do not match");
		all += in[k]->shape[axis];
	}
	around(in[0], axis, &before, &behind);
	*ret = *in[0];
	ret->weight = NULL;
	ret->i = NULL;
	ret->f = NULL;
	ret->shape[axis] = all;
	ret->n = before * all * behind;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (size_t k = 0; k < n->n_input; k++) {
		int64_t run = in[k]->shape[axis] * behind;

		move(in[k], 0, run, run, before, ret, at, all * behind);
		at += run;
	}
	return FF_OK;
}

static bool takes_all(const struct ff_constant *indices, int64_t size)
{
	bool all = indices->rank == 1 && indices->n == size;

	for (int64_t k = 0; k < size && all; k++)
		all = indices->i[k] == k;
	return all;
}

static int gather(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	int64_t before, behind, size;
	uint32_t axis;
	int code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0), in[0]->rank, &axis);

	if (code < 0)
		return code;
	if (!in[1]->whole || in[0]->rank - 1 + in[1]->rank > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "its indices are not supported");
	around(in[0], axis, &before, &behind);
	size = in[0]->shape[axis];
	*ret = (struct ff_constant){.whole = in[0]->whole,
			.trained = in[0]->trained,
			.n = before * in[1]->n * behind};
	if (takes_all(in[1], size) && axis == 0) { /* the same rows in their order */
		*ret = *in[0];
		return FF_OK;
	}
	for (uint32_t k = 0; k < axis; k++)
		ff_fold_axis(ret, in[0]->shape[k]);
	for (uint32_t k = 0; k < in[1]->rank; k++)
		ff_fold_axis(ret, in[1]->shape[k]);
	for (uint32_t k = axis + 1; k < in[0]->rank; k++)
		ff_fold_axis(ret, in[0]->shape[k]);
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < in[1]->n; k++) {
		int64_t index = in[1]->i[k] < 0 ? in[1]->i[k] + size : in[1]->i[k];

		if (index < 0 || index >= size)
			return ff_import_fail(
					im, n, "index %" PRId64 " of %" PRId64, in[1]->i[k], size);
		move(in[0], index * behind, size * behind, behind, before, ret, k * behind,
				in[1]->n * behind);
	}
	return FF_OK;
}

/* Elements from `from` to before `to`, `step` apart, of axis `at`. */
static int cut(struct ff_import *im, const struct ff_constant *in, uint32_t at, int64_t from,
		int64_t to, int64_t step, struct ff_constant *ret)
{
	int64_t size = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
	int64_t before, behind;
	int code;

	size = size < 0 ? 0 : size;
	around(in, at, &before, &behind);
	*ret = *in;
	ret->weight = NULL;
	ret->i = NULL;
	ret->f = NULL;
	ret->shape[at] = size;
	ret->n = before * size * behind;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t k = 0; k < size; k++)
		move(in, (from + k * step) * behind, in->shape[at] * behind, behind, before, ret,
				k * behind, size * behind);
	return FF_OK;
}

/* Where a range begins or ends, from the end where negative; of one that goes back it may end
 * before the first. */
static int64_t end_of(int64_t at, int64_t size, bool back)
{
	at = at < 0 ? at + size : at;
	if (back)
		return at < -1 ? -1 : at > size - 1 ? size - 1 : at;
	return at < 0 ? 0 : at > size ? size : at;
}

static int slice(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	struct ff_constant at = *in[0];
	int code = FF_OK;

	for (size_t k = 1; k < n->n_input; k++)
		if (in[k] && (!in[k]->whole || in[k]->n != in[1]->n))
			return ff_import_fail(
					im, n, "its starts, ends, axes and steps do not match");
	for (int64_t k = 0; k < in[1]->n && code == FF_OK; k++) {
		int64_t axis = n->n_input > 3 && in[3] ? in[3]->i[k] : k;
		int64_t step = n->n_input > 4 && in[4] ? in[4]->i[k] : 1, size;
		uint32_t along;

		if ((code = ff_onnx_axis(im, n, axis, at.rank, &along)) < 0)
			return code;
		if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
			return ff_import_fail(im, n, "a step of %" PRId64, step);
		size = at.shape[along];
		code = cut(im, &at, along, end_of(in[1]->i[k], size, step < 0),
				end_of(in[2]->i[k], size, step < 0), step, ret);
		at = *ret;
	}
	*ret = at;
	return code;
}

static int transpose(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const Onnx__AttributeProto *perm = ff_onnx_attr(n, "perm");
	uint32_t rank = in[0]->rank, from[FF_IMPORT_RANK];
	int64_t stride[FF_IMPORT_RANK], at[FF_IMPORT_RANK] = {0}, pitch = 1;
	int code;

	*ret = *in[0];
	ret->i = NULL;
	ret->f = NULL;
	ret->swapped = rank == 2 ? !in[0]->swapped : false;
	if (rank != 2)
		ret->weight = NULL;
	if (perm && perm->n_ints != rank)
		return ff_import_fail(im, n, "its perm does not fit %u axes", rank);
	for (uint32_t k = 0; k < rank; k++) {
		code = ff_onnx_axis(im, n, perm ? perm->ints[k] : rank - 1 - k, rank, &from[k]);
		if (code < 0)
			return code;
		ret->shape[k] = in[0]->shape[from[k]];
	}
	if (rank == 2 && from[0] == 0) {
		*ret = *in[0];
		return FF_OK;
	}
	for (uint32_t k = rank; k-- > 0; pitch *= in[0]->shape[k])
		stride[k] = pitch;
	if ((code = ff_constant_alloc(im, ret)) < 0)
		return code;
	for (int64_t i = 0; i < ret->n; i++) {
		int64_t source = 0;

		for (uint32_t k = 0; k < rank; k++)
			source += at[k] * stride[from[k]];
		if (ret->whole)
			ret->i[i] = in[0]->i[source];
		else
			ret->f[i] = in[0]->f[source];
		for (uint32_t k = rank; k-- > 0 && ++at[k] == ret->shape[k];)
			at[k] = 0;
	}
	return FF_OK;
}

/* What is trained is expanded by a node of its own, so that it stays one parameter. */
static int expand(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	uint32_t rank = in[0]->rank > in[1]->n ? in[0]->rank : (uint32_t)in[1]->n;
	int64_t stride[FF_IMPORT_RANK] = {0}, pitch = 1, volume = 1;
	int code;

	if (!in[1]->whole || rank > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "expected a shape");
	*ret = (struct ff_constant){.whole = in[0]->whole};
	for (uint32_t k = 0; k < rank; k++) {
		uint32_t own = k + in[0]->rank, to = k + (uint32_t)in[1]->n;
		int64_t a = own < rank ? 1 : in[0]->shape[own - rank];
		int64_t b = to < rank ? 1 : in[1]->i[to - rank];

		if ((a != b && a != 1 && b != 1) || b < 1 || b > FF_FOLD_MOST ||
				volume > FF_FOLD_MOST)
			return ff_import_fail(im, n, "its shape does not fit, or is too large");
		ff_fold_axis(ret, a > b ? a : b);
		volume *= a > b ? a : b;
	}
	for (uint32_t k = rank; k-- > rank - in[0]->rank;
			pitch *= in[0]->shape[k + in[0]->rank - rank])
		stride[k] = in[0]->shape[k + in[0]->rank - rank] == 1 ? 0 : pitch;
	ret->n = volume;
	if (volume > FF_FOLD_MOST || (code = ff_constant_alloc(im, ret)) < 0)
		return volume > FF_FOLD_MOST ? ff_import_fail(im, n, "its shape is too large")
					     : code;
	for (int64_t i = 0; i < volume; i++) {
		int64_t rest = i, from = 0;

		for (uint32_t k = rank; k-- > 0; rest /= ret->shape[k])
			from += rest % ret->shape[k] * stride[k];
		if (ret->whole)
			ret->i[i] = in[0]->i[from];
		else
			ret->f[i] = in[0]->f[from];
	}
	return FF_OK;
}

static const struct {
	const char *op;
	size_t inputs; /* at least */
	bool moves;    /* real numbers too, of any size */
	ff_fold_function fold;
} folds[] = {
		{"Constant", 0, true, constant_of},
		{"ConstantOfShape", 1, true, constant_of_shape},
		{"Identity", 1, true, same},
		{"Cast", 1, true, cast},
		{"Unsqueeze", 1, true, unsqueeze},
		{"Squeeze", 1, true, squeeze},
		{"Reshape", 2, true, reshape},
		{"Transpose", 1, true, transpose},
		{"Concat", 1, true, concat},
		{"Gather", 2, true, gather},
		{"Slice", 3, true, slice},
		{"Add", 2, false, ff_fold_add},
		{"Sub", 2, false, ff_fold_sub},
		{"Mul", 2, false, ff_fold_mul},
		{"Div", 2, false, ff_fold_quotient},
		{"Equal", 2, true, ff_fold_compare},
		{"Greater", 2, true, ff_fold_compare},
		{"Less", 2, true, ff_fold_compare},
		{"Pow", 2, false, ff_fold_real},
		{"Mod", 2, false, ff_fold_modulo},
		{"Range", 3, true, ff_fold_range},
		{"ScatterND", 3, true, ff_fold_scatter},
		{"Not", 1, true, ff_fold_not},
		{"Where", 3, true, ff_fold_where},
		{"Expand", 2, true, expand},
		{"ReduceProd", 1, false, ff_fold_reduce_prod},
};

/* The shape of what is computed is known too. */
static int shape_of(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_onnx_value *v = ff_onnx_in(im, n, 0);
	struct ff_constant c = {.whole = true, .rank = 1};
	int64_t shape[FF_IMPORT_RANK];
	uint32_t rank;
	int code;

	if (!v)
		return ff_import_fail(im, n, "input 0 is missing");
	rank = v->kind == FF_ONNX_NODE ? ff_onnx_shape(v, shape) : v->constant.rank;
	c.n = c.shape[0] = rank;
	if ((code = ff_constant_alloc(im, &c)) < 0)
		return code;
	for (int64_t k = 0; k < c.n; k++)
		c.i[k] = v->kind == FF_ONNX_NODE ? shape[k] : v->constant.shape[k];
	*done = true;
	return ff_onnx_set_constant(im, n, 0, &c);
}

/* A constant of the type that another value has. */
static int cast_like(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_onnx_value *v = ff_onnx_in(im, n, 0), *like = ff_onnx_in(im, n, 1);
	bool whole;

	if (!v || !like || v->kind != FF_ONNX_CONSTANT)
		return FF_OK;
	whole = like->kind == FF_ONNX_NODE ? like->dtype == FF_I32 : like->constant.whole;
	*done = v->constant.whole == whole;
	return *done ? ff_onnx_set_constant(im, n, 0, &v->constant) : FF_OK;
}

static size_t find_fold(const char *op)
{
	size_t k = 0;

	while (k < sizeof(folds) / sizeof(folds[0]) && strcmp(folds[k].op, op) != 0)
		k++;
	return k;
}

bool ff_fold_has(const char *op)
{
	return !strcmp(op, "Shape") || !strcmp(op, "CastLike") ||
	       find_fold(op) < sizeof(folds) / sizeof(folds[0]);
}

int ff_fold(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_constant **in;
	bool real = false;
	struct ff_constant c;
	size_t k = find_fold(n->op_type);
	int code;

	*done = false;
	if (!strcmp(n->op_type, "Shape"))
		return shape_of(im, n, done);
	if (!strcmp(n->op_type, "CastLike"))
		return cast_like(im, n, done);
	if (k == sizeof(folds) / sizeof(folds[0]) || n->n_input < folds[k].inputs)
		return FF_OK;
	in = ff_arena_array(im->arena, n->n_input + 1, sizeof(*in));
	if (!in)
		return ff_fail_memory(im->err);
	for (size_t i = 0; i < n->n_input; i++) {
		const struct ff_onnx_value *v = ff_onnx_in(im, n, i);

		if (v && v->kind != FF_ONNX_CONSTANT)
			return FF_OK;
		if (!v && i < folds[k].inputs)
			return ff_import_fail(im, n, "input %zu is missing", i);
		in[i] = v ? &v->constant : NULL;
		if (v && !folds[k].moves && v->constant.trained)
			return FF_OK;
		real = real || (v && !folds[k].moves && !v->constant.whole);
		if (v && v->constant.trained &&
				(folds[k].fold == expand || folds[k].fold == ff_fold_where))
			return FF_OK;
	}
	if (real && n->n_input != 2)
		return FF_OK;
	if ((code = (real ? ff_fold_real : folds[k].fold)(im, n, in, &c)) < 0)
		return code;
	*done = true;
	return ff_onnx_set_constant(im, n, 0, &c);
}
