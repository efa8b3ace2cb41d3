/* branchnet: blocks of four branches, joined, with a short cut: a plain relative
 * of Inception and ResNet for small images.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { BRANCH_IMAGE, BRANCH_CHANNELS, BRANCH_BLOCKS, BRANCH_WIDTH, BRANCH_CLASSES };
static const struct ff_zoo_param branchnet_params[] = {
		{"image", "height and width of the images", 4, 4096, 28, NULL},
		{"channels", "channels of the images", 1, 4096, 1, NULL},
		{"blocks", "blocks of four branches", 1, 1000, 3, NULL},
		{"width", "channels of each branch", 2, FF_ZOO_WIDTH / 4, 16, NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 10, NULL},
};

static uint32_t conv_relu(const struct ff_zoo_net *n, const char *prefix, const char *what,
		uint32_t in, int32_t channels, int32_t kernel)
{
	uint32_t x = ff_layer_conv(n, ff_layer_name("%s.%s", prefix, what).text, in, channels,
			kernel, 1, kernel / 2);

	return ff_layer_relu(n, ff_layer_name("%s.%s.relu", prefix, what).text, x);
}

/* 1x1, 3x3, 5x5 and pooled branches over `in`, which has 4 `width` channels. */
static uint32_t block(const struct ff_zoo_net *n, int32_t number, uint32_t in, int32_t width)
{
	struct ff_layer_name prefix = ff_layer_name("block%d", number);
	const char *p = prefix.text;
	uint32_t branch[4], x;

	branch[0] = conv_relu(n, p, "a1", in, width, 1);
	branch[1] = conv_relu(n, p, "b3", conv_relu(n, p, "b1", in, width, 1), width, 3);
	branch[2] = conv_relu(n, p, "c5", conv_relu(n, p, "c1", in, width / 2, 1), width, 5);
	x = ff_layer_pool(n, ff_layer_name("%s.d.pool", p).text, in, FF_POOL_MAX, 3, 1, 1);
	branch[3] = conv_relu(n, p, "d1", x, width, 1);
	x = ff_layer_concat(n, ff_layer_name("%s.concat", p).text, branch, 4);
	x = ff_layer_add(n, ff_layer_name("%s.add", p).text, x, in);
	return ff_layer_relu(n, ff_layer_name("%s.relu", p).text, x);
}

static void build_branchnet(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	int32_t size = v[BRANCH_IMAGE], width = v[BRANCH_WIDTH];
	bool large = size >= 64;
	uint32_t x = ff_layer_images(n, v[BRANCH_CHANNELS], size);

	x = ff_layer_conv(n, "stem", x, 4 * width, large ? 7 : 3, large ? 2 : 1, large ? 3 : 1);
	x = ff_layer_relu(n, "stem.relu", x);
	x = ff_layer_pool(n, "stem.pool", x, FF_POOL_MAX, 2, 2, 0);
	size = (large ? (size - 1) / 2 + 1 : size) / 2;
	for (int32_t i = 1; i <= v[BRANCH_BLOCKS]; i++) {
		x = block(n, i, x, width);
		if (i < v[BRANCH_BLOCKS] && size >= 4) {
			x = ff_layer_pool(n, ff_layer_name("pool%d", i).text, x, FF_POOL_MAX, 2, 2,
					0);
			size /= 2;
		}
	}
	x = ff_layer_flatten(n, ff_layer_pool(n, "average", x, FF_POOL_AVG, size, 1, 0));
	ff_layer_classify(n, ff_layer_linear(n, "fc", x, v[BRANCH_CLASSES]), v[BRANCH_CLASSES]);
}

const struct ff_zoo_row ff_zoo_branchnet = {"branchnet",
		"blocks of 1x1, 3x3, 5x5 and pooled branches, concatenated, with a residual add",
		64, branchnet_params, FF_ZOO_COUNT(branchnet_params), build_branchnet};
