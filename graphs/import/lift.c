/* What is known as a value of the graph, the same for every sample: class tokens, positions, tables
 * of which some elements are read more than once.  SPDX-License-Identifier: Apache-2.0 */
#include "lift.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "arrange.h"
#include "emit.h"
#include "fold/fold.h"
#include "origin.h"
#include "values.h"

/* Elements as runs; what is infinite is the largest number there is. */
static int list_runs(struct ff_import *im, const struct ff_constant *c, struct ff_numbers *ret)
{
	double *at = ff_arena_array(im->arena, 2 * (size_t)c->n + 2, sizeof(*at));

	if (!at)
		return ff_fail_memory(im->err);
	ret->n = 0;
	ret->at = at;
	for (int64_t i = 0; i < c->n; i++) {
		double x = c->whole ? (double)c->i[i] : (double)c->f[i];

		x = x < -(double)FLT_MAX  ? -(double)FLT_MAX
		    : x > (double)FLT_MAX ? (double)FLT_MAX
					  : x;
		if (ret->n && at[ret->n - 1] == x) {
			at[ret->n - 2]++;
			continue;
		}
		at[ret->n++] = 1;
		at[ret->n++] = x;
	}
	return FF_OK;
}

/* One for all samples, where each has its own and all are the same. */
static int take_sample(struct ff_import *im, const Onnx__NodeProto *n, struct ff_constant *c,
		const struct ff_onnx_value *v)
{
	int64_t each = c->n / v->shape[0];

	if (v->arranged || c->rank != v->rank || c->shape[0] == 1)
		return FF_OK;
	if (c->shape[0] != v->shape[0] || !c->n)
		return ff_import_fail(im, n, "a constant of %" PRId64 " samples beside %d",
				c->shape[0], v->shape[0]);
	for (int64_t i = each; i < c->n; i++)
		if (c->whole ? c->i[i] != c->i[i % each] : !(c->f[i] == c->f[i % each]))
			return ff_import_fail(
					im, n, "a constant that differs from sample to sample");
	c->shape[0] = 1;
	c->n = each;
	return FF_OK;
}

int ff_emit_constant(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		const struct ff_onnx_value *v, struct ff_onnx_value *ret)
{
	const char *own = n->name && n->name[0] ? n->name : n->output[0];
	union ff_attrs a = ff_attrs_preset(FF_OP_CONSTANT_OF);
	struct ff_emit e = {.op = FF_OP_CONSTANT_OF, .attrs = &a};
	struct ff_constant fit;
	int code = ff_onnx_fit(im, n, c, v, &fit);

	if (code == FF_OK)
		code = take_sample(im, n, &fit, v);
	if (code == FF_OK)
		code = list_runs(im, &fit, &a.constant.runs);
	if (code < 0)
		return code;
	e.name = ff_arena_printf(im->arena, "%s.constant", own);
	a.constant.rank = (int32_t)v->rank;
	for (uint32_t k = 0; k < v->rank; k++)
		a.constant.shape[k] = k + fit.rank < v->rank
						      ? 1
						      : (int32_t)fit.shape[k + fit.rank - v->rank];
	a.constant.shape[0] = v->shape[0];
	code = ff_emit(im, n, &e, ret, 1);
	ret->arranged = v->arranged;
	ret->onnx_rank = v->onnx_rank;
	ret->batch_at = v->batch_at;
	memcpy(ret->group, v->group, sizeof(ret->group));
	return code;
}

static bool is_same(const struct ff_constant *c, int64_t i, int64_t k)
{
	if (c->places)
		return c->places[i] == c->places[k];
	return c->whole ? c->i[i] == c->i[k] : c->f[i] == c->f[k];
}

/* What an exporter expanded is the parameter that it expanded. */
static int own_root(struct ff_import *im, struct ff_constant *c)
{
	struct ff_constant *root = ff_arena_alloc(im->arena, sizeof(*root));

	if (!root)
		return ff_fail_memory(im->err);
	if (c->weight)
		c->weight = ff_origin_sole(im, c->weight);
	*root = *c;
	root->root = root;
	c->root = root;
	return FF_OK;
}

int ff_lift_sample(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		struct ff_constant *ret)
{
	int64_t each = c->rank && c->shape[0] ? c->n / c->shape[0] : 0;

	*ret = *c;
	if (!c->rank || c->shape[0] == 1)
		return FF_OK;
	if (c->shape[0] != im->samples || !c->n)
		return ff_import_fail(im, n, "a constant of %" PRId64 " samples beside %d",
				c->shape[0], im->samples);
	if (c->swapped)
		return ff_import_fail(im, n, "a constant that differs from sample to sample");
	for (int64_t i = each; i < c->n; i++)
		if (!is_same(c, i, i % each))
			return ff_import_fail(
					im, n, "a constant that differs from sample to sample");
	ret->shape[0] = 1;
	ret->n = each;
	if (ret->places)
		ff_fold_set_places(ret->root, ret->places, ret);
	return ret->trained && !ret->places && ret->n != ret->root->n ? own_root(im, ret) : FF_OK;
}

/* Elements that lie behind each other wherever they are: whole rows of the initializer, or one. */
static int64_t row_width(const struct ff_constant *root, const int64_t *places, int64_t n)
{
	int64_t width = root->n;

	for (uint32_t k = 0; k < root->rank; k++) {
		bool rows;

		width /= root->shape[k];
		rows = n % width == 0;
		for (int64_t i = 0; i < n && rows; i++)
			rows = i % width ? places[i] == places[i - 1] + 1 : places[i] % width == 0;
		if (rows)
			return width;
	}
	return 1;
}

/* Rows of a value of the parameter's, in an order that is known. */
static int pick_rows(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *root,
		const struct ff_constant *c, struct ff_onnx_value *v)
{
	int64_t width = row_width(root, c->places, c->n), count = c->n / width;
	const int32_t flat[] = {v->shape[0], (int32_t)(root->n / width), (int32_t)width};
	double *at = ff_arena_array(im->arena, (size_t)count + 1, sizeof(*at));
	union ff_attrs a = {.gather = {.axis = 1, .indices = {count, at}}};
	struct ff_emit e = {.op = FF_OP_GATHER, .attrs = &a, .n_in = 1};
	bool run = true;
	int code;

	if (!at)
		return ff_fail_memory(im->err);
	for (int64_t i = 0; i < count; i++) {
		at[i] = (double)(c->places[i * width] / width);
		run = run && (!i || at[i] == at[i - 1] + 1);
	}
	if (run) {
		e.op = FF_OP_SLICE;
		a = ff_attrs_preset(FF_OP_SLICE);
		a.slice.axis = 1;
		a.slice.start = (int32_t)at[0];
		a.slice.stop = (int32_t)at[0] + (int32_t)count;
	}
	if ((code = ff_emit_reshape(im, n, v, width > 1 ? 3 : 2, flat, &e.in[0])) < 0)
		return code;
	return ff_emit(im, n, &e, v, 1);
}

static int lift_trained(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		uint32_t rank, const int32_t *shape, struct ff_onnx_value *ret)
{
	const struct ff_constant *root = c->root ? c->root : c;
	union ff_attrs a = ff_attrs_preset(FF_OP_EXPAND);
	struct ff_emit e = {.op = FF_OP_EXPAND, .attrs = &a};
	struct ff_onnx_value v = {.kind = FF_ONNX_NODE};
	struct ff_constant moved = *c, own = *root;
	int code = FF_OK;

	if (c->swapped && (code = ff_fold_places(im, c, &moved)) < 0)
		return code;
	if (!own.rank)
		own.shape[own.rank++] = 1;
	if (own.rank + 1 > FF_MAX_RANK || !c->n || c->n > INT32_MAX)
		return ff_import_fail(
				im, n, "a weight of %u axes is not read by every sample", own.rank);
	a.expand.own_rank = (int32_t)own.rank;
	a.expand.rank = (int32_t)own.rank + 1;
	a.expand.shape[0] = shape[0];
	for (uint32_t k = 0; k < own.rank; k++)
		a.expand.own[k] = a.expand.shape[k + 1] = (int32_t)own.shape[k];
	if ((code = ff_emit_param(im, n, &own, false, &e.params[0])) < 0)
		return code;
	e.name = ff_arena_printf(im->arena, "%s.expand", e.params[0]);
	code = e.name ? ff_emit(im, n, &e, &v, 1) : ff_fail_memory(im->err);
	if (code == FF_OK && moved.places)
		code = pick_rows(im, n, &own, &moved, &v);
	return code < 0 ? code : ff_emit_reshape(im, n, &v, rank, shape, ret);
}

int ff_lift(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		uint32_t rank, const int32_t *shape, struct ff_onnx_value *ret)
{
	struct ff_onnx_value beside = {.kind = FF_ONNX_NODE, .rank = rank};
	struct ff_constant own = *c;

	if (c->trained)
		return lift_trained(im, n, c, rank, shape, ret);
	memcpy(beside.shape, shape, rank * sizeof(*shape));
	own.rank = rank - 1;
	for (uint32_t k = 1; k < rank; k++)
		own.shape[k - 1] = shape[k];
	return ff_emit_constant(im, n, &own, &beside, ret);
}

bool ff_lift_can(const struct ff_import *im, const struct ff_constant *c)
{
	return im->samples > 1 && c->rank + im->row->arranged <= FF_MAX_RANK && !c->whole &&
	       c->n > 0 && c->n <= INT32_MAX &&
	       (im->row->arranged || (c->rank >= 2 && c->shape[0] == im->samples));
}

/* Without an axis of samples. */
static int lift_shared(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		struct ff_onnx_value *v)
{
	int32_t shape[FF_MAX_RANK + 1] = {im->samples, 1};
	uint32_t rank = c->rank ? c->rank + 1 : 2;
	int code;

	for (uint32_t k = 0; k < c->rank; k++)
		shape[k + 1] = (int32_t)c->shape[k];
	if ((code = ff_lift(im, n, c, rank, shape, v)) < 0)
		return code;
	v->arranged = true;
	v->onnx_rank = (uint8_t)(rank - 1);
	v->batch_at = 0;
	v->group[0] = FF_ONNX_NO_AXIS;
	for (uint32_t k = 1; k < rank; k++)
		v->group[k] = (uint8_t)(k - 1);
	return FF_OK;
}

int ff_lift_in(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant *c, struct ff_onnx_value **ret)
{
	struct ff_onnx_value *v = ff_arena_alloc(im->arena, sizeof(*v));
	int32_t shape[FF_MAX_RANK];
	struct ff_constant one;
	int code;

	if (!v)
		return ff_fail_memory(im->err);
	memset(v, 0, sizeof(*v));
	v->kind = FF_ONNX_NODE;
	v->name = n->input[i];
	if (c->rank < 2 || c->shape[0] != im->samples)
		code = lift_shared(im, n, c, v);
	else {
		for (uint32_t k = 0; k < c->rank; k++)
			shape[k] = (int32_t)c->shape[k];
		if ((code = ff_lift_sample(im, n, c, &one)) == FF_OK)
			code = ff_lift(im, n, &one, c->rank, shape, v);
	}
	*ret = v;
	return code;
}
