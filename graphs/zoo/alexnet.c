/* alexnet: Krizhevsky, "One weird trick for parallelizing convolutional neural
 * networks", 2014 (one tower); below 64 pixels a smaller relative.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { ALEX_IMAGE, ALEX_CHANNELS, ALEX_FC1, ALEX_FC2, ALEX_DROPOUT, ALEX_CLASSES };
static const struct ff_zoo_param alexnet_params[] = {
		{"image", "height and width of the images; below 64 a smaller network is built", 8,
				4096, 224, NULL},
		{"channels", "channels of the images (0: 3, or 1 below 64 pixels)", 0, 4096, 0,
				NULL},
		{"fc1", "features of the first linear layer (0: 4096, or 1024 below 64 pixels)", 0,
				FF_ZOO_WIDTH, 0, NULL},
		{"fc2", "features of the second linear layer (0: 4096, or 512 below 64 pixels)", 0,
				FF_ZOO_WIDTH, 0, NULL},
		{"dropout", "percent of the features dropped (0: no dropout)", 0, 99, 50, NULL},
		{"classes", "classes told apart (0: 1000, or 10 below 64 pixels)", 0, FF_ZOO_WIDTH,
				0, NULL},
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

		x = ff_layer_conv(n, ff_layer_name("conv%d", i + 1).text, x, l->channels, l->kernel,
				l->stride, l->pad);
		x = ff_layer_relu(n, ff_layer_name("relu%d", i + 1).text, x);
		if (l->pool)
			x = ff_layer_pool(n, ff_layer_name("pool%d", i + 1).text, x, FF_POOL_MAX,
					l->pool, 2, 0);
	}
	return ff_layer_flatten(n, x);
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
	uint32_t x = ff_layer_images(n, or_preset(v[ALEX_CHANNELS], small, 1, 3), v[ALEX_IMAGE]);

	x = alexnet_features(n, x, small);
	for (int32_t i = 0; i < 2; i++) {
		struct ff_layer_name drop = ff_layer_name("drop%d", i + 1);

		if (!small)
			x = ff_layer_dropout(n, drop.text, x, v[ALEX_DROPOUT]);
		x = ff_layer_linear(n, ff_layer_name("fc%d", i + 1).text, x, width[i]);
		x = ff_layer_relu(n, ff_layer_name("relu%d", i + 6).text, x);
		if (small)
			x = ff_layer_dropout(n, drop.text, x, v[ALEX_DROPOUT]);
	}
	ff_layer_classify(n, ff_layer_linear(n, "fc3", x, classes), classes);
}

const struct ff_zoo_row ff_zoo_alexnet = {"alexnet",
		"AlexNet for 224x224 images, or a small relative for 28x28 (--set image=28)", 256,
		alexnet_params, FF_ZOO_COUNT(alexnet_params), build_alexnet};
