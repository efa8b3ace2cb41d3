/* densenet121: Huang, Liu, van der Maaten, Weinberger, "Densely Connected
 * Convolutional Networks", 2017.  Each layer's output is joined
 * to what was there before it, so that a block of n layers has n concats of two
 * tensors instead of n of up to n + 1.  Nodes are called as torchvision calls
 * its modules.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#define GROWTH 32      /* channels that each layer adds */
#define BOTTLENECK 128 /* channels between its two convolutions */

enum { IMAGE, CHANNELS, CLASSES, NORM };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 29, 4096, 224, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 1000, NULL},
		FF_ZOO_NORM,
};

static uint32_t dense_layer(const struct ff_zoo_net *n, const char *p, uint32_t in)
{
	uint32_t x[2] = {in};

	x[1] = ff_layer_norm(n, ff_layer_name("%s.norm1", p).text, in);
	x[1] = ff_layer_relu(n, ff_layer_name("%s.relu1", p).text, x[1]);
	x[1] = ff_layer_conv(n, ff_layer_name("%s.conv1", p).text, x[1], BOTTLENECK, 1, 1, 0);
	x[1] = ff_layer_norm(n, ff_layer_name("%s.norm2", p).text, x[1]);
	x[1] = ff_layer_relu(n, ff_layer_name("%s.relu2", p).text, x[1]);
	x[1] = ff_layer_conv(n, ff_layer_name("%s.conv2", p).text, x[1], GROWTH, 3, 1, 1);
	return ff_layer_concat(n, ff_layer_name("%s.concat", p).text, x, 2);
}

/* Halves the channels and the images. */
static uint32_t transition(const struct ff_zoo_net *n, int32_t number, uint32_t x, int32_t channels)
{
	struct ff_layer_name prefix = ff_layer_name("features.transition%d", number);
	const char *p = prefix.text;

	x = ff_layer_norm(n, ff_layer_name("%s.norm", p).text, x);
	x = ff_layer_relu(n, ff_layer_name("%s.relu", p).text, x);
	x = ff_layer_conv(n, ff_layer_name("%s.conv", p).text, x, channels, 1, 1, 0);
	return ff_layer_pool(n, ff_layer_name("%s.pool", p).text, x, FF_POOL_AVG, 2, 2, 0);
}

/* The first convolution and the blocks; `size` becomes that of their output. */
static uint32_t features(const struct ff_zoo_net *n, uint32_t x, int32_t *size)
{
	static const int32_t layers[4] = {6, 12, 24, 16};
	int32_t channels = 64;

	x = ff_layer_conv(n, "features.conv0", x, channels, 7, 2, 3);
	x = ff_layer_norm(n, "features.norm0", x);
	x = ff_layer_relu(n, "features.relu0", x);
	x = ff_layer_pool(n, "features.pool0", x, FF_POOL_MAX, 3, 2, 1);
	*size = ff_layer_size(ff_layer_size(*size, 7, 2, 3), 3, 2, 1);
	for (int32_t i = 1; i <= 4; i++) {
		for (int32_t k = 1; k <= layers[i - 1]; k++, channels += GROWTH) {
			struct ff_layer_name p =
					ff_layer_name("features.denseblock%d.denselayer%d", i, k);

			x = dense_layer(n, p.text, x);
		}
		if (i == 4)
			break;
		channels /= 2;
		x = transition(n, i, x, channels);
		*size = ff_layer_size(*size, 2, 2, 0);
	}
	return ff_layer_norm(n, "features.norm5", x);
}

static void build(const struct ff_zoo_net *net)
{
	const int32_t *v = net->value;
	struct ff_zoo_net normed = ff_layer_normed(net, &v[NORM], 1e-5), *n = &normed;
	int32_t size = v[IMAGE];
	uint32_t x = ff_layer_images(n, v[CHANNELS], size);

	x = ff_layer_relu(n, "relu", features(n, x, &size));
	x = ff_layer_flatten(n, ff_layer_pool(n, "avgpool", x, FF_POOL_AVG, size, 1, 0));
	ff_layer_classify(n, ff_layer_linear(n, "classifier", x, v[CLASSES]), v[CLASSES]);
}

const struct ff_zoo_row ff_zoo_densenet121 = {"densenet121",
		"DenseNet, 58 layers that each read all before them", 64, params,
		FF_ZOO_COUNT(params), build};
