/* The networks of the zoo.  There is no batch normalisation yet, so the
 * branching one is a plain relative of Inception and ResNet.
 * SPDX-License-Identifier: Apache-2.0 */
#include "zoo_nets.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_WIDTH (1 << 20)
#define N(array) (sizeof(array) / sizeof((array)[0]))
#define ACTIVATIONS "relu|tanh|sigmoid"

/* ---- layers: each returns its node ---- */

static uint32_t add(const struct ff_zoo_net *n, enum ff_op op, const char *name,
		const union ff_attrs *attrs, uint32_t in)
{
	return ff_builder_add(n->builder, op, name, attrs, &in, 1);
}

static uint32_t images(const struct ff_zoo_net *n, int32_t channels, int32_t size)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	a.input.rank = 4;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = channels;
	a.input.shape[2] = a.input.shape[3] = size;
	return ff_builder_add(n->builder, FF_OP_INPUT, "data", &a, NULL, 0);
}

static uint32_t conv(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t channels,
		int32_t kernel, int32_t stride, int32_t pad)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);
	a.conv2d.out_channels = channels;
	for (uint32_t i = 0; i < 2; i++) {
		a.conv2d.kernel[i] = kernel;
		a.conv2d.stride[i] = stride;
		a.conv2d.pad[i] = pad;
	}
	return add(n, FF_OP_CONV2D, name, &a, in);
}

static uint32_t pool(const struct ff_zoo_net *n, const char *name, uint32_t in,
		enum ff_pool_mode mode, int32_t kernel, int32_t stride, int32_t pad)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_POOL2D);
	a.pool2d.mode = (int32_t)mode;
	for (uint32_t i = 0; i < 2; i++) {
		a.pool2d.kernel[i] = kernel;
		a.pool2d.stride[i] = stride;
		a.pool2d.pad[i] = pad;
	}
	return add(n, FF_OP_POOL2D, name, &a, in);
}

static uint32_t linear(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t features)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	a.linear.out_features = features;
	return add(n, FF_OP_LINEAR, name, &a, in);
}

static uint32_t flatten(const struct ff_zoo_net *n, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);
	a.reshape.rank = 2;
	a.reshape.shape[1] = -1;
	return add(n, FF_OP_RESHAPE, "flatten", &a, in);
}

static uint32_t dropout(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t percent)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_DROPOUT);
	a.dropout.p = percent / 100.0;
	return percent ? add(n, FF_OP_DROPOUT, name, &a, in) : in;
}

static uint32_t activation(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t choice)
{
	static const enum ff_op ops[] = {FF_OP_RELU, FF_OP_TANH, FF_OP_SIGMOID};
	return add(n, ops[choice], name, NULL, in);
}

/* Labels and loss. */
static void classify(const struct ff_zoo_net *n, uint32_t logits, int32_t classes)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	a.input.rank = 1;
	a.input.shape[0] = n->batch;
	a.input.dtype = FF_I32;
	a.input.classes = classes;
	uint32_t labels = ff_builder_add(n->builder, FF_OP_INPUT, "labels", &a, NULL, 0);
	ff_builder_add(n->builder, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL,
			(uint32_t[]){logits, labels}, 2);
}

struct name {
	char text[48];
};
__attribute__((format(printf, 1, 2))) static struct name name(const char *fmt, ...)
{
	struct name r;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(r.text, sizeof(r.text), fmt, ap);
	va_end(ap);
	return r;
}

/* ---- mlp ---- */

enum { MLP_IMAGE, MLP_CHANNELS, MLP_HIDDEN, MLP_LAYERS, MLP_ACTIVATION, MLP_CLASSES };
static const struct ff_zoo_param mlp_params[] = {
		{"image", "height and width of the images", 4, 4096, 28, NULL},
		{"channels", "channels of the images", 1, 4096, 1, NULL},
		{"hidden", "features of each hidden layer", 1, MAX_WIDTH, 4096, NULL},
		{"layers", "hidden layers", 0, 1000, 3, NULL},
		{"activation", "after each hidden layer", 0, 2, 0, ACTIVATIONS},
		{"classes", "classes told apart", 1, MAX_WIDTH, 10, NULL},
};

static void build_mlp(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	uint32_t x = flatten(n, images(n, v[MLP_CHANNELS], v[MLP_IMAGE]));
	for (int32_t i = 1; i <= v[MLP_LAYERS]; i++) {
		x = linear(n, name("fc%d", i).text, x, v[MLP_HIDDEN]);
		x = activation(n, name("act%d", i).text, x, v[MLP_ACTIVATION]);
	}
	x = linear(n, name("fc%d", v[MLP_LAYERS] + 1).text, x, v[MLP_CLASSES]);
	classify(n, x, v[MLP_CLASSES]);
}

const struct ff_zoo_row ff_zoo_mlp = {"mlp", "fully connected layers of one width", 128, mlp_params,
		N(mlp_params), build_mlp};

/* ---- lenet: LeNet-5 of LeCun et al., "Gradient-Based Learning Applied to
 * Document Recognition", 1998, with plain pooling and a plain last layer ---- */

enum {
	LENET_IMAGE,
	LENET_CHANNELS,
	LENET_PAD,
	LENET_CONV1,
	LENET_CONV2,
	LENET_FC1,
	LENET_FC2,
	LENET_POOL,
	LENET_ACTIVATION,
	LENET_CLASSES
};
static const struct ff_zoo_param lenet_params[] = {
		{"image", "height and width of the images", 4, 4096, 28, NULL},
		{"channels", "channels of the images", 1, 4096, 1, NULL},
		{"pad", "padding before the first convolution (2 makes 28 the paper's 32)", 0, 4, 2,
				NULL},
		{"conv1", "channels of the first convolution", 1, MAX_WIDTH, 6, NULL},
		{"conv2", "channels of the second convolution", 1, MAX_WIDTH, 16, NULL},
		{"fc1", "features of the first hidden layer", 1, MAX_WIDTH, 120, NULL},
		{"fc2", "features of the second hidden layer", 1, MAX_WIDTH, 84, NULL},
		{"pool", "how the images are halved", 0, 1, 1, "max|avg"},
		{"activation", "after each layer", 0, 2, 1, ACTIVATIONS},
		{"classes", "classes told apart", 1, MAX_WIDTH, 10, NULL},
};

static void build_lenet(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	enum ff_pool_mode mode = v[LENET_POOL] ? FF_POOL_AVG : FF_POOL_MAX;
	uint32_t x = images(n, v[LENET_CHANNELS], v[LENET_IMAGE]);
	x = conv(n, "conv1", x, v[LENET_CONV1], 5, 1, v[LENET_PAD]);
	x = activation(n, "act1", x, v[LENET_ACTIVATION]);
	x = pool(n, "pool1", x, mode, 2, 2, 0);
	x = conv(n, "conv2", x, v[LENET_CONV2], 5, 1, 0);
	x = activation(n, "act2", x, v[LENET_ACTIVATION]);
	x = flatten(n, pool(n, "pool2", x, mode, 2, 2, 0));
	x = activation(n, "act3", linear(n, "fc1", x, v[LENET_FC1]), v[LENET_ACTIVATION]);
	x = activation(n, "act4", linear(n, "fc2", x, v[LENET_FC2]), v[LENET_ACTIVATION]);
	classify(n, linear(n, "fc3", x, v[LENET_CLASSES]), v[LENET_CLASSES]);
}

const struct ff_zoo_row ff_zoo_lenet = {"lenet",
		"LeNet-5, two convolutions and three linear layers", 64, lenet_params,
		N(lenet_params), build_lenet};

/* ---- alexnet: Krizhevsky, "One weird trick for parallelizing convolutional
 * neural networks", 2014 (one tower); below 64 pixels a smaller relative ---- */

enum { ALEX_IMAGE, ALEX_CHANNELS, ALEX_FC1, ALEX_FC2, ALEX_DROPOUT, ALEX_CLASSES };
static const struct ff_zoo_param alexnet_params[] = {
		{"image", "height and width of the images; below 64 a smaller network is built", 8,
				4096, 224, NULL},
		{"channels", "channels of the images (0: 3, or 1 below 64 pixels)", 0, 4096, 0,
				NULL},
		{"fc1", "features of the first linear layer (0: 4096, or 1024 below 64 pixels)", 0,
				MAX_WIDTH, 0, NULL},
		{"fc2", "features of the second linear layer (0: 4096, or 512 below 64 pixels)", 0,
				MAX_WIDTH, 0, NULL},
		{"dropout", "percent of the features dropped (0: no dropout)", 0, 99, 50, NULL},
		{"classes", "classes told apart (0: 1000, or 10 below 64 pixels)", 0, MAX_WIDTH, 0,
				NULL},
};

struct conv_layer {
	int32_t channels, kernel, stride, pad, pool; /* pool: its kernel, stride 2; 0: none */
};

static uint32_t alexnet_features(const struct ff_zoo_net *n, uint32_t x, bool small)
{
	static const struct conv_layer large_layers[5] = {{64, 11, 4, 2, 3}, {192, 5, 1, 2, 3},
			{384, 3, 1, 1, 0}, {256, 3, 1, 1, 0}, {256, 3, 1, 1, 3}};
	static const struct conv_layer small_layers[5] = {{32, 3, 1, 1, 2}, {64, 3, 1, 1, 2},
			{128, 3, 1, 1, 0}, {128, 3, 1, 1, 0}, {64, 3, 1, 1, 2}};
	const struct conv_layer *layers = small ? small_layers : large_layers;
	for (int32_t i = 0; i < 5; i++) {
		const struct conv_layer *l = &layers[i];
		x = conv(n, name("conv%d", i + 1).text, x, l->channels, l->kernel, l->stride,
				l->pad);
		x = activation(n, name("relu%d", i + 1).text, x, 0);
		if (l->pool)
			x = pool(n, name("pool%d", i + 1).text, x, FF_POOL_MAX, l->pool, 2, 0);
	}
	return flatten(n, x);
}

static int32_t or_preset(int32_t v, bool small, int32_t of_small, int32_t of_large)
{
	return v ? v : small ? of_small : of_large;
}

/* The large network drops the features before its linear layers, the small
 * one behind them. */
static void build_alexnet(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	bool small = v[ALEX_IMAGE] < 64;
	int32_t width[2] = {or_preset(v[ALEX_FC1], small, 1024, 4096),
			or_preset(v[ALEX_FC2], small, 512, 4096)};
	int32_t classes = or_preset(v[ALEX_CLASSES], small, 10, 1000);
	uint32_t x = images(n, or_preset(v[ALEX_CHANNELS], small, 1, 3), v[ALEX_IMAGE]);
	x = alexnet_features(n, x, small);
	for (int32_t i = 0; i < 2; i++) {
		struct name drop = name("drop%d", i + 1);
		if (!small)
			x = dropout(n, drop.text, x, v[ALEX_DROPOUT]);
		x = linear(n, name("fc%d", i + 1).text, x, width[i]);
		x = activation(n, name("relu%d", i + 6).text, x, 0);
		if (small)
			x = dropout(n, drop.text, x, v[ALEX_DROPOUT]);
	}
	classify(n, linear(n, "fc3", x, classes), classes);
}

const struct ff_zoo_row ff_zoo_alexnet = {"alexnet",
		"AlexNet for 224x224 images, or a small relative for 28x28 (--set image=28)", 256,
		alexnet_params, N(alexnet_params), build_alexnet};

/* ---- branchnet: blocks of four branches, joined, with a short cut ---- */

enum { BRANCH_IMAGE, BRANCH_CHANNELS, BRANCH_BLOCKS, BRANCH_WIDTH, BRANCH_CLASSES };
static const struct ff_zoo_param branchnet_params[] = {
		{"image", "height and width of the images", 4, 4096, 28, NULL},
		{"channels", "channels of the images", 1, 4096, 1, NULL},
		{"blocks", "blocks of four branches", 1, 1000, 3, NULL},
		{"width", "channels of each branch", 2, MAX_WIDTH / 4, 16, NULL},
		{"classes", "classes told apart", 1, MAX_WIDTH, 10, NULL},
};

static uint32_t conv_relu(const struct ff_zoo_net *n, const char *prefix, const char *what,
		uint32_t in, int32_t channels, int32_t kernel)
{
	uint32_t x = conv(n, name("%s.%s", prefix, what).text, in, channels, kernel, 1, kernel / 2);
	return activation(n, name("%s.%s.relu", prefix, what).text, x, 0);
}

/* 1x1, 3x3, 5x5 and pooled branches over `in`, which has 4 `width` channels. */
static uint32_t block(const struct ff_zoo_net *n, int32_t number, uint32_t in, int32_t width)
{
	struct name prefix = name("block%d", number);
	const char *p = prefix.text;
	uint32_t branch[4];
	branch[0] = conv_relu(n, p, "a1", in, width, 1);
	branch[1] = conv_relu(n, p, "b3", conv_relu(n, p, "b1", in, width, 1), width, 3);
	branch[2] = conv_relu(n, p, "c5", conv_relu(n, p, "c1", in, width / 2, 1), width, 5);
	uint32_t pooled = pool(n, name("%s.d.pool", p).text, in, FF_POOL_MAX, 3, 1, 1);
	branch[3] = conv_relu(n, p, "d1", pooled, width, 1);
	union ff_attrs axis = ff_attrs_preset(FF_OP_CONCAT);
	uint32_t joined = ff_builder_add(
			n->builder, FF_OP_CONCAT, name("%s.concat", p).text, &axis, branch, 4);
	uint32_t sum = ff_builder_add(n->builder, FF_OP_ADD, name("%s.add", p).text, NULL,
			(uint32_t[]){joined, in}, 2);
	return activation(n, name("%s.relu", p).text, sum, 0);
}

static void build_branchnet(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	int32_t size = v[BRANCH_IMAGE], width = v[BRANCH_WIDTH];
	bool large = size >= 64;
	uint32_t x = images(n, v[BRANCH_CHANNELS], size);
	x = conv(n, "stem", x, 4 * width, large ? 7 : 3, large ? 2 : 1, large ? 3 : 1);
	x = activation(n, "stem.relu", x, 0);
	x = pool(n, "stem.pool", x, FF_POOL_MAX, 2, 2, 0);
	size = (large ? (size - 1) / 2 + 1 : size) / 2;
	for (int32_t i = 1; i <= v[BRANCH_BLOCKS]; i++) {
		x = block(n, i, x, width);
		if (i < v[BRANCH_BLOCKS] && size >= 4) {
			x = pool(n, name("pool%d", i).text, x, FF_POOL_MAX, 2, 2, 0);
			size /= 2;
		}
	}
	x = flatten(n, pool(n, "average", x, FF_POOL_AVG, size, 1, 0));
	classify(n, linear(n, "fc", x, v[BRANCH_CLASSES]), v[BRANCH_CLASSES]);
}

const struct ff_zoo_row ff_zoo_branchnet = {"branchnet",
		"blocks of 1x1, 3x3, 5x5 and pooled branches, concatenated, with a residual add",
		64, branchnet_params, N(branchnet_params), build_branchnet};
