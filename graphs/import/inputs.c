/* Inputs of a node as values of the graph.  SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include "arrange.h"
#include "emit.h"
#include "lift.h"
#include "values.h"

int ff_onnx_in_node(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		struct ff_onnx_value **ret)
{
	struct ff_onnx_value *v = ff_onnx_in(im, n, i);

	if (!v)
		return ff_import_fail(im, n, "input %zu is missing", i);
	if (v->kind == FF_ONNX_CONSTANT && ff_lift_can(im, &v->constant))
		return ff_lift_in(im, n, i, &v->constant, ret);
	if (v->kind == FF_ONNX_CONSTANT)
		return ff_import_fail(im, n,
				"input %zu, %s, is a constant, expected something that is "
				"computed",
				i, v->name);
	if (v->kind == FF_ONNX_APART)
		return ff_import_fail(im, n,
				"input %zu, %s, is made by %s, which it is not supported behind", i,
				v->name, v->maker ? v->maker->op_type : "?");
	if (v->arranged && !im->row->arranged)
		return ff_import_fail(im, n,
				"the samples of input %zu, %s, are not its axis 0, which this "
				"operator is not supported for",
				i, v->name);
	*ret = v;
	return FF_OK;
}

/* What all samples share, beside `v`, which has them. */
static int align(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		struct ff_onnx_value *shared)
{
	struct ff_constant shape = {0}, fit;
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE};
	int32_t to[FF_MAX_RANK] = {v->shape[0]};
	int code;

	shape.rank = ff_onnx_shape(shared, shape.shape);
	if ((code = ff_onnx_fit(im, n, &shape, v, &fit)) < 0)
		return code;
	if (fit.rank == v->rank && fit.shape[0] != 1)
		return ff_import_fail(im, n, "what all samples share has an axis of samples");
	for (uint32_t k = 1; k < v->rank; k++)
		to[k] = k + fit.rank < v->rank ? 1 : (int32_t)fit.shape[k + fit.rank - v->rank];
	if ((code = ff_emit_reshape(im, n, shared, v->rank, to, &out)) < 0)
		return code;
	out.arranged = v->arranged;
	out.onnx_rank = v->onnx_rank;
	out.batch_at = v->batch_at;
	memcpy(out.group, v->group, sizeof(out.group));
	*shared = out;
	return FF_OK;
}

/* Inputs that all samples share go to the first that has them. */
static int align_all(struct ff_import *im, const Onnx__NodeProto *n, struct ff_emit *e)
{
	uint32_t first = 0;
	int code = FF_OK;

	while (first < e->n_in && ff_onnx_is_shared(&e->in[first]))
		first++;
	for (uint32_t i = 0; first < e->n_in && i < e->n_in && code == FF_OK; i++)
		if (ff_onnx_is_shared(&e->in[i]))
			code = align(im, n, &e->in[first], &e->in[i]);
	return code;
}

int ff_onnx_many(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const union ff_attrs *attrs)
{
	struct ff_emit e = {.op = op, .attrs = attrs, .n_in = (uint32_t)n->n_input};
	struct ff_onnx_value *in;
	int code = FF_OK;

	if (n->n_input > FF_MAX_INPUTS - FF_MAX_PARAMS)
		return ff_import_fail(im, n, "more than %d inputs", FF_MAX_INPUTS - FF_MAX_PARAMS);
	for (uint32_t i = 0; i < e.n_in; i++) {
		code = ff_onnx_in_node(im, n, i, &in);
		if (code < 0)
			return code;
		e.in[i] = *in;
	}
	if ((code = align_all(im, n, &e)) < 0)
		return code;
	for (uint32_t i = 0; i < e.n_in; i++)
		if (!ff_onnx_same_arrangement(&e.in[0], &e.in[i]))
			return ff_import_fail(im, n, "its inputs have their samples elsewhere");
	return ff_emit_as(im, n, &e);
}
