/* ONNX operators with weights or windows.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "rows.h"

/* A pair of an attribute's integers, or `preset` twice. */
static int read_pair(struct ff_import *im, const Onnx__NodeProto *n, const char *name,
		int32_t preset, int32_t ret[2])
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, name);

	ret[0] = ret[1] = preset;
	if (a && a->n_ints != 2)
		return ff_import_fail(im, n, "%s of %zu axes, expected height and width", name,
				a->n_ints);
	for (int k = 0; a && k < 2; k++) {
		if (a->ints[k] < 0 || a->ints[k] > INT32_MAX)
			return ff_import_fail(im, n, "%s of %" PRId64, name, a->ints[k]);
		ret[k] = (int32_t)a->ints[k];
	}
	return FF_OK;
}

/* Padding, which must be alike on both sides; with what a node before left to this one. */
static int read_pads(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		int32_t ret[2])
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "pads");

	memcpy(ret, in->pad, sizeof(in->pad));
	if (ff_onnx_attr(n, "auto_pad") && !ff_onnx_is(n, "auto_pad", "NOTSET") &&
			!ff_onnx_is(n, "auto_pad", "VALID"))
		return ff_import_fail(im, n, "auto_pad is not supported");
	if (!a)
		return FF_OK;
	if (a->n_ints != 4)
		return ff_import_fail(im, n, "pads of %zu numbers, expected four", a->n_ints);
	for (int k = 0; k < 2; k++) {
		if (a->ints[k] != a->ints[k + 2] || a->ints[k] < 0 || a->ints[k] > INT32_MAX)
			return ff_import_fail(im, n,
					"padding of %" PRId64 " before and %" PRId64
					" behind, expected as much on both sides",
					a->ints[k], a->ints[k + 2]);
		if (__builtin_add_overflow(ret[k], (int32_t)a->ints[k], &ret[k]))
			return ff_import_fail(im, n, "padding of %" PRId64, a->ints[k]);
	}
	return FF_OK;
}

/* Zeros around images are left to whoever alone reads them, if that has padding of its own:
 * so exporters write averages that count them. */
int ff_onnx_pad(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *out = ff_onnx_value(im, n->output[0]);
	const struct ff_constant *pads, *value = NULL;
	struct ff_onnx_value *in, padded;
	bool taken = out->uses == 1 && out->reader &&
		     (!strcmp(out->reader->op_type, "AveragePool") ||
				     !strcmp(out->reader->op_type, "Conv"));
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &pads)) < 0 ||
			(ff_onnx_in(im, n, 2) &&
					(code = ff_onnx_in_constant(im, n, 2, &value)) < 0))
		return code;
	if (!taken || in->rank != 4 || !pads->whole || pads->n != 8 ||
			(value && (value->whole || value->n != 1 || value->f[0] != 0)) ||
			(ff_onnx_attr(n, "mode") && !ff_onnx_is(n, "mode", "constant")))
		return ff_import_fail(im, n,
				"only zeros around images before an average or a "
				"convolution are supported");
	padded = *in;
	for (int k = 0; k < 4; k++) {
		int64_t size = pads->i[k];

		if (size != pads->i[k + 4] || size < 0 || size > INT32_MAX || (k < 2 && size))
			return ff_import_fail(im, n,
					"padding of %" PRId64 " and %" PRId64
					" along axis %d is not supported",
					size, pads->i[k + 4], k);
		if (k >= 2)
			padded.pad[k - 2] = (int32_t)size;
	}
	return ff_onnx_set_same(im, n, 0, &padded);
}

/* A weight and, where input `bias` is there, a vector of as many elements as the weight has
 * outputs: names in e->params, and of the node after the weight. */
static int claim(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *weight,
		bool swap, const struct ff_constant *bias, struct ff_emit *e)
{
	int64_t outputs = weight->shape[swap];
	int code = ff_emit_param(im, n, weight, swap, &e->params[0]);

	if (code == FF_OK && bias) {
		if (bias->n != outputs || bias->rank > 1)
			return ff_import_fail(im, n,
					"a bias of %" PRId64 " elements, expected %" PRId64,
					bias->n, outputs);
		code = ff_emit_param(im, n, bias, false, &e->params[1]);
	}
	if (code == FF_OK)
		e->name = ff_emit_owner(im, e->params[0]);
	return code;
}

int ff_onnx_conv(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);
	struct ff_emit e = {.op = FF_OP_CONV2D, .attrs = &a, .n_in = 1};
	const struct ff_constant *weight, *bias = NULL;
	struct ff_onnx_value *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &weight)) < 0 ||
			(ff_onnx_in(im, n, 2) && (code = ff_onnx_in_constant(im, n, 2, &bias)) < 0))
		return code;
	if (weight->rank != 4 || in->rank != 4)
		return ff_import_fail(im, n, "over %u axes, expected height and width",
				weight->rank > 2 ? weight->rank - 2 : 0);
	if ((code = read_pair(im, n, "strides", 1, a.conv2d.stride)) < 0 ||
			(code = read_pair(im, n, "dilations", 1, a.conv2d.dilation)) < 0 ||
			(code = read_pads(im, n, in, a.conv2d.pad)) < 0 ||
			(code = claim(im, n, weight, false, bias, &e)) < 0)
		return code;
	a.conv2d.out_channels = (int32_t)weight->shape[0];
	a.conv2d.kernel[0] = (int32_t)weight->shape[2];
	a.conv2d.kernel[1] = (int32_t)weight->shape[3];
	a.conv2d.groups = (int32_t)ff_onnx_int(n, "group", 1);
	a.conv2d.bias = bias != NULL;
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

/* x times a constant matrix, by rows of outputs unless `swap`. */
static int linear(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_constant *weight, bool swap, const struct ff_constant *bias,
		struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_emit e = {.op = FF_OP_LINEAR, .attrs = &a, .in = {*in}, .n_in = 1};
	int code;

	if (weight->rank != 2 || weight->shape[!swap] != in->shape[in->rank - 1])
		return ff_import_fail(im, n, "its weight does not fit %d features",
				in->shape[in->rank - 1]);
	if ((code = claim(im, n, weight, swap, bias, &e)) < 0)
		return code;
	a.linear.out_features = (int32_t)weight->shape[swap];
	a.linear.bias = bias != NULL;
	return ff_emit(im, n, &e, ret, 1);
}

int ff_onnx_gemm(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	const struct ff_constant *weight, *bias = NULL;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &weight)) < 0 ||
			(ff_onnx_in(im, n, 2) && (code = ff_onnx_in_constant(im, n, 2, &bias)) < 0))
		return code;
	if (ff_onnx_real(n, "alpha", 1) != 1 || (bias && ff_onnx_real(n, "beta", 1) != 1) ||
			ff_onnx_int(n, "transA", 0))
		return ff_import_fail(im, n, "alpha, beta and transA are not supported");
	code = linear(im, n, in, weight, !ff_onnx_int(n, "transB", 0), bias, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

/* The addition of a constant vector that is all that reads `v`, or NULL. */
static const Onnx__NodeProto *bias_behind(struct ff_import *im, const struct ff_onnx_value *v,
		int64_t features, const struct ff_constant **bias)
{
	const Onnx__NodeProto *add = v->uses == 1 ? v->reader : NULL;

	if (!add || strcmp(add->op_type, "Add") != 0)
		return NULL;
	for (size_t i = 0; i < 2; i++) {
		const struct ff_onnx_value *other = ff_onnx_in(im, add, i);

		if (other && other->kind == FF_ONNX_CONSTANT && other->constant.rank == 1 &&
				other->constant.n == features && !other->constant.whole) {
			*bias = &other->constant;
			return add;
		}
	}
	return NULL;
}

/* A linear layer, which exporters write as a product and an addition where the input has more
 * than two axes. */
int ff_onnx_matmul(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *right = ff_onnx_in(im, n, 1);
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	const struct ff_constant *weight, *bias = NULL;
	const Onnx__NodeProto *add;
	int code;

	if (right && right->kind == FF_ONNX_NODE)
		return ff_onnx_many(im, n, FF_OP_MATMUL, NULL);
	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &weight)) < 0)
		return code;
	if (weight->rank != 2)
		return ff_import_fail(
				im, n, "a constant of %u axes, expected a matrix", weight->rank);
	add = bias_behind(im, ff_onnx_value(im, n->output[0]), weight->shape[1], &bias);
	code = linear(im, n, in, weight, true, bias, &out);
	if (code == FF_OK && add)
		code = ff_onnx_set_same(im, add, 0, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

static int pool(struct ff_import *im, const Onnx__NodeProto *n, enum ff_pool_mode mode)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);
	struct ff_emit e = {.op = FF_OP_POOL2D, .attrs = &a, .n_in = 1};
	int32_t dilation[2];
	struct ff_onnx_value *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = read_pair(im, n, "kernel_shape", 0, a.pool2d.kernel)) < 0 ||
			(code = read_pair(im, n, "strides", 1, a.pool2d.stride)) < 0 ||
			(code = read_pair(im, n, "dilations", 1, dilation)) < 0 ||
			(code = read_pads(im, n, in, a.pool2d.pad)) < 0)
		return code;
	if (dilation[0] != 1 || dilation[1] != 1)
		return ff_import_fail(im, n, "dilation is not supported");
	if (mode == FF_POOL_AVG && !ff_onnx_int(n, "count_include_pad", 0) &&
			(a.pool2d.pad[0] > in->pad[0] || a.pool2d.pad[1] > in->pad[1]))
		return ff_import_fail(
				im, n, "averages that leave out the padding are not supported");
	a.pool2d.mode = mode;
	e.in[0] = *in;
	if (ff_onnx_int(n, "ceil_mode", 0) && in->rank == 4)
		for (int k = 0; k < 2; k++) {
			int64_t rest = in->shape[2 + k] + 2 * (int64_t)a.pool2d.pad[k] -
				       a.pool2d.kernel[k];

			if (a.pool2d.stride[k] && rest % a.pool2d.stride[k])
				return ff_import_fail(
						im, n, "rounding up (ceil_mode) is not supported");
		}
	return ff_emit_as(im, n, &e);
}

int ff_onnx_max_pool(struct ff_import *im, const Onnx__NodeProto *n)
{
	return pool(im, n, FF_POOL_MAX);
}

int ff_onnx_average_pool(struct ff_import *im, const Onnx__NodeProto *n)
{
	return pool(im, n, FF_POOL_AVG);
}

/* One window as large as the image. */
static int pool_all(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);
	const struct ff_emit e = {.op = FF_OP_POOL2D, .attrs = &a, .in = {*in}, .n_in = 1};

	if (in->rank != 4)
		return ff_import_fail(im, n, "over %u axes, expected height and width",
				in->rank > 2 ? in->rank - 2 : 0);
	a.pool2d.mode = FF_POOL_AVG;
	for (int k = 0; k < 2; k++)
		a.pool2d.kernel[k] = a.pool2d.stride[k] = in->shape[2 + k];
	return ff_emit(im, n, &e, ret, 1);
}

int ff_onnx_global_average_pool(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK)
		code = pool_all(im, n, in, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

/* Over some axes; all, where none are named. */
static int reduce(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op)
{
	union ff_attrs a = ff_attrs_preset(op);
	struct ff_emit e = {.op = op, .attrs = &a, .n_in = 1};
	bool marked[FF_MAX_RANK + 1] = {0}, any;
	struct ff_onnx_value *in;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_axes(im, n, in->rank, marked, &any)) < 0)
		return code;
	for (uint32_t k = 0; k < in->rank; k++)
		if (marked[k] || !any)
			a.reduce.axis[a.reduce.n_axes++] = (int32_t)k;
	a.reduce.keep = ff_onnx_int(n, "keepdims", 1) != 0;
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

int ff_onnx_reduce_sum(struct ff_import *im, const Onnx__NodeProto *n)
{
	return reduce(im, n, FF_OP_REDUCE_SUM);
}

int ff_onnx_reduce_max(struct ff_import *im, const Onnx__NodeProto *n)
{
	return reduce(im, n, FF_OP_REDUCE_MAX);
}

/* Of height and width together an average, as pooling has it. */
int ff_onnx_reduce_mean(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, flat = out, *in;
	bool marked[FF_MAX_RANK + 1] = {0}, any;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_axes(im, n, in->rank, marked, &any)) < 0)
		return code;
	if (in->rank != 4 || !marked[2] || !marked[3] || marked[1] || marked[0])
		return reduce(im, n, FF_OP_REDUCE_MEAN);
	if ((code = pool_all(im, n, in, &out)) < 0)
		return code;
	code = ff_emit_reshape(
			im, n, &out, ff_onnx_int(n, "keepdims", 1) ? 4 : 2, out.shape, &flat);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &flat);
}
