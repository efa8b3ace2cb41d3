/* Operators that several of the graph's are: copies behind each other, running sums, rotary places.
 * SPDX-License-Identifier: Apache-2.0 */
#include "composed.h"

#include "import/arrange.h"
#include "import/emit.h"
#include "import/fold/fold_numbers.h"
#include "import/inputs.h"
#include "import/lift.h"
#include "import/values.h"
#include "pointwise.h"

/* The inputs of `e` behind each other. */
static int join(struct ff_import *im, const Onnx__NodeProto *n, struct ff_emit *e, uint32_t axis,
		struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONCAT);

	a.concat.axis = (int32_t)axis;
	e->op = FF_OP_CONCAT;
	e->attrs = &a;
	*ret = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	return ff_emit(im, n, e, ret, 1);
}

static int repeat(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axis, int64_t times, struct ff_onnx_value *ret)
{
	struct ff_emit e = {.n_in = 0};

	*ret = *in;
	if (times == 1)
		return FF_OK;
	if (axis == 0)
		return ff_import_fail(im, n, "repeats the samples");
	if (times < 1 || times > FF_MAX_INPUTS - FF_MAX_PARAMS)
		return ff_import_fail(im, n, "%lld copies, expected 1 to %d", (long long)times,
				FF_MAX_INPUTS - FF_MAX_PARAMS);
	while (e.n_in < (uint32_t)times)
		e.in[e.n_in++] = *in;
	return join(im, n, &e, axis, ret);
}

int ff_onnx_tile(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value v, *in;
	const struct ff_constant *times;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &times)) < 0)
		return code;
	if (!times->whole || times->n != in->rank)
		return ff_import_fail(im, n, "expected how often, a number for each of %u axes",
				in->rank);
	v = *in;
	for (uint32_t k = 0; k < in->rank; k++) {
		const struct ff_onnx_value before = v;

		if ((code = repeat(im, n, &before, k, times->i[k], &v)) < 0)
			return code;
	}
	return ff_onnx_set_same(im, n, 0, &v);
}

/* Ones where element `i` of an axis goes into sum `k`. */
static int sums_of(struct ff_import *im, const Onnx__NodeProto *n, int32_t size,
		struct ff_constant *ret)
{
	bool less = ff_onnx_int(n, "exclusive", 0), reverse = ff_onnx_int(n, "reverse", 0);
	int code;

	*ret = (struct ff_constant){.rank = 2, .shape = {size, size}};
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int64_t i = 0; i < size; i++)
		for (int64_t k = 0; k < size; k++)
			ret->f[i * size + k] = i == k ? !less : reverse ? i > k : i < k;
	return FF_OK;
}

/* `in` by `sums`, along its last axis. */
static int multiply(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_constant *sums, struct ff_onnx_value *ret)
{
	int32_t last = in->shape[in->rank - 1], rows = 1;
	struct ff_onnx_value like = {.kind = FF_ONNX_NODE, .rank = 3}, flat = like, made = like;
	struct ff_emit e = {.op = FF_OP_MATMUL, .n_in = 2};
	int code;

	for (uint32_t k = 1; k + 1 < in->rank; k++)
		rows *= in->shape[k];
	memcpy(like.shape, (const int32_t[3]){in->shape[0], last, last}, 3 * sizeof(last));
	if ((code = ff_emit_reshape(im, n, in, 3, (const int32_t[3]){in->shape[0], rows, last},
			     &flat)) < 0)
		return code;
	e.in[0] = flat;
	e.in[1] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	if ((code = ff_emit_constant(im, n, sums, &like, &e.in[1])) < 0 ||
			(code = ff_emit(im, n, &e, &made, 1)) < 0)
		return code;
	return ff_emit_reshape(im, n, &made, in->rank, in->shape, ret);
}

/* A product with ones and zeros, the axis last. */
int ff_onnx_running_sum(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value turned = {.kind = FF_ONNX_NODE}, v = turned, back = turned, *in;
	const struct ff_constant *which;
	struct ff_constant sums;
	uint32_t axis, perm[FF_MAX_RANK];
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &which)) < 0)
		return code;
	if (!which->whole || which->n != 1)
		return ff_import_fail(im, n, "expected one axis");
	if ((code = ff_onnx_axis(im, n, which->i[0], in->rank, &axis)) < 0)
		return code;
	if (axis == 0)
		return ff_import_fail(im, n, "adds samples up");
	for (uint32_t k = 0; k < in->rank; k++)
		perm[k] = k;
	perm[axis] = in->rank - 1;
	perm[in->rank - 1] = axis;
	if ((code = sums_of(im, n, in->shape[axis], &sums)) < 0 ||
			(code = ff_onnx_turn(im, n, in, perm, &turned)) < 0 ||
			(code = multiply(im, n, &turned, &sums, &v)) < 0 ||
			(code = ff_onnx_turn(im, n, &v, perm, &back)) < 0)
		return code;
	return ff_onnx_set_same(im, n, 0, &back);
}

/* ---- rotary places ---- */

/* [samples, places, heads, width] or, `swapped`, heads before places; the first `turned` of the
 * width are turned. */
struct rotary {
	struct ff_onnx_value in;
	bool swapped, interleaved;
	int32_t places, heads, width, turned;
};

static int read_rotary(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_onnx_value *in, struct rotary *r)
{
	int64_t heads = ff_onnx_int(n, "num_heads", 0);
	int64_t turned = ff_onnx_int(n, "rotary_embedding_dim", 0);
	int code = FF_OK;

	*r = (struct rotary){.in = *in, .swapped = in->rank == 4};
	if (in->rank == 3) {
		if (heads < 1 || in->shape[2] % heads)
			return ff_import_fail(im, n, "%lld heads of a width of %d",
					(long long)heads, in->shape[2]);
		r->in = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
		code = ff_emit_reshape(im, n, in, 4,
				(const int32_t[4]){in->shape[0], in->shape[1], (int32_t)heads,
						in->shape[2] / (int32_t)heads},
				&r->in);
	} else if (in->rank != 4)
		return ff_import_fail(im, n, "%u axes, expected 3 or 4", in->rank);
	if (code < 0)
		return code;
	r->places = r->in.shape[r->swapped ? 2 : 1];
	r->heads = r->in.shape[r->swapped ? 1 : 2];
	r->width = r->in.shape[3];
	r->turned = turned ? (int32_t)turned : r->width;
	r->interleaved = ff_onnx_int(n, "interleaved", 0);
	if (turned < 0 || turned > r->width || r->turned % 2)
		return ff_import_fail(im, n, "turns %d of a width of %d", r->turned, r->width);
	return FF_OK;
}

/* Row `place` of a table of cosines or sines, which all samples share. */
static int row_of(struct ff_import *im, const Onnx__NodeProto *n, const struct rotary *r,
		const struct ff_constant *table, const struct ff_constant *ids, int32_t place,
		int64_t *ret)
{
	int64_t rows = table->n / (r->turned / 2), at = ids ? ids->i[place] : place;

	for (int64_t i = place; ids && i < ids->n; i += r->places)
		if (ids->i[i] != at)
			return ff_import_fail(im, n, "places differ from sample to sample");
	for (int64_t i = place; !ids && i < rows; i += r->places)
		if (memcmp(table->f + i * r->turned / 2, table->f + at * r->turned / 2,
				    (size_t)(r->turned / 2) * sizeof(*table->f)) != 0)
			return ff_import_fail(im, n, "angles differ from sample to sample");
	if (at < 0 || at >= rows)
		return ff_import_fail(im, n, "place %lld of %lld", (long long)at, (long long)rows);
	*ret = at;
	return FF_OK;
}

/* Input `i`, by place, as it lies beside the tensor. */
static int read_angles(struct ff_import *im, const Onnx__NodeProto *n, const struct rotary *r,
		size_t i, struct ff_constant *ret)
{
	const struct ff_constant *table, *ids = NULL;
	int32_t half = r->turned / 2;
	int code;

	if ((code = ff_onnx_in_constant(im, n, i, &table)) < 0 ||
			(ff_onnx_in(im, n, 3) && (code = ff_onnx_in_constant(im, n, 3, &ids)) < 0))
		return code;
	if (table->whole || table->n % half || table->shape[table->rank - 1] != half ||
			(ids ? !ids->whole || ids->n % r->places : table->n / half % r->places))
		return ff_import_fail(
				im, n, "expected angles of %d places, %d each", r->places, half);
	*ret = (struct ff_constant){.rank = 4, .shape = {1, r->places, 1, half}};
	if (r->swapped) {
		ret->shape[1] = 1;
		ret->shape[2] = r->places;
	}
	if ((code = ff_fold_alloc(im, n, ret)) < 0)
		return code;
	for (int32_t k = 0; k < r->places && code == FF_OK; k++) {
		int64_t row = 0;

		if ((code = row_of(im, n, r, table, ids, k, &row)) == FF_OK)
			memcpy(ret->f + (int64_t)k * half, table->f + row * half,
					(size_t)half * sizeof(*ret->f));
	}
	return code;
}

/* x c - y s, or with `op` addition the sum. */
static int mix(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const struct ff_onnx_value v[2], const struct ff_constant *by[2],
		struct ff_onnx_value *ret)
{
	struct ff_emit e = {.op = op, .n_in = 2};

	for (uint32_t i = 0; i < 2; i++) {
		int code;

		e.in[i] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
		if ((code = ff_onnx_times(im, n, &v[i], by[i], &e.in[i])) < 0)
			return code;
	}
	*ret = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	return ff_emit(im, n, &e, ret, 1);
}

/* The two halves of each pair in their places again, and what is not turned behind them. */
static int assemble(struct ff_import *im, const Onnx__NodeProto *n, const struct rotary *r,
		const struct ff_onnx_value half[2], struct ff_onnx_value *ret)
{
	int32_t shape[5] = {r->in.shape[0], r->in.shape[1], r->in.shape[2], r->turned / 2, 1};
	struct ff_emit e = {.n_in = 2}, all = {.n_in = 2};
	struct ff_onnx_value pairs, turned = {.kind = FF_ONNX_NODE};
	int code = FF_OK;

	for (uint32_t i = 0; i < 2 && code == FF_OK; i++) {
		e.in[i] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
		code = ff_emit_reshape(im, n, &half[i], r->interleaved ? 5 : 4, shape, &e.in[i]);
	}
	if (code < 0 || (code = join(im, n, &e, r->interleaved ? 4 : 3, &pairs)) < 0)
		return code;
	shape[3] = r->turned;
	if ((code = ff_emit_reshape(im, n, &pairs, 4, shape, &turned)) < 0)
		return code;
	*ret = turned;
	if (r->turned == r->width)
		return FF_OK;
	all.in[0] = turned;
	all.in[1] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	code = ff_onnx_cut(im, n, &r->in, 3, r->turned, r->width, 1, &all.in[1]);
	return code < 0 ? code : join(im, n, &all, 3, ret);
}

/* RotaryEmbedding of opset 23: pairs (x, y) become (x c - y s, x s + y c). */
int ff_onnx_rotary(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value pair[2] = {{.kind = FF_ONNX_NODE}, {.kind = FF_ONNX_NODE}}, half[2];
	struct ff_onnx_value made, back = pair[0], *in;
	struct ff_constant cosines, sines;
	struct rotary r;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = read_rotary(im, n, in, &r)) < 0 ||
			(code = read_angles(im, n, &r, 1, &cosines)) < 0 ||
			(code = read_angles(im, n, &r, 2, &sines)) < 0)
		return code;
	for (int32_t i = 0; i < 2 && code == FF_OK; i++)
		code = r.interleaved ? ff_onnx_cut(im, n, &r.in, 3, i, r.turned, 2, &pair[i])
				     : ff_onnx_cut(im, n, &r.in, 3, i * r.turned / 2,
						       (i + 1) * r.turned / 2, 1, &pair[i]);
	if (code < 0 ||
			(code = mix(im, n, FF_OP_SUB, pair,
					 (const struct ff_constant *[2]){&cosines, &sines},
					 &half[0])) < 0 ||
			(code = mix(im, n, FF_OP_ADD, pair,
					 (const struct ff_constant *[2]){&sines, &cosines},
					 &half[1])) < 0 ||
			(code = assemble(im, n, &r, half, &made)) < 0 ||
			(code = ff_emit_reshape(im, n, &made, in->rank, in->shape, &back)) < 0)
		return code;
	return ff_onnx_set_same(im, n, 0, &back);
}
