/* Constants whose elements are moved, not computed with.  SPDX-License-Identifier: Apache-2.0 */
#include "fold_moves.h"

#include <inttypes.h>
#include <string.h>

#include "fold_numbers.h"
#include "import/model.h"
#include "import/values.h"

int ff_fold_constant_of_shape(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const Onnx__AttributeProto *t = ff_onnx_attr(n, "value");
	struct ff_constant one = {0};
	int code = t && t->t ? ff_onnx_tensor(im, t->t, &one) : FF_OK;

	if (code < 0)
		return code;
	if (!in[0]->whole || in[0]->n > FF_IMPORT_RANK || (t && t->t && one.n != 1))
		return ff_import_fail(im, n, "expected a shape, and a single number");
	*ret = (struct ff_constant){.whole = one.whole && one.i, .rank = (uint32_t)in[0]->n};
	for (uint32_t k = 0; k < ret->rank; k++)
		ret->shape[k] = in[0]->i[k];
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
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
		if (axes[i] == axis || (axes[i] < 0 && axes[i] + rank == axis))
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

int ff_fold_unsqueeze(struct ff_import *im, const Onnx__NodeProto *n,
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

int ff_fold_squeeze(struct ff_import *im, const Onnx__NodeProto *n,
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

int ff_fold_reshape(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	bool zeros = ff_onnx_int(n, "allowzero", 0) != 0;
	int64_t known = 1;

	view(in[0], ret);
	if (!in[1]->whole || in[1]->n > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "expected a shape");
	for (int64_t k = 0; k < in[1]->n; k++) {
		int64_t size = in[1]->i[k];

		if (size == 0 && k < in[0]->rank && !zeros)
			size = in[0]->shape[k];
		if (size < -1 || size > FF_CONSTANT_MOST ||
				(size >= 0 && __builtin_mul_overflow(known, size, &known)))
			return ff_import_fail(im, n, "expected a shape");
		ff_fold_axis(ret, size);
	}
	for (uint32_t k = 0; k < ret->rank; k++)
		if (ret->shape[k] == -1) {
			ret->shape[k] = known ? ret->n / known : 0;
			known *= ret->shape[k];
		}
	if (known != ret->n || !ff_constant_measure(ret, FF_CONSTANT_MOST))
		return ff_import_fail(
				im, n, "its shape does not fit %" PRId64 " elements", in[0]->n);
	return FF_OK;
}

/* As a matrix. */
int ff_fold_flatten(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	int64_t axis = ff_onnx_int(n, "axis", 1);

	axis = axis < 0 ? axis + in[0]->rank : axis;
	if (axis < 0 || axis > in[0]->rank)
		return ff_import_fail(im, n, "axis %" PRId64 " of %u", axis, in[0]->rank);
	view(in[0], ret);
	ff_fold_axis(ret, 1);
	ff_fold_axis(ret, 1);
	for (uint32_t k = 0; k < in[0]->rank; k++)
		ret->shape[k >= axis] *= in[0]->shape[k];
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
void ff_fold_around(const struct ff_constant *c, uint32_t axis, int64_t *before, int64_t *behind)
{
	*before = *behind = 1;
	for (uint32_t k = 0; k < axis; k++)
		*before *= c->shape[k];
	for (uint32_t k = axis + 1; k < c->rank; k++)
		*behind *= c->shape[k];
}

int ff_fold_concat(struct ff_import *im, const Onnx__NodeProto *n,
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
	ff_fold_around(in[0], axis, &before, &behind);
	*ret = *in[0];
	ret->shape[axis] = all;
	if (!ff_constant_measure(ret, FF_CONSTANT_MOST))
		return ff_import_fail(im, n, "what it makes is too large");
	if ((code = ff_fold_alloc_moved(im, ret)) < 0)
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

int ff_fold_gather(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	int64_t before, behind, size;
	uint32_t axis;
	int code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0), in[0]->rank, &axis);

	if (code < 0)
		return code;
	if (!in[1]->whole || in[0]->rank - 1 + in[1]->rank > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "its indices are not supported");
	ff_fold_around(in[0], axis, &before, &behind);
	size = in[0]->shape[axis];
	*ret = (struct ff_constant){.whole = in[0]->whole, .trained = in[0]->trained};
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
	if (!ff_constant_measure(ret, in[0]->n > FF_FOLD_MOST ? in[0]->n : FF_FOLD_MOST))
		return ff_import_fail(im, n, "what it gathers is too large");
	if ((code = ff_fold_alloc_moved(im, ret)) < 0)
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
int ff_fold_cut(struct ff_import *im, const struct ff_constant *in, uint32_t at, int64_t from,
		int64_t to, int64_t step, struct ff_constant *ret)
{
	int64_t size = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
	int64_t before, behind;
	int code;

	size = size < 0 ? 0 : size;
	ff_fold_around(in, at, &before, &behind);
	*ret = *in;
	ret->shape[at] = size;
	ret->n = before * size * behind;
	if ((code = ff_fold_alloc_moved(im, ret)) < 0)
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

int ff_fold_slice(struct ff_import *im, const Onnx__NodeProto *n,
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
		code = ff_fold_cut(im, &at, along, end_of(in[1]->i[k], size, step < 0),
				end_of(in[2]->i[k], size, step < 0), step, ret);
		at = *ret;
	}
	*ret = at;
	return code;
}

/* Where the axes of a transposed constant come from. */
static int read_perm(struct ff_import *im, const Onnx__NodeProto *n, uint32_t rank,
		uint32_t from[FF_IMPORT_RANK])
{
	const Onnx__AttributeProto *perm = ff_onnx_attr(n, "perm");
	uint32_t seen = 0;
	int code = FF_OK;

	if (perm && perm->n_ints != rank)
		return ff_import_fail(im, n, "its perm does not fit %u axes", rank);
	for (uint32_t k = 0; k < rank && code == FF_OK; k++) {
		code = ff_onnx_axis(im, n, perm ? perm->ints[k] : rank - 1 - k, rank, &from[k]);
		seen |= code == FF_OK ? 1u << from[k] : 0;
	}
	if (code == FF_OK && seen != (1u << rank) - 1)
		return ff_import_fail(im, n, "its perm is no order of %u axes", rank);
	return code;
}

int ff_fold_transpose(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	uint32_t rank = in[0]->rank, from[FF_IMPORT_RANK];
	int64_t stride[FF_IMPORT_RANK], at[FF_IMPORT_RANK] = {0}, pitch = 1;
	bool same = true;
	int code = read_perm(im, n, rank, from);

	if (code < 0)
		return code;
	*ret = *in[0];
	for (uint32_t k = 0; k < rank; k++) {
		ret->shape[k] = in[0]->shape[from[k]];
		same = same && from[k] == k;
	}
	if (same)
		return FF_OK;
	for (uint32_t k = rank; k-- > 0; pitch *= in[0]->shape[k])
		stride[k] = pitch;
	if ((code = ff_fold_alloc_moved(im, ret)) < 0)
		return code;
	if (rank == 2 && in[0]->weight) { /* its own, by columns */
		ret->weight = in[0]->weight;
		ret->root = in[0]->root;
		ret->swapped = !in[0]->swapped;
	}
	for (int64_t i = 0; i < ret->n; i++) {
		int64_t source = 0;

		for (uint32_t k = 0; k < rank; k++)
			source += at[k] * stride[from[k]];
		ff_fold_copy(in[0], source, ret, i);
		for (uint32_t k = rank; k-- > 0 && ++at[k] == ret->shape[k];)
			at[k] = 0;
	}
	return FF_OK;
}

/* Element i of what has the shape of `ret`, of one that is repeated along axes. */
static int64_t repeated(const struct ff_constant *in, const struct ff_constant *ret, int64_t i)
{
	uint32_t more = ret->rank - in->rank;
	int64_t from = 0, pitch = 1;

	for (uint32_t k = ret->rank; k-- > 0; i /= ret->shape[k]) {
		if (k < more)
			continue;
		from += i % ret->shape[k] % in->shape[k - more] * pitch;
		pitch *= in->shape[k - more];
	}
	return from;
}

static int repeat(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *in,
		struct ff_constant *ret)
{
	int code = ff_fold_alloc(im, n, ret);

	for (int64_t i = 0; i < ret->n && code == FF_OK; i++)
		ff_fold_copy(in, repeated(in, ret, i), ret, i);
	return code;
}

int ff_fold_expand(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	uint32_t rank;

	if (!in[1]->whole || in[1]->n > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "expected a shape");
	rank = in[0]->rank > in[1]->n ? in[0]->rank : (uint32_t)in[1]->n;
	*ret = (struct ff_constant){.whole = in[0]->whole, .trained = in[0]->trained};
	for (uint32_t k = 0; k < rank; k++) {
		uint32_t own = k + in[0]->rank, to = k + (uint32_t)in[1]->n;
		int64_t a = own < rank ? 1 : in[0]->shape[own - rank];
		int64_t b = to < rank ? 1 : in[1]->i[to - rank];

		if (b < 0 || (a != b && a != 1 && b != 1))
			return ff_import_fail(im, n,
					"axis %u of %" PRId64 " cannot become %" PRId64, k, a, b);
		ff_fold_axis(ret, a == 1 ? b : a);
	}
	return repeat(im, n, in[0], ret);
}

int ff_fold_tile(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	if (!in[1]->whole || in[1]->n != in[0]->rank)
		return ff_import_fail(im, n, "expected how often for each of %u axes", in[0]->rank);
	*ret = (struct ff_constant){.whole = in[0]->whole, .trained = in[0]->trained};
	for (uint32_t k = 0; k < in[0]->rank; k++) {
		int64_t size;

		if (in[1]->i[k] < 0 || __builtin_mul_overflow(in[1]->i[k], in[0]->shape[k], &size))
			return ff_import_fail(im, n, "an axis %" PRId64 " times", in[1]->i[k]);
		ff_fold_axis(ret, size);
	}
	return repeat(im, n, in[0], ret);
}

/* Trilu: what is above a diagonal, or below it, of matrices; zeros elsewhere. */
int ff_fold_triangle(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	bool upper = ff_onnx_int(n, "upper", 1) != 0;
	int64_t diagonal = n->n_input > 1 && in[1] && in[1]->whole && in[1]->n ? in[1]->i[0] : 0;
	uint32_t rank = in[0]->rank;
	int64_t rows, columns;
	int code;

	if (rank < 2)
		return ff_import_fail(im, n, "expected matrices");
	*ret = *in[0];
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	rows = ret->shape[rank - 2];
	columns = ret->shape[rank - 1];
	diagonal = diagonal > columns ? columns : diagonal < -rows ? -rows : diagonal;
	for (int64_t i = 0; i < ret->n; i++) {
		int64_t right = i % columns - i / columns % rows;

		if (upper ? right >= diagonal : right <= diagonal)
			ff_fold_copy(in[0], i, ret, i);
	}
	return FF_OK;
}

int64_t ff_fold_place(const struct ff_constant *c, const int64_t *index, int64_t depth)
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

/* Rows of what indices of the first axes name. */
int ff_fold_gather_nd(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret)
{
	const struct ff_constant *index = in[1];
	int64_t depth = index->rank ? index->shape[index->rank - 1] : 0, run = 1;
	uint32_t rank;
	int code;

	if (!index->whole || depth < 1 || depth > in[0]->rank || ff_onnx_int(n, "batch_dims", 0))
		return ff_import_fail(im, n, "its indices are not supported");
	rank = index->rank - 1 + in[0]->rank - (uint32_t)depth;
	if (rank > FF_IMPORT_RANK)
		return ff_import_fail(im, n, "more than %d axes", FF_IMPORT_RANK);
	*ret = (struct ff_constant){.whole = in[0]->whole, .trained = in[0]->trained};
	for (uint32_t k = 0; k + 1 < index->rank; k++)
		ff_fold_axis(ret, index->shape[k]);
	for (uint32_t k = (uint32_t)depth; k < in[0]->rank; k++) {
		ff_fold_axis(ret, in[0]->shape[k]);
		run *= in[0]->shape[k];
	}
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t row = 0; row < index->n / depth && run; row++) {
		int64_t at = ff_fold_place(in[0], index->i + row * depth, depth);

		if (at < 0)
			return ff_import_fail(im, n, "its indices do not fit");
		move(in[0], at * run, run, run, 1, ret, row * run, run);
	}
	return FF_OK;
}
