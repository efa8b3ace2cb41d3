/* googlenet: Szegedy and others, "Going Deeper with Convolutions", 2015, as torchvision has it:
 * with batch norms, and 3x3 where the paper has 5x5.  There is no auxiliary classifier, since a
 * graph has one loss.  Nodes are called as torchvision calls its modules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { IMAGE, CHANNELS, DROPOUT, CLASSES, NORM };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 31, 4096, 224, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"dropout", "percent of the last features dropped (0: no dropout)", 0, 99, 20,
				NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 1000, NULL},
		FF_ZOO_NORM,
};

static uint32_t conv(const struct ff_zoo_net *n, const char *p, uint32_t in, int32_t channels,
		int32_t kernel, int32_t stride)
{
	uint32_t x = ff_layer_conv(n, ff_layer_name("%s.conv", p).text, in, channels, kernel,
			stride, kernel / 2);

	x = ff_layer_norm(n, ff_layer_name("%s.bn", p).text, x);
	return ff_layer_relu(n, ff_layer_name("%s.relu", p).text, x);
}

/* Four branches: 1x1; 1x1 and 3x3, twice; the largest of 3x3 and 1x1. */
static uint32_t module(const struct ff_zoo_net *n, const char *p, uint32_t in, const int32_t *width)
{
	uint32_t b[4];

	b[0] = conv(n, ff_layer_name("%s.branch1", p).text, in, width[0], 1, 1);
	b[1] = conv(n, ff_layer_name("%s.branch2.0", p).text, in, width[1], 1, 1);
	b[1] = conv(n, ff_layer_name("%s.branch2.1", p).text, b[1], width[2], 3, 1);
	b[2] = conv(n, ff_layer_name("%s.branch3.0", p).text, in, width[3], 1, 1);
	b[2] = conv(n, ff_layer_name("%s.branch3.1", p).text, b[2], width[4], 3, 1);
	b[3] = ff_layer_pool_up(n, ff_layer_name("%s.branch4.0", p).text, in, 3, 1, 1);
	b[3] = conv(n, ff_layer_name("%s.branch4.1", p).text, b[3], width[5], 1, 1);
	return ff_layer_concat(n, ff_layer_name("%s.join", p).text, b, 4);
}

/* What a pooling without padding leaves, rounded up. */
static int32_t pooled(int32_t size, int32_t kernel)
{
	int32_t n = (size - kernel + 1) / 2 + 1;

	return (n - 1) * 2 >= size ? n - 1 : n;
}

static void build(const struct ff_zoo_net *net)
{
	static const struct {
		const char *name;
		int32_t width[6], pool; /* a pooling behind it, of that size */
	} modules[] = {
			{"inception3a", {64, 96, 128, 16, 32, 32}, 0},
			{"inception3b", {128, 128, 192, 32, 96, 64}, 3},
			{"inception4a", {192, 96, 208, 16, 48, 64}, 0},
			{"inception4b", {160, 112, 224, 24, 64, 64}, 0},
			{"inception4c", {128, 128, 256, 24, 64, 64}, 0},
			{"inception4d", {112, 144, 288, 32, 64, 64}, 0},
			{"inception4e", {256, 160, 320, 32, 128, 128}, 2},
			{"inception5a", {256, 160, 320, 32, 128, 128}, 0},
			{"inception5b", {384, 192, 384, 48, 128, 128}, 0},
	};
	const int32_t *v = net->value;
	struct ff_zoo_net normed = ff_layer_normed(net, &v[NORM], 1e-3), *n = &normed;
	int32_t size = pooled(ff_layer_size(v[IMAGE], 7, 2, 3), 3), pools = 2;
	uint32_t x = ff_layer_images(n, v[CHANNELS], v[IMAGE]);

	x = ff_layer_pool_up(n, "maxpool1", conv(n, "conv1", x, 64, 7, 2), 3, 2, 0);
	x = conv(n, "conv3", conv(n, "conv2", x, 64, 1, 1), 192, 3, 1);
	x = ff_layer_pool_up(n, "maxpool2", x, 3, 2, 0);
	size = pooled(size, 3);
	for (uint32_t i = 0; i < FF_ZOO_COUNT(modules); i++) {
		x = module(n, modules[i].name, x, modules[i].width);
		if (!modules[i].pool)
			continue;
		x = ff_layer_pool_up(n, ff_layer_name("maxpool%d", ++pools).text, x,
				modules[i].pool, 2, 0);
		size = pooled(size, modules[i].pool);
	}
	x = ff_layer_flatten(n, ff_layer_pool(n, "avgpool", x, FF_POOL_AVG, size, 1, 0));
	x = ff_layer_dropout(n, "dropout", x, v[DROPOUT]);
	ff_layer_classify(n, ff_layer_linear(n, "fc", x, v[CLASSES]), v[CLASSES]);
}

const struct ff_zoo_row ff_zoo_googlenet = {"googlenet", "GoogLeNet, nine modules of four branches",
		64, params, FF_ZOO_COUNT(params), build};
