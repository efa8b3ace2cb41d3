/* mobilenet_v2: Sandler, Howard, Zhu, Zhmoginov, Chen, "MobileNetV2: Inverted Residuals and Linear
 * Bottlenecks", 2018.  Nodes are called as torchvision calls its modules.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { IMAGE, CHANNELS, DROPOUT, CLASSES, NORM };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 1, 4096, 224, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"dropout", "percent of the last features dropped (0: no dropout)", 0, 99, 20,
				NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 1000, NULL},
		FF_ZOO_NORM,
};

/* A convolution, its norm and a relu up to 6, which are PREFIX.0, PREFIX.1, PREFIX.2. */
static uint32_t conv(const struct ff_zoo_net *n, const char *p, uint32_t in, int32_t channels,
		int32_t kernel, int32_t stride, int32_t groups)
{
	uint32_t x = ff_layer_conv_grouped(
			n, ff_layer_name("%s.0", p).text, in, channels, kernel, stride, groups);

	x = ff_layer_norm(n, ff_layer_name("%s.1", p).text, x);
	return ff_layer_relu6(n, ff_layer_name("%s.2", p).text, x);
}

/* From `from` channels `expand` times as many, 3x3 of each by itself, and to `to`; beside a short
 * cut where the shape stays. */
static uint32_t block(const struct ff_zoo_net *n, const char *p, uint32_t in, int32_t from,
		int32_t to, int32_t expand, int32_t stride)
{
	int32_t wide = expand * from, i = 0;
	uint32_t x = in;

	if (expand > 1)
		x = conv(n, ff_layer_name("%s.conv.%d", p, i++).text, x, wide, 1, 1, 1);
	x = conv(n, ff_layer_name("%s.conv.%d", p, i++).text, x, wide, 3, stride, wide);
	x = ff_layer_conv(n, ff_layer_name("%s.conv.%d", p, i++).text, x, to, 1, 1, 0);
	x = ff_layer_norm(n, ff_layer_name("%s.conv.%d", p, i).text, x);
	if (stride > 1 || from != to)
		return x;
	return ff_layer_add(n, ff_layer_name("%s.add", p).text, x, in);
}

static void build(const struct ff_zoo_net *net)
{
	static const struct {
		int32_t expand, channels, n, stride;
	} stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1},
			{6, 160, 3, 2}, {6, 320, 1, 1}};
	const int32_t *v = net->value;
	struct ff_zoo_net normed = ff_layer_normed(net, &v[NORM], 1e-5), *n = &normed;
	int32_t channels = 32, i = 1, size = ff_layer_size(v[IMAGE], 3, 2, 1);
	uint32_t x = ff_layer_images(n, v[CHANNELS], v[IMAGE]);

	x = conv(n, "features.0", x, channels, 3, 2, 1);
	for (uint32_t s = 0; s < FF_ZOO_COUNT(stages); s++) {
		for (int32_t k = 0; k < stages[s].n; k++) {
			x = block(n, ff_layer_name("features.%d", i++).text, x, channels,
					stages[s].channels, stages[s].expand,
					k ? 1 : stages[s].stride);
			channels = stages[s].channels;
		}
		if (stages[s].stride > 1)
			size = ff_layer_size(size, 3, 2, 1);
	}
	x = conv(n, "features.18", x, 1280, 1, 1, 1);
	x = ff_layer_flatten(n, ff_layer_pool(n, "avgpool", x, FF_POOL_AVG, size, 1, 0));
	x = ff_layer_dropout(n, "classifier.0", x, v[DROPOUT]);
	ff_layer_classify(n, ff_layer_linear(n, "classifier.1", x, v[CLASSES]), v[CLASSES]);
}

const struct ff_zoo_row ff_zoo_mobilenet_v2 = {"mobilenet_v2",
		"MobileNetV2, 17 inverted bottlenecks", 64, params, FF_ZOO_COUNT(params), build};
