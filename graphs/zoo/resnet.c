/* resnet50, resnet101, resnet152: He, Zhang, Ren, Sun, "Deep Residual Learning for Image
 * Recognition", 2016, with the stride in a bottleneck's 3x3 convolution as
 * torchvision and most others have it; resnext50_32x4d, resnext101_32x4d: Xie, Girshick, Dollar,
 * Tu, He, "Aggregated Residual Transformations for Deep Neural Networks", 2017.  Nodes are called
 * as torchvision calls its modules.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { IMAGE, CHANNELS, CLASSES, NORM };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 1, 4096, 224, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 1000, NULL},
		FF_ZOO_NORM,
};

/* How many of them, and of their 3x3 convolutions how many groups and channels, these as
 * multiples of a quarter of what the block has. */
struct blocks {
	int32_t n[4], groups, wide;
};

/* 1x1, 3x3, 1x1 to four times `width` channels, beside a short cut, which is a convolution where
 * the shape changes. */
static uint32_t bottleneck(const struct ff_zoo_net *n, const struct blocks *b, const char *p,
		uint32_t in, int32_t width, int32_t stride, bool changes)
{
	int32_t inner = b->wide * width;
	uint32_t x, side = in;

	x = ff_layer_conv(n, ff_layer_name("%s.conv1", p).text, in, inner, 1, 1, 0);
	x = ff_layer_norm(n, ff_layer_name("%s.bn1", p).text, x);
	x = ff_layer_relu(n, ff_layer_name("%s.relu1", p).text, x);
	x = ff_layer_conv_grouped(
			n, ff_layer_name("%s.conv2", p).text, x, inner, 3, stride, b->groups);
	x = ff_layer_norm(n, ff_layer_name("%s.bn2", p).text, x);
	x = ff_layer_relu(n, ff_layer_name("%s.relu2", p).text, x);
	x = ff_layer_conv(n, ff_layer_name("%s.conv3", p).text, x, 4 * width, 1, 1, 0);
	x = ff_layer_norm(n, ff_layer_name("%s.bn3", p).text, x);
	if (changes) {
		side = ff_layer_conv(n, ff_layer_name("%s.downsample.0", p).text, in, 4 * width, 1,
				stride, 0);
		side = ff_layer_norm(n, ff_layer_name("%s.downsample.1", p).text, side);
	}
	x = ff_layer_add(n, ff_layer_name("%s.add", p).text, x, side);
	return ff_layer_relu(n, ff_layer_name("%s.relu3", p).text, x);
}

static void build(const struct ff_zoo_net *net, const struct blocks *b)
{
	const int32_t *v = net->value;
	struct ff_zoo_net normed = ff_layer_normed(net, &v[NORM], 1e-5), *n = &normed;
	int32_t size = ff_layer_size(v[IMAGE], 7, 2, 3);
	uint32_t x = ff_layer_images(n, v[CHANNELS], v[IMAGE]);

	x = ff_layer_norm(n, "bn1", ff_layer_conv(n, "conv1", x, 64, 7, 2, 3));
	x = ff_layer_relu(n, "relu", x);
	x = ff_layer_pool(n, "maxpool", x, FF_POOL_MAX, 3, 2, 1);
	size = ff_layer_size(size, 3, 2, 1);
	for (int32_t i = 0; i < 4; i++) {
		for (int32_t k = 0; k < b->n[i]; k++) {
			struct ff_layer_name p = ff_layer_name("layer%d.%d", i + 1, k);

			x = bottleneck(n, b, p.text, x, 64 << i, i > 0 && k == 0 ? 2 : 1, k == 0);
		}
		if (i > 0)
			size = ff_layer_size(size, 3, 2, 1);
	}
	x = ff_layer_flatten(n, ff_layer_pool(n, "avgpool", x, FF_POOL_AVG, size, 1, 0));
	ff_layer_classify(n, ff_layer_linear(n, "fc", x, v[CLASSES]), v[CLASSES]);
}

static void build_50(const struct ff_zoo_net *n)
{
	build(n, &(const struct blocks){{3, 4, 6, 3}, 1, 1});
}

static void build_101(const struct ff_zoo_net *n)
{
	build(n, &(const struct blocks){{3, 4, 23, 3}, 1, 1});
}

static void build_152(const struct ff_zoo_net *n)
{
	build(n, &(const struct blocks){{3, 8, 36, 3}, 1, 1});
}

static void build_next(const struct ff_zoo_net *n)
{
	build(n, &(const struct blocks){{3, 4, 6, 3}, 32, 2});
}

static void build_next_101(const struct ff_zoo_net *n)
{
	build(n, &(const struct blocks){{3, 4, 23, 3}, 32, 2});
}

const struct ff_zoo_row ff_zoo_resnet50 = {
		"resnet50", "ResNet, 16 bottlenecks", 64, params, FF_ZOO_COUNT(params), build_50};
const struct ff_zoo_row ff_zoo_resnet101 = {
		"resnet101", "ResNet, 33 bottlenecks", 64, params, FF_ZOO_COUNT(params), build_101};
const struct ff_zoo_row ff_zoo_resnet152 = {
		"resnet152", "ResNet, 50 bottlenecks", 64, params, FF_ZOO_COUNT(params), build_152};
const struct ff_zoo_row ff_zoo_resnext50_32x4d = {"resnext50_32x4d",
		"ResNeXt, 16 bottlenecks of 32 groups", 64, params, FF_ZOO_COUNT(params),
		build_next};
const struct ff_zoo_row ff_zoo_resnext101_32x4d = {"resnext101_32x4d",
		"ResNeXt, 33 bottlenecks of 32 groups", 64, params, FF_ZOO_COUNT(params),
		build_next_101};
