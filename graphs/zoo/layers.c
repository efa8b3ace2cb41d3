/* Layers: attributes filled in, one node added.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <stdarg.h>
#include <stdio.h>

struct ff_layer_name ff_layer_name(const char *fmt, ...)
{
	struct ff_layer_name r;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r.text, sizeof(r.text), fmt, ap);
	va_end(ap);
	return r;
}

static uint32_t add(const struct ff_zoo_net *n, enum ff_op op, const char *name,
		const union ff_attrs *attrs, uint32_t in)
{
	return ff_builder_add(n->builder, op, name, attrs, &in, 1);
}

uint32_t ff_layer_images(const struct ff_zoo_net *n, int32_t channels, int32_t size)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);

	a.input.rank = 4;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = channels;
	a.input.shape[2] = a.input.shape[3] = size;
	return ff_builder_add(n->builder, FF_OP_INPUT, "data", &a, NULL, 0);
}

/* `labels`: their shape beside the batch. */
static void classify(const struct ff_zoo_net *n, uint32_t logits, int32_t classes,
		const int32_t *labels, uint32_t rank)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	uint32_t in[2] = {logits};

	a.input.rank = 1 + (int32_t)rank;
	a.input.shape[0] = n->batch;
	for (uint32_t i = 0; i < rank; i++)
		a.input.shape[1 + i] = labels[i];
	a.input.dtype = FF_I32;
	a.input.classes = classes;
	in[1] = ff_builder_add(n->builder, FF_OP_INPUT, "labels", &a, NULL, 0);
	ff_builder_add(n->builder, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
}

void ff_layer_classify(const struct ff_zoo_net *n, uint32_t logits, int32_t classes)
{
	classify(n, logits, classes, NULL, 0);
}

void ff_layer_classify_pixels(const struct ff_zoo_net *n, uint32_t logits, int32_t classes,
		int32_t height, int32_t width)
{
	const int32_t shape[] = {height, width};

	classify(n, logits, classes, shape, 2);
}

uint32_t ff_layer_ids(const struct ff_zoo_net *n, const char *name, int32_t length, int32_t classes)
{
	union ff_attrs a = {.input = {.rank = 2,
					    .shape = {n->batch, length},
					    .dtype = FF_I32,
					    .classes = classes}};

	return ff_builder_add(n->builder, FF_OP_INPUT, name, &a, NULL, 0);
}

void ff_layer_classify_places(
		const struct ff_zoo_net *n, uint32_t logits, int32_t length, int32_t classes)
{
	union ff_attrs a = {.transpose = {3, {0, 2, 1}}};
	uint32_t by_class = ff_builder_add(n->builder, FF_OP_TRANSPOSE, "classes", &a, &logits, 1);

	classify(n, by_class, classes, &length, 1);
}

struct ff_zoo_net ff_layer_normed(const struct ff_zoo_net *n, const int32_t *value, double epsilon)
{
	struct ff_zoo_net r = *n;

	r.batch_norm = value[0] == 0;
	r.norm_group = value[1];
	r.epsilon = epsilon;
	return r;
}

uint32_t ff_layer_norm(const struct ff_zoo_net *n, const char *name, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_BATCH_NORM);

	a.norm.epsilon = n->epsilon;
	a.norm.sync = n->norm_group == 0;
	a.norm.group = n->norm_group;
	return n->batch_norm ? add(n, FF_OP_BATCH_NORM, name, &a, in) : in;
}

uint32_t ff_layer_conv(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t channels,
		int32_t kernel, int32_t stride, int32_t pad)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);

	a.conv.out_channels = channels;
	a.conv.bias = !n->batch_norm;
	for (uint32_t i = 0; i < 2; i++) {
		a.conv.kernel[i] = kernel;
		a.conv.stride[i] = stride;
		a.conv.pad[0][i] = a.conv.pad[1][i] = pad;
	}
	return add(n, FF_OP_CONV2D, name, &a, in);
}

uint32_t ff_layer_conv_grouped(const struct ff_zoo_net *n, const char *name, uint32_t in,
		int32_t channels, int32_t kernel, int32_t stride, int32_t groups)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);

	a.conv.out_channels = channels;
	a.conv.bias = !n->batch_norm;
	a.conv.groups = groups;
	for (uint32_t i = 0; i < 2; i++) {
		a.conv.kernel[i] = kernel;
		a.conv.stride[i] = stride;
		a.conv.pad[0][i] = a.conv.pad[1][i] = kernel / 2;
	}
	return add(n, FF_OP_CONV2D, name, &a, in);
}

uint32_t ff_layer_conv_transpose(const struct ff_zoo_net *n, const char *name, uint32_t in,
		int32_t channels, int32_t kernel, int32_t stride)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV_TRANSPOSE2D);

	a.conv.out_channels = channels;
	for (uint32_t i = 0; i < 2; i++) {
		a.conv.kernel[i] = kernel;
		a.conv.stride[i] = stride;
	}
	return add(n, FF_OP_CONV_TRANSPOSE2D, name, &a, in);
}

uint32_t ff_layer_upsample(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t size)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_UPSAMPLE);

	a.resize.axes = 2;
	a.resize.size[0] = a.resize.size[1] = size;
	a.resize.mode = FF_RESIZE_LINEAR;
	a.resize.corners = 1;
	return add(n, FF_OP_UPSAMPLE, name, &a, in);
}

uint32_t ff_layer_pad(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t before,
		int32_t after)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_PAD);

	a.pad.rank = a.pad.rank_after = 4;
	for (uint32_t i = 2; i < 4; i++) {
		a.pad.before[i] = before;
		a.pad.after[i] = after;
	}
	return add(n, FF_OP_PAD, name, &a, in);
}

uint32_t ff_layer_conv_same(const struct ff_zoo_net *n, const char *name, uint32_t in,
		int32_t channels, int32_t height, int32_t width)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);

	a.conv.out_channels = channels;
	a.conv.bias = !n->batch_norm;
	a.conv.kernel[0] = height;
	a.conv.kernel[1] = width;
	a.conv.pad[0][0] = a.conv.pad[1][0] = height / 2;
	a.conv.pad[0][1] = a.conv.pad[1][1] = width / 2;
	return add(n, FF_OP_CONV2D, name, &a, in);
}

uint32_t ff_layer_pool(const struct ff_zoo_net *n, const char *name, uint32_t in,
		enum ff_pool_mode mode, int32_t kernel, int32_t stride, int32_t pad)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);

	a.pool.mode = (int32_t)mode;
	for (uint32_t i = 0; i < 2; i++) {
		a.pool.kernel[i] = kernel;
		a.pool.stride[i] = stride;
		a.pool.pad[0][i] = a.pool.pad[1][i] = pad;
	}
	return add(n, FF_OP_POOL2D, name, &a, in);
}

uint32_t ff_layer_pool_up(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t kernel,
		int32_t stride, int32_t pad)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);

	a.pool.ceil = 1;
	for (uint32_t i = 0; i < 2; i++) {
		a.pool.kernel[i] = kernel;
		a.pool.stride[i] = stride;
		a.pool.pad[0][i] = a.pool.pad[1][i] = pad;
	}
	return add(n, FF_OP_POOL2D, name, &a, in);
}

uint32_t ff_layer_linear(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t features)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);

	a.linear.out_features = features;
	return add(n, FF_OP_LINEAR, name, &a, in);
}

uint32_t ff_layer_flatten(const struct ff_zoo_net *n, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);

	a.reshape.rank = 2;
	a.reshape.shape[1] = -1;
	return add(n, FF_OP_RESHAPE, "flatten", &a, in);
}

uint32_t ff_layer_dropout(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t percent)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_DROPOUT);

	a.dropout.p = percent / 100.0;
	return percent ? add(n, FF_OP_DROPOUT, name, &a, in) : in;
}

uint32_t ff_layer_activation(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t choice)
{
	static const enum ff_op ops[] = {FF_OP_RELU, FF_OP_TANH, FF_OP_SIGMOID};

	return add(n, ops[choice], name, NULL, in);
}

uint32_t ff_layer_relu6(const struct ff_zoo_net *n, const char *name, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CLIP);

	a.unary.a = 0;
	a.unary.b = 6;
	return add(n, FF_OP_CLIP, name, &a, in);
}

uint32_t ff_layer_relu(const struct ff_zoo_net *n, const char *name, uint32_t in)
{
	return add(n, FF_OP_RELU, name, NULL, in);
}

uint32_t ff_layer_add(const struct ff_zoo_net *n, const char *name, uint32_t a, uint32_t b)
{
	const uint32_t in[] = {a, b};

	return ff_builder_add(n->builder, FF_OP_ADD, name, NULL, in, 2);
}

uint32_t ff_layer_mul(const struct ff_zoo_net *n, const char *name, uint32_t a, uint32_t b)
{
	const uint32_t in[] = {a, b};

	return ff_builder_add(n->builder, FF_OP_MUL, name, NULL, in, 2);
}

uint32_t ff_layer_slice(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t start,
		int32_t stop)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_SLICE);

	a.slice.start = start;
	a.slice.stop = stop;
	return add(n, FF_OP_SLICE, name, &a, in);
}

uint32_t ff_layer_concat(
		const struct ff_zoo_net *n, const char *name, const uint32_t *in, uint32_t n_in)
{
	union ff_attrs axis = ff_attrs_preset(FF_OP_CONCAT);

	return ff_builder_add(n->builder, FF_OP_CONCAT, name, &axis, in, n_in);
}
