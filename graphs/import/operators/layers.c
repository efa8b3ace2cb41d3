/* ONNX operators with weights or windows.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <inttypes.h>
#include <string.h>

#include "constants.h"
#include "import/arrange.h"
#include "import/emit.h"
#include "import/inputs.h"
#include "import/values.h"

/* An attribute's integers, one an axis, or `preset` for all. */
static int read_axes(struct ff_import *im, const Onnx__NodeProto *n, const char *name,
		uint32_t axes, int32_t preset, int32_t *ret)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, name);

	for (uint32_t k = 0; k < axes; k++)
		ret[k] = preset;
	if (a && a->n_ints != axes)
		return ff_import_fail(im, n, "%s of %zu axes, expected %u", name, a->n_ints, axes);
	for (uint32_t k = 0; a && k < axes; k++) {
		if (a->ints[k] < 0 || a->ints[k] > INT32_MAX)
			return ff_import_fail(im, n, "%s of %" PRId64, name, a->ints[k]);
		ret[k] = (int32_t)a->ints[k];
	}
	return FF_OK;
}

/* What moves along the axes; `outward`: its output is the larger. */
struct window {
	const int32_t *kernel, *stride, *dilation;
	bool outward;
};

/* As many windows as strides begin in the image; an odd zero is behind it, with SAME_LOWER before.
 */
static int same_pads(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axes, const struct window *w, int32_t ret[2][FF_MAX_SPATIAL])
{
	bool lower = ff_onnx_is(n, "auto_pad", "SAME_LOWER");

	if (w->outward || in->pad[0] || in->pad[1] ||
			(!lower && !ff_onnx_is(n, "auto_pad", "SAME_UPPER")))
		return ff_import_fail(im, n, "this auto_pad is not supported here, pads are");
	for (uint32_t k = 0; k < axes; k++) {
		int64_t size = in->shape[2 + k], stride = w->stride[k];
		int64_t span = (int64_t)w->dilation[k] * (w->kernel[k] - 1) + 1, zeros;

		if (stride < 1)
			return ff_import_fail(im, n, "strides of %" PRId64, stride);
		zeros = ((size + stride - 1) / stride - 1) * stride + span - size;
		if (zeros > INT32_MAX)
			return ff_import_fail(im, n, "padding of %" PRId64, zeros);
		zeros = zeros > 0 ? zeros : 0;
		ret[lower][k] = (int32_t)(zeros / 2);
		ret[!lower][k] = (int32_t)(zeros - zeros / 2);
	}
	return FF_OK;
}

/* Padding before and behind; with what a node before left to this one. */
static int read_pads(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axes, const struct window *w, int32_t ret[2][FF_MAX_SPATIAL])
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "pads");

	for (int k = 0; k < 2; k++)
		ret[0][k] = ret[1][k] = in->pad[k];
	if (ff_onnx_attr(n, "auto_pad") && !ff_onnx_is(n, "auto_pad", "NOTSET") &&
			!ff_onnx_is(n, "auto_pad", "VALID"))
		return same_pads(im, n, in, axes, w, ret);
	if (!a)
		return FF_OK;
	if (a->n_ints != (size_t)2 * axes)
		return ff_import_fail(
				im, n, "pads of %zu numbers, expected %u", a->n_ints, 2 * axes);
	for (uint32_t k = 0; k < 2 * axes; k++) {
		int32_t *to = &ret[k / axes][k % axes];

		if (a->ints[k] < 0 || a->ints[k] > INT32_MAX ||
				__builtin_add_overflow(*to, (int32_t)a->ints[k], to))
			return ff_import_fail(im, n, "padding of %" PRId64, a->ints[k]);
	}
	return FF_OK;
}

/* What goes along `in`'s spatial axes with a window: the first of three operators. */
static int windowed(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		enum ff_op first, enum ff_op *ret)
{
	if (in->rank < 3 || in->rank > 5)
		return ff_import_fail(im, n, "over %u axes, expected one to three",
				in->rank > 2 ? in->rank - 2 : 0);
	*ret = (enum ff_op)(first + in->rank - 3);
	return FF_OK;
}

/* Zeros around images are left to whoever alone reads them, if that has padding of its own:
 * so exporters write averages that count them. */
int ff_onnx_pad(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *out = ff_onnx_value(im, n->output[0]);
	const struct ff_constant *pads, *value = NULL;
	struct ff_onnx_value *in, padded;
	double number;
	int32_t mode;
	bool taken = out->uses == 1 && out->reader &&
		     (!strcmp(out->reader->op_type, "AveragePool") ||
				     !strcmp(out->reader->op_type, "Conv"));
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &pads)) < 0 ||
			(ff_onnx_in(im, n, 2) &&
					(code = ff_onnx_in_constant(im, n, 2, &value)) < 0))
		return code;
	mode = ff_onnx_is(n, "mode", "reflect") ? FF_PAD_REFLECT
	       : ff_onnx_is(n, "mode", "edge")  ? FF_PAD_EDGE
						: FF_PAD_CONSTANT;
	if (ff_onnx_attr(n, "mode") && !mode && !ff_onnx_is(n, "mode", "constant"))
		return ff_import_fail(im, n, "expected mode constant, reflect or edge");
	if (!pads->whole || pads->n != 2 * (int64_t)in->rank || (value && value->n != 1))
		return ff_import_fail(im, n, "its padding does not fit %u axes", in->rank);
	number = !value ? 0 : value->whole ? (double)value->i[0] : (double)value->f[0];
	taken = taken && in->rank == 4 && number == 0 && !mode;
	for (int k = 0; k < 4 && taken; k++)
		taken = pads->i[k] == pads->i[k + 4] && pads->i[k] >= 0 && (k > 1 || !pads->i[k]);
	if (!taken)
		return ff_emit_pad(im, n, in, pads, mode, number);
	padded = *in;
	for (int k = 0; k < 4; k++) {
		int64_t size = pads->i[k];

		if (size > INT32_MAX)
			return ff_import_fail(im, n, "padding of %" PRId64, size);
		if (k >= 2)
			padded.pad[k - 2] = (int32_t)size;
	}
	return ff_onnx_set_same(im, n, 0, &padded);
}

static int claim_bias(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *bias, int64_t outputs, const char **ret)
{
	struct ff_constant row = *bias;

	if (bias->n != outputs || (bias->rank && bias->shape[bias->rank - 1] != outputs))
		return ff_import_fail(im, n,
				"a bias of %u axes and %" PRId64 " elements, expected %" PRId64
				" in a row",
				bias->rank, bias->n, outputs);
	row.rank = 1;
	row.shape[0] = outputs;
	return ff_emit_param(im, n, &row, false, ret);
}

/* A weight and, where input `bias` is there, a vector of `outputs` elements: names in e->params,
 * and of the node after the weight. */
static int claim(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *weight,
		bool swap, int64_t outputs, const struct ff_constant *bias, struct ff_emit *e)
{
	int code = ff_emit_param(im, n, weight, swap, &e->params[0]);

	if (code == FF_OK && bias)
		code = claim_bias(im, n, bias, outputs, &e->params[1]);
	if (code == FF_OK)
		e->name = ff_emit_owner(im, e->params[0]);
	return code;
}

/* Of a transposed one the weight has the input's channels first and those of a group's output
 * behind. */
static int read_channels(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *weight, bool transposed, struct ff_conv_attrs *a)
{
	int64_t groups = ff_onnx_int(n, "group", 1);
	int64_t channels = weight->shape[transposed];

	if (groups < 1 || groups > INT32_MAX || (transposed && channels > INT32_MAX / groups))
		return ff_import_fail(im, n, "%" PRId64 " groups", groups);
	if (ff_onnx_attr(n, "output_shape"))
		return ff_import_fail(im, n, "output_shape is not supported, pads are");
	a->groups = (int32_t)groups;
	a->out_channels = (int32_t)(transposed ? channels * groups : channels);
	return FF_OK;
}

/* Zeros that exporters write where a module has no bias. */
static bool is_none(const struct ff_constant *bias)
{
	for (int64_t i = 0; i < bias->n; i++)
		if (bias->whole || bias->f[i] != 0)
			return false;
	return !bias->trained;
}

static int convolution(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op first)
{
	union ff_attrs a = ff_attrs_preset(first);
	bool transposed = first == FF_OP_CONV_TRANSPOSE1D;
	const struct window w = {a.conv.kernel, a.conv.stride, a.conv.dilation, transposed};
	struct ff_emit e = {.attrs = &a, .n_in = 1};
	const struct ff_constant *weight, *bias = NULL;
	struct ff_onnx_value *in;
	uint32_t axes;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = ff_onnx_in_constant(im, n, 1, &weight)) < 0 ||
			(ff_onnx_in(im, n, 2) &&
					(code = ff_onnx_in_constant(im, n, 2, &bias)) < 0) ||
			(code = windowed(im, n, in, first, &e.op)) < 0)
		return code;
	if (bias && is_none(bias))
		bias = NULL;
	axes = in->rank - 2;
	if (weight->rank != in->rank)
		return ff_import_fail(
				im, n, "a weight of %u axes, expected %u", weight->rank, in->rank);
	for (uint32_t k = 0; k < axes; k++)
		a.conv.kernel[k] = (int32_t)weight->shape[2 + k];
	if ((code = read_axes(im, n, "strides", axes, 1, a.conv.stride)) < 0 ||
			(code = read_axes(im, n, "dilations", axes, 1, a.conv.dilation)) < 0 ||
			(code = read_axes(im, n, "output_padding", axes, 0, a.conv.output_pad)) <
					0 ||
			(code = read_pads(im, n, in, axes, &w, a.conv.pad)) < 0 ||
			(code = read_channels(im, n, weight, transposed, &a.conv)) < 0 ||
			(code = claim(im, n, weight, false, a.conv.out_channels, bias, &e)) < 0)
		return code;
	a.conv.bias = bias != NULL;
	e.in[0] = *in;
	return ff_emit_as(im, n, &e);
}

int ff_onnx_conv(struct ff_import *im, const Onnx__NodeProto *n)
{
	return convolution(im, n, FF_OP_CONV1D);
}

int ff_onnx_conv_transpose(struct ff_import *im, const Onnx__NodeProto *n)
{
	return convolution(im, n, FF_OP_CONV_TRANSPOSE1D);
}

/* x times a matrix that is a parameter by rows of inputs, as who read it before has it: every
 * sample reads all of it. */
static int by_inputs(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const char *weight, int64_t outputs, const struct ff_constant *bias,
		struct ff_onnx_value *ret)
{
	union ff_attrs whole = ff_attrs_preset(FF_OP_EXPAND), add = ff_attrs_preset(FF_OP_ADD);
	struct ff_emit read = {.op = FF_OP_EXPAND, .attrs = &whole, .params = {weight}};
	struct ff_emit product = {.op = FF_OP_MATMUL, .n_in = 2};
	struct ff_emit sum = {.op = FF_OP_ADD, .attrs = &add, .n_in = 1};
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, flat = out;
	int32_t shape[FF_MAX_RANK], rows[3] = {in->shape[0], 1, in->shape[in->rank - 1]};
	int code;

	for (uint32_t k = 1; k + 1 < in->rank; k++)
		if (__builtin_mul_overflow(rows[1], in->shape[k], &rows[1]))
			return ff_import_fail(im, n, "it has too many rows");
	memcpy(shape, in->shape, sizeof(shape));
	shape[in->rank - 1] = (int32_t)outputs;
	whole.expand.own_rank = 2;
	whole.expand.rank = 3;
	whole.expand.shape[0] = rows[0];
	whole.expand.own[0] = whole.expand.shape[1] = rows[2];
	whole.expand.own[1] = whole.expand.shape[2] = (int32_t)outputs;
	read.name = ff_arena_printf(im->arena, "%s.expand", weight);
	product.in[0] = product.in[1] = out;
	if (!read.name)
		return ff_fail_memory(im->err);
	if ((code = ff_emit_reshape(im, n, in, 3, rows, &product.in[0])) < 0 ||
			(code = ff_emit(im, n, &read, &product.in[1], 1)) < 0 ||
			(code = ff_emit(im, n, &product, &flat, 1)) < 0 ||
			(code = ff_emit_reshape(im, n, &flat, in->rank, shape, &out)) < 0)
		return code;
	if (bias) {
		add.binary.rank = 1;
		add.binary.shape[0] = (int32_t)outputs;
		sum.in[0] = out;
		if ((code = claim_bias(im, n, bias, outputs, &sum.params[0])) < 0 ||
				(code = ff_emit(im, n, &sum, &out, 1)) < 0)
			return code;
	}
	out.arranged = in->arranged;
	out.onnx_rank = in->onnx_rank;
	out.batch_at = in->batch_at;
	memcpy(out.group, in->group, sizeof(out.group));
	*ret = out;
	return FF_OK;
}

/* x times a constant matrix, by rows of outputs unless `swap`. */
static int linear(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_constant *weight, bool swap, const struct ff_constant *bias,
		struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_emit e = {.op = FF_OP_LINEAR, .attrs = &a, .in = {*in}, .n_in = 1};
	const char *swapped;
	int code;

	if (weight->rank != 2 || weight->shape[!swap] != in->shape[in->rank - 1])
		return ff_import_fail(im, n, "its weight does not fit %d features",
				in->shape[in->rank - 1]);
	if ((code = ff_emit_find_swapped(im, n, weight, swap, &swapped)) < 0)
		return code;
	if (swapped)
		return by_inputs(im, n, in, swapped, weight->shape[swap], bias, ret);
	if ((code = claim(im, n, weight, swap, weight->shape[swap], bias, &e)) < 0)
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
				other->constant.n == features && other->constant.trained) {
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

/* Zeros that a node before left to this one count in any case. */
static int count_pad(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axes, struct ff_pool_attrs *a)
{
	bool own = false, left = in->pad[0] || in->pad[1];

	for (uint32_t k = 0; k < 2 * axes; k++) {
		uint32_t axis = k % axes;

		own = own || a->pad[k / axes][axis] > (axis < 2 ? in->pad[axis] : 0);
	}
	a->count_pad = !own || ff_onnx_int(n, "count_include_pad", 0);
	if (!a->count_pad && left)
		return ff_import_fail(
				im, n, "averages that count some of the padding are not supported");
	return FF_OK;
}

static int pool(struct ff_import *im, const Onnx__NodeProto *n, enum ff_pool_mode mode)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL1D);
	struct ff_emit e = {.attrs = &a, .n_in = 1};
	int32_t dilation[FF_MAX_SPATIAL];
	const struct window w = {a.pool.kernel, a.pool.stride, dilation, false};
	struct ff_onnx_value *in;
	uint32_t axes;
	int code;

	if ((code = ff_onnx_in_node(im, n, 0, &in)) < 0 ||
			(code = windowed(im, n, in, FF_OP_POOL1D, &e.op)) < 0)
		return code;
	axes = in->rank - 2;
	if ((code = read_axes(im, n, "kernel_shape", axes, 0, a.pool.kernel)) < 0 ||
			(code = read_axes(im, n, "strides", axes, 1, a.pool.stride)) < 0 ||
			(code = read_axes(im, n, "dilations", axes, 1, dilation)) < 0 ||
			(code = read_pads(im, n, in, axes, &w, a.pool.pad)) < 0 ||
			(mode == FF_POOL_AVG && (code = count_pad(im, n, in, axes, &a.pool)) < 0))
		return code;
	for (uint32_t k = 0; k < axes; k++)
		if (dilation[k] != 1)
			return ff_import_fail(im, n, "dilation is not supported");
	a.pool.mode = mode;
	a.pool.ceil = ff_onnx_int(n, "ceil_mode", 0) != 0;
	e.in[0] = *in;
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
		enum ff_pool_mode mode, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL1D);
	struct ff_emit e = {.attrs = &a, .in = {*in}, .n_in = 1};
	int code = windowed(im, n, in, FF_OP_POOL1D, &e.op);

	a.pool.mode = (int32_t)mode;
	for (uint32_t k = 0; code == FF_OK && k < in->rank - 2; k++)
		a.pool.kernel[k] = a.pool.stride[k] = in->shape[2 + k];
	return code < 0 ? code : ff_emit(im, n, &e, ret, 1);
}

static int global_pool(struct ff_import *im, const Onnx__NodeProto *n, enum ff_pool_mode mode)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK)
		code = pool_all(im, n, in, mode, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

int ff_onnx_global_average_pool(struct ff_import *im, const Onnx__NodeProto *n)
{
	return global_pool(im, n, FF_POOL_AVG);
}

int ff_onnx_global_max_pool(struct ff_import *im, const Onnx__NodeProto *n)
{
	return global_pool(im, n, FF_POOL_MAX);
}

/* Over some axes; all, where none are named. */
static int reduce_value(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_onnx_value *in, enum ff_op op, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(op);
	struct ff_emit e = {.op = op, .attrs = &a, .in = {*in}, .n_in = 1};
	bool marked[FF_MAX_RANK + 1] = {0}, any, keep = ff_onnx_int(n, "keepdims", 1) != 0;
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE};
	int64_t shape[FF_IMPORT_RANK];
	uint32_t rank = ff_onnx_shape(in, shape), left = 0;
	int code = ff_onnx_axes(im, n, rank, marked, &any);

	for (uint32_t k = 0; k < rank && code == FF_OK; k++) {
		uint32_t axis;

		if (any && !marked[k]) {
			shape[left++] = shape[k];
			continue;
		}
		code = ff_onnx_axis_of(im, n, k, in, &axis);
		a.reduce.axis[a.reduce.n_axes++] = (int32_t)axis;
	}
	if (code < 0)
		return code;
	a.reduce.keep = keep || in->arranged;
	code = ff_emit(im, n, &e, &out, 1);
	*ret = out;
	return code == FF_OK && in->arranged && !keep
			       ? ff_onnx_regroup(im, n, &out, left, shape, ret)
			       : code;
}

static int reduce(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK)
		code = reduce_value(im, n, in, op, &out);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

/* The root of the sum of squares. */
int ff_onnx_reduce_l2(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_emit e = {.op = FF_OP_MUL, .n_in = 2}, root = {.op = FF_OP_SQRT, .n_in = 1};
	struct ff_onnx_value square = {.kind = FF_ONNX_NODE}, *in;
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code < 0)
		return code;
	e.in[0] = e.in[1] = *in;
	root.in[0] = square;
	if ((code = ff_emit(im, n, &e, &square, 1)) < 0 ||
			(code = reduce_value(im, n, &square, FF_OP_REDUCE_SUM, &root.in[0])) < 0)
		return code;
	return ff_emit_as(im, n, &root);
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
	int code = ff_onnx_in_node(im, n, 0, &in);

	if (code == FF_OK && in->arranged)
		return reduce(im, n, FF_OP_REDUCE_MEAN);
	if (code == FF_OK)
		code = ff_onnx_axes(im, n, in->rank, marked, &any);
	if (code < 0)
		return code;
	if (in->rank != 4 || !marked[2] || !marked[3] || marked[1] || marked[0])
		return reduce(im, n, FF_OP_REDUCE_MEAN);
	if ((code = pool_all(im, n, in, FF_POOL_AVG, &out)) < 0)
		return code;
	code = ff_emit_reshape(
			im, n, &out, ff_onnx_int(n, "keepdims", 1) ? 4 : 2, out.shape, &flat);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &flat);
}
