/* lenet: LeNet-5 of LeCun et al., "Gradient-Based Learning Applied to Document
 * Recognition", 1998, with plain pooling and a plain last layer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

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
		{"conv1", "channels of the first convolution", 1, FF_ZOO_WIDTH, 6, NULL},
		{"conv2", "channels of the second convolution", 1, FF_ZOO_WIDTH, 16, NULL},
		{"fc1", "features of the first hidden layer", 1, FF_ZOO_WIDTH, 120, NULL},
		{"fc2", "features of the second hidden layer", 1, FF_ZOO_WIDTH, 84, NULL},
		{"pool", "how the images are halved", 0, 1, 1, "max|avg"},
		{"activation", "after each layer", 0, 2, 1, FF_ZOO_ACTIVATIONS},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 10, NULL},
};

static void build_lenet(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	enum ff_pool_mode mode = v[LENET_POOL] ? FF_POOL_AVG : FF_POOL_MAX;
	uint32_t x = ff_layer_images(n, v[LENET_CHANNELS], v[LENET_IMAGE]);

	x = ff_layer_conv(n, "conv1", x, v[LENET_CONV1], 5, 1, v[LENET_PAD]);
	x = ff_layer_activation(n, "act1", x, v[LENET_ACTIVATION]);
	x = ff_layer_pool(n, "pool1", x, mode, 2, 2, 0);
	x = ff_layer_conv(n, "conv2", x, v[LENET_CONV2], 5, 1, 0);
	x = ff_layer_activation(n, "act2", x, v[LENET_ACTIVATION]);
	x = ff_layer_flatten(n, ff_layer_pool(n, "pool2", x, mode, 2, 2, 0));
	x = ff_layer_linear(n, "fc1", x, v[LENET_FC1]);
	x = ff_layer_activation(n, "act3", x, v[LENET_ACTIVATION]);
	x = ff_layer_linear(n, "fc2", x, v[LENET_FC2]);
	x = ff_layer_activation(n, "act4", x, v[LENET_ACTIVATION]);
	x = ff_layer_linear(n, "fc3", x, v[LENET_CLASSES]);
	ff_layer_classify(n, x, v[LENET_CLASSES]);
}

const struct ff_zoo_row ff_zoo_lenet = {"lenet",
		"LeNet-5, two convolutions and three linear layers", 64, lenet_params,
		FF_ZOO_COUNT(lenet_params), build_lenet};
