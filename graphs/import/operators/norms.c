/* ONNX normalisations.  SPDX-License-Identifier: Apache-2.0 */
#include "norms.h"

#include <inttypes.h>

#include "import/arrange.h"
#include "import/emit.h"
#include "import/inputs.h"
#include "import/values.h"

/* All of `c` are `v`, and nobody trains them. */
static bool is_all(const struct ff_constant *c, float v)
{
	for (int64_t i = 0; i < c->n; i++)
		if (c->whole || c->f[i] != v)
			return false;
	return !c->trained;
}

/* Scale and bias of a node, of `rank` axes, as its parameters; neither where they change nothing,
 * as exporters write norms that have none.  Without a bias there is none. */
static int claim(struct ff_import *im, const Onnx__NodeProto *n, const int32_t *shape,
		uint32_t rank, union ff_attrs *a, struct ff_emit *e)
{
	const struct ff_constant *c[2] = {0};
	int code = FF_OK;

	for (size_t i = 0; i < 2; i++) {
		bool fits = true;

		if (i && !ff_onnx_in(im, n, 2))
			continue;
		if ((code = ff_onnx_in_constant(im, n, 1 + i, &c[i])) < 0)
			return code;
		for (uint32_t k = 0; k < rank && fits; k++)
			fits = c[i]->rank == rank && c[i]->shape[k] == shape[k];
		if (!fits)
			return ff_import_fail(im, n, "%" PRId64 " numbers where %d are expected%s",
					c[i]->n, shape[0],
					rank > 1 ? " for each of more axes" : "");
	}
	a->norm.bias = c[1] && (!is_all(c[0], 1) || !is_all(c[1], 0));
	a->norm.affine = a->norm.bias || !is_all(c[0], 1);
	for (size_t i = 0; i < 2 && code == FF_OK; i++)
		if (i ? a->norm.bias : a->norm.affine)
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
		code = claim(im, n, in->shape + 1, 1, &a, &e);
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

/* Over the last axes; the node's own weight has their shape. */
static int read_last_axes(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_onnx_value *in, union ff_attrs *a)
{
	int64_t shape[FF_IMPORT_RANK];
	uint32_t rank = ff_onnx_shape(in, shape), first, axis;
	int code = ff_onnx_axis(im, n, ff_onnx_int(n, "axis", -1), rank, &first);

	for (uint32_t k = first; k < rank && code == FF_OK; k++)
		code = ff_onnx_axis_of(im, n, k, in, &axis);
	if (code < 0)
		return code;
	if (axis + 1 != in->rank || rank - first > in->rank - 1)
		return ff_import_fail(im, n, "over axes that are not the last is not supported");
	a->norm.axes = (int32_t)(rank - first);
	return FF_OK;
}

int ff_onnx_layer_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LAYER_NORM);
	struct ff_emit e = {.op = FF_OP_LAYER_NORM, .attrs = &a, .n_in = 1};
	struct ff_onnx_value *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = read_last_axes(im, n, in, &a)) < 0 ||
			(code = claim(im, n, in->shape + in->rank - a.norm.axes,
					 (uint32_t)a.norm.axes, &a, &e)) < 0)
		return code;
	a.norm.epsilon = (double)ff_onnx_real(n, "epsilon", 1e-5f);
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

int ff_onnx_rms_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_RMS_NORM);
	struct ff_emit e = {.op = FF_OP_RMS_NORM, .attrs = &a, .n_in = 1};
	const struct ff_constant *scale;
	struct ff_onnx_value *in;
	int64_t elements = 1;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &scale)) < 0 ||
			(code = read_last_axes(im, n, in, &a)) < 0)
		return code;
	for (int32_t k = 0; k < a.norm.axes; k++)
		elements *= in->shape[in->rank - 1 - (uint32_t)k];
	if (scale->n != elements || scale->rank != (uint32_t)a.norm.axes)
		return ff_import_fail(im, n, "its scale does not fit");
	a.norm.affine = !is_all(scale, 1);
	if (a.norm.affine && (code = ff_emit_param(im, n, scale, false, &e.params[0])) < 0)
		return code;
	e.name = a.norm.affine ? ff_emit_owner(im, e.params[0]) : NULL;
	a.norm.epsilon = (double)ff_onnx_real(n, "epsilon", 1e-5f);
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

/* Since opset 21 weight and bias are by channel, as here; before they were by group. */
int ff_onnx_group_norm(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_GROUP_NORM);
	struct ff_emit e = {.op = FF_OP_GROUP_NORM, .attrs = &a, .n_in = 1};
	int64_t groups = ff_onnx_int(n, "num_groups", 0);
	struct ff_onnx_value *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code < 0)
		return code;
	if (im->opset < 21)
		return ff_import_fail(im, n, "of opset %" PRId64 ", expected one of 21 or later",
				im->opset);
	if (in->rank < 3 || groups < 1 || groups > in->shape[1])
		return ff_import_fail(im, n, "%" PRId64 " groups of its channels", groups);
	a.norm.groups = (int32_t)groups;
	a.norm.epsilon = (double)ff_onnx_real(n, "epsilon", 1e-5f);
	if ((code = claim(im, n, in->shape + 1, 1, &a, &e)) < 0)
		return code;
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
	if ((code = claim(im, n, in->shape + 1, 1, &a, &e)) < 0)
		return code;
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}
