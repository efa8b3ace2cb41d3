/* ONNX normalisations.  SPDX-License-Identifier: Apache-2.0 */
#include "norms.h"

#include <inttypes.h>

#include "arrange.h"
#include "emit.h"
#include "values.h"

/* All of `c` are `v`, and nobody trains them. */
static bool is_all(const struct ff_constant *c, float v)
{
	for (int64_t i = 0; i < c->n; i++)
		if (c->whole || c->f[i] != v)
			return false;
	return !c->trained;
}

/* Scale and bias of a node, one number for each of `elements`, as its parameters; neither where
 * they change nothing, as exporters write norms that have none. */
static int claim(struct ff_import *im, const Onnx__NodeProto *n, int64_t elements,
		union ff_attrs *a, struct ff_emit *e)
{
	const struct ff_constant *c[2];
	int code = FF_OK;

	for (size_t i = 0; i < 2; i++) {
		if ((code = ff_onnx_in_constant(im, n, 1 + i, &c[i])) < 0)
			return code;
		if (c[i]->rank != 1 || c[i]->n != elements)
			return ff_import_fail(im, n,
					"%" PRId64 " numbers where %" PRId64 " are expected",
					c[i]->n, elements);
	}
	a->norm.affine = a->norm.bias = !is_all(c[0], 1) || !is_all(c[1], 0);
	for (size_t i = 0; i < 2 && a->norm.affine && code == FF_OK; i++)
		code = ff_emit_param(im, n, c[i], false, &e->params[i]);
	if (code == FF_OK && a->norm.affine)
		e->name = ff_emit_owner(im, e->params[0]);
	return code;
}

/* In training: what an export for evaluation has as constants is what running statistics
 * begin with.  ONNX keeps a share of them where PyTorch takes one of the new. */
int ff_onnx_batch_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	static const char *const kept[] = {"running_mean", "running_var"};
	union ff_attrs a = ff_attrs_preset(FF_OP_BATCH_NORM);
	struct ff_emit e = {.op = FF_OP_BATCH_NORM, .attrs = &a, .n_in = 1};
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK && in->rank < 2)
		return ff_import_fail(im, n, "expected channels");
	if (code == FF_OK)
		code = claim(im, n, in->shape[1], &a, &e);
	if (code < 0)
		return code;
	a.norm.epsilon = (double)ff_onnx_real(n, "epsilon", 1e-5f);
	a.norm.momentum = 1 - (double)ff_onnx_real(n, "momentum", 0.9f);
	e.in[0] = *in;
	code = ff_emit(im, n, &e, &out, 1);
	for (size_t i = 0; i < 2 && code == FF_OK; i++) {
		const struct ff_constant *c;

		code = ff_onnx_in_constant(im, n, 3 + i, &c);
		if (code == FF_OK && (c->n != in->shape[1] || c->rank != 1))
			return ff_import_fail(im, n, "its statistics do not fit");
		if (code == FF_OK)
			code = ff_emit_kept(im, n, &out, kept[i], c);
	}
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

int ff_onnx_layer_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LAYER_NORM);
	struct ff_emit e = {.op = FF_OP_LAYER_NORM, .attrs = &a, .n_in = 1};
	struct ff_onnx_value *in;
	uint32_t axis;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_axis_of(im, n, ff_onnx_int(n, "axis", -1), in, &axis)) < 0)
		return code;
	if (axis + 1 < in->rank)
		return ff_import_fail(im, n, "over several axes is not supported");
	if ((code = claim(im, n, in->shape[axis], &a, &e)) < 0)
		return code;
	a.norm.epsilon = (double)ff_onnx_real(n, "epsilon", 1e-5f);
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

/* PyTorch has half of an even number of channels before, ONNX less than half. */
int ff_onnx_local_response_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LOCAL_RESPONSE_NORM);
	struct ff_emit e = {.op = FF_OP_LOCAL_RESPONSE_NORM, .attrs = &a, .n_in = 1};
	int64_t size = ff_onnx_int(n, "size", 0);
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code < 0)
		return code;
	if (size < 1 || size > INT32_MAX || size % 2 == 0)
		return ff_import_fail(im, n, "a size of %" PRId64 ", expected an odd one", size);
	a.response.size = (int32_t)size;
	a.response.alpha = (double)ff_onnx_real(n, "alpha", 1e-4f);
	a.response.beta = (double)ff_onnx_real(n, "beta", 0.75f);
	a.response.k = (double)ff_onnx_real(n, "bias", 1);
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

/* Each channel of a sample by itself; so exporters write norms of groups, too, as channels that
 * are neither scaled nor moved. */
int ff_onnx_instance_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_GROUP_NORM);
	struct ff_emit e = {.op = FF_OP_GROUP_NORM, .attrs = &a, .n_in = 1};
	struct ff_onnx_value *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0)
		return code;
	if (in->rank < 3)
		return ff_import_fail(im, n, "expected channels and something behind them");
	a.norm.groups = in->shape[1];
	a.norm.epsilon = (double)ff_onnx_real(n, "epsilon", 1e-5f);
	if ((code = claim(im, n, in->shape[1], &a, &e)) < 0)
		return code;
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}
