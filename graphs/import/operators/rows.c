/* What ONNX operators become: shapes, joins and what is done element by element.
 * SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "activations.h"
#include "attention.h"
#include "composed.h"
#include "constants.h"
#include "deferred.h"
#include "import/arrange.h"
#include "import/emit.h"
#include "import/fold/fold.h"
#include "import/inputs.h"
#include "import/values.h"
#include "layers.h"
#include "norms.h"
#include "pointwise.h"
#include "recurrent.h"
#include "resize.h"

static int emit_same(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	return code < 0 ? code : ff_onnx_set_same(im, n, 0, in);
}

/* Whole numbers of the data set as what the graph computes in; between real types nothing, as the
 * graph computes in one. */
static int cast_to(struct ff_import *im, const Onnx__NodeProto *n, bool real)
{
	struct ff_emit e = {.op = FF_OP_CAST, .n_in = 1};
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code < 0)
		return code;
	if (!real && !ff_dtype_is_whole(in->dtype))
		return ff_import_fail(im, n, "casts of real to whole numbers are not supported");
	e.in[0] = *in;
	if (real && ff_dtype_is_whole(in->dtype))
		return ff_emit_as(im, n, &e);
	return ff_onnx_set_same(im, n, 0, in);
}

static int emit_cast(struct ff_import *im, const Onnx__NodeProto *n)
{
	return cast_to(im, n, ff_fold_is_real(ff_onnx_int(n, "to", 0)));
}

static int emit_cast_like(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *like = ff_onnx_in(im, n, 1);

	if (!like || like->kind == FF_ONNX_APART)
		return ff_import_fail(im, n, "expected a value whose type it takes");
	return cast_to(im, n,
			like->kind == FF_ONNX_CONSTANT ? !like->constant.whole
						       : !ff_dtype_is_whole(like->dtype));
}

static int emit_concat(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONCAT);
	struct ff_onnx_value *in;
	uint32_t axis;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0), in->rank, &axis)) <
					0)
		return code;
	if (n->n_input == 1)
		return ff_onnx_set_same(im, n, 0, in);
	a.concat.axis = (int32_t)axis;
	return ff_onnx_many(im, n, FF_OP_CONCAT, &a);
}

/* The share of elements is an attribute before opset 12 and an input since, and whether it is
 * training another; without training nothing is dropped. */
static int emit_dropout(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_DROPOUT);
	struct ff_emit e = {.op = FF_OP_DROPOUT, .attrs = &a, .n_in = 1};
	const struct ff_constant *ratio, *training;
	struct ff_onnx_value *in;
	bool drops = im->opset < 12;
	int code = ff_onnx_in_node(im, n, 0, &in);

	a.dropout.p = ff_onnx_real(n, "ratio", 0.5f);
	if (code == FF_OK && ff_onnx_in(im, n, 1)) {
		code = ff_onnx_in_constant(im, n, 1, &ratio);
		if (code == FF_OK && !ratio->whole && ratio->n == 1)
			a.dropout.p = (double)ratio->f[0];
	}
	if (code == FF_OK && ff_onnx_in(im, n, 2)) {
		code = ff_onnx_in_constant(im, n, 2, &training);
		drops = code == FF_OK && training->whole && training->n == 1 && training->i[0];
	}
	if (code < 0)
		return code;
	if (!drops || a.dropout.p == 0)
		return ff_onnx_set_same(im, n, 0, in);
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

static int emit_flatten(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value *in;
	int32_t shape[2] = {1, 1};
	uint32_t axis;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 1), in->rank, &axis)) <
					0)
		return code;
	for (uint32_t k = 0; k < in->rank; k++)
		shape[k >= axis] *= in->shape[k];
	return ff_onnx_reshape(im, n, in, 2, shape);
}

static int emit_reshape(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_constant *want;
	struct ff_onnx_value *in;
	int64_t all = 1, known = 1, have[FF_IMPORT_RANK];
	int32_t shape[FF_MAX_RANK];
	uint32_t rank;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &want)) < 0)
		return code;
	if (!want->whole || want->n > FF_MAX_RANK)
		return ff_import_fail(im, n, "a shape of %" PRId64 " axes, expected at most %d",
				want->n, FF_MAX_RANK);
	rank = ff_onnx_shape(in, have);
	for (uint32_t k = 0; k < rank; k++)
		all *= have[k];
	for (int64_t k = 0; k < want->n; k++) {
		int64_t size = want->i[k] == 0 && k < rank ? have[k] : want->i[k];

		if (size < -1 || size > INT32_MAX)
			return ff_import_fail(im, n, "axis %" PRId64 " would be %" PRId64, k, size);
		shape[k] = (int32_t)size;
		known *= size > 0 && known <= all ? size : 1;
	}
	for (int64_t k = 0; k < want->n; k++)
		if (shape[k] == -1)
			shape[k] = (int32_t)(all / known);
	return ff_onnx_reshape(im, n, in, (uint32_t)want->n, shape);
}

static int emit_squeeze(struct ff_import *im, const Onnx__NodeProto *n)
{
	bool marked[FF_MAX_RANK + 1] = {0}, any;
	struct ff_onnx_value *in;
	int64_t have[FF_IMPORT_RANK];
	int32_t shape[FF_MAX_RANK];
	uint32_t rank = 0, all = 0;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK) {
		all = ff_onnx_shape(in, have);
		code = ff_onnx_axes(im, n, all, marked, &any);
	}
	if (code < 0)
		return code;
	for (uint32_t k = 0; k < all; k++)
		if (any ? !marked[k] : have[k] != 1)
			shape[rank++] = (int32_t)have[k];
	return ff_onnx_reshape(im, n, in, rank, shape);
}

static int emit_unsqueeze(struct ff_import *im, const Onnx__NodeProto *n)
{
	bool marked[FF_MAX_RANK + 1] = {0}, any;
	struct ff_onnx_value *in;
	int64_t have[FF_IMPORT_RANK];
	int32_t shape[FF_MAX_RANK];
	uint32_t rank = 0, added = 0, all;
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "axes");
	const struct ff_constant *given = NULL;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK && !a)
		code = ff_onnx_in_constant(im, n, 1, &given);
	if (code < 0)
		return code;
	added = a ? (uint32_t)a->n_ints : (uint32_t)given->n;
	all = ff_onnx_shape(in, have);
	if (added > FF_MAX_RANK || all + added > FF_MAX_RANK)
		return ff_import_fail(im, n, "more than %d axes", FF_MAX_RANK);
	if ((code = ff_onnx_axes(im, n, all + added, marked, &any)) < 0)
		return code;
	for (uint32_t k = 0, at = 0; k < all + added; k++)
		shape[rank++] = marked[k] || at == all ? 1 : (int32_t)have[at++];
	return ff_onnx_reshape(im, n, in, rank, shape);
}

static int emit_transpose(struct ff_import *im, const Onnx__NodeProto *n)
{
	const Onnx__AttributeProto *given = ff_onnx_attr(n, "perm");
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	uint32_t perm[FF_IMPORT_RANK], rank, seen = 0;
	int64_t shape[FF_IMPORT_RANK];
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code < 0)
		return code;
	rank = ff_onnx_shape(in, shape);
	if (given && given->n_ints != rank)
		return ff_import_fail(im, n, "its perm does not fit %u axes", rank);
	for (uint32_t k = 0; k < rank && code == FF_OK; k++) {
		code = ff_onnx_axis(im, n, given ? given->ints[k] : rank - 1 - k, rank, &perm[k]);
		seen |= code == FF_OK ? 1u << perm[k] : 0;
	}
	if (code == FF_OK && seen != (1u << rank) - 1)
		return ff_import_fail(im, n, "its perm is no order of %u axes", rank);
	if (code == FF_OK)
		code = ff_onnx_turn(im, n, in, perm, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

static int64_t clamp(int64_t at, int64_t size)
{
	at = at < 0 ? at + size : at;
	return at < 0 ? 0 : at > size ? size : at;
}

static int emit_slice(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_constant *start, *stop, *axes = NULL, *steps = NULL;
	struct ff_onnx_value *in, at, next;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &start)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 2, &stop)) < 0 ||
			(ff_onnx_in(im, n, 3) &&
					(code = ff_onnx_in_constant(im, n, 3, &axes)) < 0) ||
			(ff_onnx_in(im, n, 4) &&
					(code = ff_onnx_in_constant(im, n, 4, &steps)) < 0))
		return code;
	if (!start->whole || !stop->whole || start->n != stop->n ||
			(axes && (!axes->whole || axes->n != start->n)) ||
			(steps && (!steps->whole || steps->n != start->n)))
		return ff_import_fail(im, n, "its starts, ends, axes and steps do not match");
	at = *in;
	for (int64_t i = 0; i < start->n; i++) {
		int64_t from, to, step = steps ? steps->i[i] : 1;
		uint32_t axis;

		if ((code = ff_onnx_axis_of(im, n, axes ? axes->i[i] : i, in, &axis)) < 0)
			return code;
		if (step < 1 || step > INT32_MAX)
			return ff_import_fail(
					im, n, "steps of %" PRId64 " are not supported", step);
		from = clamp(start->i[i], at.shape[axis]);
		to = clamp(stop->i[i], at.shape[axis]);
		next = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
		if ((code = ff_onnx_cut(im, n, &at, axis, from, to, step, &next)) < 0)
			return code;
		at = next;
	}
	return ff_onnx_set_same(im, n, 0, &at);
}

/* Sizes of parts are an attribute before opset 13 and an input since; without, they are equal, the
 * last one perhaps smaller. */
static int read_parts(struct ff_import *im, const Onnx__NodeProto *n, int64_t size, int64_t *parts)
{
	const Onnx__AttributeProto *sizes = ff_onnx_attr(n, "split");
	const struct ff_constant *given = NULL;
	int64_t equal = (size + (int64_t)n->n_output - 1) / (int64_t)n->n_output, left = size;
	int code;

	if (!sizes && ff_onnx_in(im, n, 1) && (code = ff_onnx_in_constant(im, n, 1, &given)) < 0)
		return code;
	if ((sizes && sizes->n_ints != n->n_output) ||
			(given && (!given->whole || given->n != (int64_t)n->n_output)))
		return ff_import_fail(im, n, "its parts do not match its outputs");
	for (size_t k = 0; k < n->n_output; k++) {
		parts[k] = sizes          ? sizes->ints[k]
			   : given        ? given->i[k]
			   : equal < left ? equal
					  : left;
		if (parts[k] < 1 || parts[k] > left)
			return ff_import_fail(im, n, "its parts do not fit %" PRId64, size);
		left -= parts[k];
	}
	return FF_OK;
}

static int split_constant(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *c, int64_t *parts)
{
	struct ff_constant part;
	int64_t at = 0;
	uint32_t axis;
	int code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0), c->rank, &axis);

	if (code == FF_OK)
		code = read_parts(im, n, c->shape[axis], parts);
	for (size_t k = 0; k < n->n_output && code == FF_OK; at += parts[k++])
		if ((code = ff_fold_part(im, c, axis, at, at + parts[k], &part)) == FF_OK)
			code = ff_onnx_set_constant(im, n, k, &part);
	return code;
}

static int emit_split(struct ff_import *im, const Onnx__NodeProto *n)
{
	int64_t *parts = ff_arena_array(im->arena, n->n_output, sizeof(*parts)), at = 0;
	struct ff_onnx_value *in = ff_onnx_in(im, n, 0);
	uint32_t axis;
	int code;

	if (!parts)
		return ff_fail_memory(im->err);
	if (in && in->kind == FF_ONNX_CONSTANT)
		return split_constant(im, n, &in->constant, parts);
	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_axis_of(im, n, ff_onnx_int(n, "axis", 0), in, &axis)) < 0 ||
			(code = read_parts(im, n, in->shape[axis], parts)) < 0)
		return code;
	for (size_t k = 0; k < n->n_output; at += parts[k++]) {
		struct ff_onnx_value out = {.kind = FF_ONNX_NODE};

		if (!n->output[k][0] || !ff_onnx_value(im, n->output[k])->uses)
			continue;
		if ((code = ff_onnx_cut(im, n, in, axis, at, at + parts[k], 1, &out)) < 0 ||
				(code = ff_onnx_set_same(im, n, k, &out)) < 0)
			return code;
	}
	return FF_OK;
}

static int embed(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *table,
		const struct ff_onnx_value *ids)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_EMBEDDING);
	struct ff_emit e = {.op = FF_OP_EMBEDDING, .attrs = &a, .in = {*ids}, .n_in = 1};
	int code;

	if (table->rank != 2 || table->whole || ids->dtype != FF_I32 ||
			ff_onnx_int(n, "axis", 0) != 0)
		return ff_import_fail(
				im, n, "of a constant only rows of a matrix are gathered, by ids");
	a.embedding.vocabulary = (int32_t)table->shape[0];
	a.embedding.features = (int32_t)table->shape[1];
	if ((code = ff_emit_param(im, n, table, false, &e.params[0])) < 0)
		return code;
	e.name = ff_emit_owner(im, e.params[0]);
	return ff_emit_as(im, n, &e);
}

/* Several elements of an axis, in an order that is known: every `stride`-th of `index`. */
static int pick(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axis, const int64_t *index, int64_t count, int64_t stride,
		struct ff_onnx_value *ret)
{
	double *at = ff_arena_array(im->arena, (size_t)count + 1, sizeof(*at));
	union ff_attrs a = {.gather = {(int32_t)axis, {count, at}}};
	const struct ff_emit e = {.op = FF_OP_GATHER, .attrs = &a, .in = {*in}, .n_in = 1};

	if (!at)
		return ff_fail_memory(im->err);
	if (!axis)
		return ff_import_fail(im, n, "samples are not gathered");
	for (int64_t i = 0; i < count; i++) {
		int64_t k = index[i * stride];

		at[i] = (double)(k < 0 ? k + in->shape[axis] : k);
	}
	return ff_emit(im, n, &e, ret, 1);
}

/* Every element of an axis in its order, as PyTorch's as_strided is written: under another shape.
 */
static bool takes_all(
		const struct ff_onnx_value *in, uint32_t axis, const struct ff_constant *index)
{
	int64_t have[FF_IMPORT_RANK];
	bool all = axis < ff_onnx_shape(in, have) && index->n == have[axis];

	for (int64_t i = 0; i < index->n && all; i++)
		all = index->i[i] == i;
	return all;
}

static int unfold(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axis, const struct ff_constant *index)
{
	int32_t shape[2 * FF_IMPORT_RANK];
	int64_t have[FF_IMPORT_RANK];
	uint32_t all = ff_onnx_shape(in, have), rank = 0;

	if (all - 1 + index->rank > FF_MAX_RANK)
		return ff_import_fail(im, n, "more than %d axes", FF_MAX_RANK);
	for (uint32_t k = 0; k < all; k++) {
		if (k != axis)
			shape[rank++] = (int32_t)have[k];
		for (uint32_t j = 0; k == axis && j < index->rank; j++)
			shape[rank++] = (int32_t)index->shape[j];
	}
	return ff_onnx_reshape(im, n, in, rank, shape);
}

/* An embedding, one element of an axis, or several. */
static int emit_gather(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value *in = ff_onnx_in(im, n, 0), *ids = ff_onnx_in(im, n, 1);
	struct ff_onnx_value row = {.kind = FF_ONNX_NODE};
	const struct ff_constant *index;
	int64_t at, have[FF_IMPORT_RANK];
	uint32_t axis, onnx;
	int code;

	if (in && ids && in->kind == FF_ONNX_CONSTANT && ids->kind == FF_ONNX_NODE)
		return embed(im, n, &in->constant, ids);
	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &index)) < 0 ||
			(code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0),
					 ff_onnx_shape(in, have), &onnx)) < 0)
		return code;
	if (!index->whole)
		return ff_import_fail(im, n, "its indices are no whole numbers");
	if (index->rank > 1 && takes_all(in, onnx, index))
		return unfold(im, n, in, onnx, index);
	if ((code = ff_onnx_axis_of(im, n, onnx, in, &axis)) < 0)
		return code;
	if (index->n != 1 && index->rank != 1)
		return ff_import_fail(im, n, "indices have one axis");
	if (index->n != 1)
		return (code = pick(im, n, in, axis, index->i, index->n, 1, &row)) < 0
				       ? code
				       : ff_onnx_set_same(im, n, 0, &row);
	at = index->i[0] < 0 ? index->i[0] + in->shape[axis] : index->i[0];
	if (at < 0 || at >= in->shape[axis])
		return ff_import_fail(
				im, n, "index %" PRId64 " of %d", index->i[0], in->shape[axis]);
	if ((code = ff_onnx_cut(im, n, in, axis, at, at + 1, 1, &row)) < 0)
		return code;
	if (index->rank)
		return ff_onnx_set_same(im, n, 0, &row);
	code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", 0), ff_onnx_shape(&row, have), &onnx);
	return code < 0 ? code : ff_onnx_without(im, n, &row, onnx);
}

/* The coordinate of known indices that changes along one of their axes: -1 where none does, -2
 * where several do. */
static int64_t changing(const struct ff_constant *index, uint32_t axis)
{
	const int64_t width = index->shape[index->rank - 1];
	int64_t behind = width, found = -1;

	for (uint32_t k = axis + 1; k + 1 < index->rank; k++)
		behind *= index->shape[k];
	for (int64_t i = 0; i < index->n; i++) {
		int64_t at = i / behind % index->shape[axis];

		if (index->i[i] == index->i[i - at * behind])
			continue;
		if (found >= 0 && found != i % width)
			return -2;
		found = i % width;
	}
	return found;
}

/* One coordinate at a time: of the axes of the indices along which it alone changes. */
static int gather_coordinates(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *index, struct ff_onnx_value *v)
{
	const uint32_t last = index->rank - 1;
	uint32_t at = 0, axis;
	int64_t behind = index->n;
	int code;

	for (int64_t c = 0; c < index->shape[last]; c++) {
		struct ff_onnx_value row = {.kind = FF_ONNX_NODE};
		int64_t count = 1, found;

		for (; at < last && ((found = changing(index, at)) == c || found == -1); at++)
			count *= index->shape[at];
		behind /= count;
		if ((code = ff_onnx_axis_of(im, n, c, v, &axis)) < 0 ||
				(code = pick(im, n, v, axis, index->i + c, count, behind, &row)) <
						0)
			return code;
		*v = row;
	}
	return at == last ? FF_OK : ff_import_fail(im, n, "two of its coordinates change together");
}

/* Elements by known indices of the first axes, which are those of a grid. */
static int emit_gather_nd(struct ff_import *im, const Onnx__NodeProto *n)
{
	int64_t have[FF_IMPORT_RANK];
	int32_t shape[2 * FF_IMPORT_RANK];
	const struct ff_constant *index;
	struct ff_onnx_value *in, v;
	uint32_t all, rank = 0;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &index)) < 0)
		return code;
	all = ff_onnx_shape(in, have);
	if (!index->whole || !index->rank || !index->n || index->shape[index->rank - 1] > all ||
			ff_onnx_int(n, "batch_dims", 0))
		return ff_import_fail(im, n, "expected known indices of the first axes");
	v = *in;
	if ((code = gather_coordinates(im, n, index, &v)) < 0)
		return code;
	if (index->rank == 2 && index->shape[1] == 1)
		return ff_onnx_set_same(im, n, 0, &v);
	for (uint32_t k = 0; k + 1 < index->rank; k++)
		shape[rank++] = (int32_t)index->shape[k];
	for (uint32_t k = (uint32_t)index->shape[index->rank - 1]; k < all; k++)
		shape[rank++] = (int32_t)have[k];
	if (rank > FF_MAX_RANK)
		return ff_import_fail(im, n, "more than %d axes", FF_MAX_RANK);
	return ff_onnx_reshape(im, n, &v, rank, shape);
}

static const struct ff_onnx_row rows[] = {
		{"Identity", emit_same, true},
		{"Cast", emit_cast, true},
		{"CastLike", emit_cast_like, true},
		{"Concat", emit_concat},
		{"Dropout", emit_dropout, true},
		{"Flatten", emit_flatten},
		{"Reshape", emit_reshape, true},
		{"Squeeze", emit_squeeze, true},
		{"Unsqueeze", emit_unsqueeze, true},
		{"Transpose", emit_transpose, true},
		{"Slice", emit_slice, true},
		{"Split", emit_split, true},
		{"Gather", emit_gather, true},
		{"GatherND", emit_gather_nd, true},
		{"Expand", ff_onnx_expand, true},
		{"ScatterND", ff_onnx_scatter_nd, true},
		{"Where", ff_onnx_where},
		{"RNN", ff_onnx_recurrent, true},
		{"GRU", ff_onnx_recurrent, true},
		{"LSTM", ff_onnx_recurrent, true},
		{"Conv", ff_onnx_conv},
		{"ConvTranspose", ff_onnx_conv_transpose},
		{"Pad", ff_onnx_pad},
		{"Gemm", ff_onnx_gemm, true},
		{"MatMul", ff_onnx_matmul, true},
		{"MaxPool", ff_onnx_max_pool},
		{"AveragePool", ff_onnx_average_pool},
		{"GlobalAveragePool", ff_onnx_global_average_pool},
		{"GlobalMaxPool", ff_onnx_global_max_pool},
		{"ReduceMean", ff_onnx_reduce_mean, true},
		{"ReduceSum", ff_onnx_reduce_sum, true},
		{"ReduceL2", ff_onnx_reduce_l2, true},
		{"ReduceMax", ff_onnx_reduce_max, true},
		{"BatchNormalization", ff_onnx_batch_norm},
		{"LayerNormalization", ff_onnx_layer_norm, true},
		{"RMSNormalization", ff_onnx_rms_norm, true},
		{"GroupNormalization", ff_onnx_group_norm},
		{"Attention", ff_onnx_attention},
		{"Einsum", ff_onnx_einsum, true},
		{"LRN", ff_onnx_local_response_norm},
		{"InstanceNormalization", ff_onnx_instance_norm},
		{"Resize", ff_onnx_resize},
		{"Softmax", ff_onnx_softmax, true},
		{"LogSoftmax", ff_onnx_log_softmax, true},
		{"Tile", ff_onnx_tile},
		{"CumSum", ff_onnx_running_sum},
		{"RotaryEmbedding", ff_onnx_rotary},
};

const struct ff_onnx_row *ff_onnx_row(const char *op)
{
	const struct ff_onnx_row *row = ff_deferred_row(op);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].op, op))
			return &rows[i];
	row = row ? row : ff_onnx_activation_row(op);
	return row ? row : ff_onnx_pointwise_row(op);
}
