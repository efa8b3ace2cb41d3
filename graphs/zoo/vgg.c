/* vgg16: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale
 * Image Recognition", 2015, configuration D.  Nodes are called as torchvision
 * calls its modules, by their place in a list.  torchvision averages the last
 * images to 7x7, which at 224 pixels they are; here other sizes are flattened
 * as they are.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { IMAGE, CHANNELS, FC, DROPOUT, CLASSES };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 32, 4096, 224, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"fc", "features of the first two linear layers", 1, FF_ZOO_WIDTH, 4096, NULL},
		{"dropout", "percent of their features dropped (0: no dropout)", 0, 99, 50, NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 1000, NULL},
};

/* Five blocks of 3x3 convolutions, each of which ends with halved images. */
static uint32_t features(const struct ff_zoo_net *n, uint32_t x)
{
	static const struct {
		int32_t convs, channels;
	} blocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
	int32_t i = 0;

	for (uint32_t b = 0; b < FF_ZOO_COUNT(blocks); b++) {
		for (int32_t k = 0; k < blocks[b].convs; k++) {
			x = ff_layer_conv(n, ff_layer_name("features.%d", i++).text, x,
					blocks[b].channels, 3, 1, 1);
			x = ff_layer_relu(n, ff_layer_name("features.%d", i++).text, x);
		}
		x = ff_layer_pool(
				n, ff_layer_name("features.%d", i++).text, x, FF_POOL_MAX, 2, 2, 0);
	}
	return x;
}

static void build(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	uint32_t x = ff_layer_images(n, v[CHANNELS], v[IMAGE]);
	int32_t i = 0;

	x = ff_layer_flatten(n, features(n, x));
	for (uint32_t k = 0; k < 2; k++) {
		x = ff_layer_linear(n, ff_layer_name("classifier.%d", i++).text, x, v[FC]);
		x = ff_layer_relu(n, ff_layer_name("classifier.%d", i++).text, x);
		x = ff_layer_dropout(n, ff_layer_name("classifier.%d", i++).text, x, v[DROPOUT]);
	}
	x = ff_layer_linear(n, ff_layer_name("classifier.%d", i).text, x, v[CLASSES]);
	ff_layer_classify(n, x, v[CLASSES]);
}

const struct ff_zoo_row ff_zoo_vgg16 = {"vgg16", "VGG, 13 convolutions and three linear layers", 64,
		params, FF_ZOO_COUNT(params), build};
