/* inception_v3: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, "Rethinking the
 * Inception Architecture for Computer Vision", 2016, as torchvision has it.
 * Without the auxiliary classifier, since a graph has one loss.  Nodes are called as torchvision
 * calls its modules. SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { IMAGE, CHANNELS, DROPOUT, CLASSES, NORM };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 75, 4096, 299, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"dropout", "percent of the last features dropped (0: no dropout)", 0, 99, 50,
				NULL},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 1000, NULL},
		FF_ZOO_NORM,
};

/* A block under construction: what it is called and reads. */
struct block {
	const struct ff_zoo_net *net;
	const char *name;
	uint32_t in;
};

/* A batch normalisation and relu. */
static uint32_t relu(const struct block *b, const char *what, uint32_t x)
{
	x = ff_layer_norm(b->net, ff_layer_name("%s.%s.bn", b->name, what).text, x);
	return ff_layer_relu(b->net, ff_layer_name("%s.%s.relu", b->name, what).text, x);
}

/* A convolution that keeps the size, batch normalisation and relu. */
static uint32_t same(const struct block *b, const char *what, uint32_t x, int32_t channels,
		int32_t height, int32_t width)
{
	struct ff_layer_name conv = ff_layer_name("%s.%s.conv", b->name, what);

	return relu(b, what, ff_layer_conv_same(b->net, conv.text, x, channels, height, width));
}

/* A 3x3 convolution that halves the images, batch normalisation and relu. */
static uint32_t halve(const struct block *b, const char *what, uint32_t x, int32_t channels)
{
	struct ff_layer_name conv = ff_layer_name("%s.%s.conv", b->name, what);

	return relu(b, what, ff_layer_conv(b->net, conv.text, x, channels, 3, 2, 0));
}

/* The branch that averages and then mixes channels. */
static uint32_t pooled(const struct block *b, int32_t channels)
{
	struct ff_layer_name pool = ff_layer_name("%s.pool", b->name);
	uint32_t x = ff_layer_pool(b->net, pool.text, b->in, FF_POOL_AVG, 3, 1, 1);

	return same(b, "branch_pool", x, channels, 1, 1);
}

/* The branch that halves the images and leaves them alone otherwise. */
static uint32_t max_pooled(const struct block *b)
{
	return ff_layer_pool(b->net, ff_layer_name("%s.pool", b->name).text, b->in, FF_POOL_MAX, 3,
			2, 0);
}

static uint32_t join(const struct block *b, const uint32_t *branch, uint32_t n)
{
	return ff_layer_concat(b->net, ff_layer_name("%s.concat", b->name).text, branch, n);
}

/* 35x35: 1x1, 5x5 and two 3x3. */
static uint32_t mixed_5(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t channels)
{
	struct block b = {n, name, in};
	uint32_t x[4];

	x[0] = same(&b, "branch1x1", in, 64, 1, 1);
	x[1] = same(&b, "branch5x5_1", in, 48, 1, 1);
	x[1] = same(&b, "branch5x5_2", x[1], 64, 5, 5);
	x[2] = same(&b, "branch3x3dbl_1", in, 64, 1, 1);
	x[2] = same(&b, "branch3x3dbl_2", x[2], 96, 3, 3);
	x[2] = same(&b, "branch3x3dbl_3", x[2], 96, 3, 3);
	x[3] = pooled(&b, channels);
	return join(&b, x, 4);
}

/* 35x35 to 17x17. */
static uint32_t mixed_6a(const struct ff_zoo_net *n, uint32_t in)
{
	struct block b = {n, "Mixed_6a", in};
	uint32_t x[3];

	x[0] = halve(&b, "branch3x3", in, 384);
	x[1] = same(&b, "branch3x3dbl_1", in, 64, 1, 1);
	x[1] = same(&b, "branch3x3dbl_2", x[1], 96, 3, 3);
	x[1] = halve(&b, "branch3x3dbl_3", x[1], 96);
	x[2] = max_pooled(&b);
	return join(&b, x, 3);
}

/* 17x17: 1x1, one and two 7x7, each as 1x7 and 7x1 of `width` channels. */
static uint32_t mixed_6(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t width)
{
	struct block b = {n, name, in};
	uint32_t x[4];

	x[0] = same(&b, "branch1x1", in, 192, 1, 1);
	x[1] = same(&b, "branch7x7_1", in, width, 1, 1);
	x[1] = same(&b, "branch7x7_2", x[1], width, 1, 7);
	x[1] = same(&b, "branch7x7_3", x[1], 192, 7, 1);
	x[2] = same(&b, "branch7x7dbl_1", in, width, 1, 1);
	x[2] = same(&b, "branch7x7dbl_2", x[2], width, 7, 1);
	x[2] = same(&b, "branch7x7dbl_3", x[2], width, 1, 7);
	x[2] = same(&b, "branch7x7dbl_4", x[2], width, 7, 1);
	x[2] = same(&b, "branch7x7dbl_5", x[2], 192, 1, 7);
	x[3] = pooled(&b, 192);
	return join(&b, x, 4);
}

/* 17x17 to 8x8. */
static uint32_t mixed_7a(const struct ff_zoo_net *n, uint32_t in)
{
	struct block b = {n, "Mixed_7a", in};
	uint32_t x[3];

	x[0] = same(&b, "branch3x3_1", in, 192, 1, 1);
	x[0] = halve(&b, "branch3x3_2", x[0], 320);
	x[1] = same(&b, "branch7x7x3_1", in, 192, 1, 1);
	x[1] = same(&b, "branch7x7x3_2", x[1], 192, 1, 7);
	x[1] = same(&b, "branch7x7x3_3", x[1], 192, 7, 1);
	x[1] = halve(&b, "branch7x7x3_4", x[1], 192);
	x[2] = max_pooled(&b);
	return join(&b, x, 3);
}

/* 8x8: 1x1, and 1x3 beside 3x1 twice. */
static uint32_t mixed_7(const struct ff_zoo_net *n, const char *name, uint32_t in)
{
	struct block b = {n, name, in};
	uint32_t x[6], y;

	x[0] = same(&b, "branch1x1", in, 320, 1, 1);
	y = same(&b, "branch3x3_1", in, 384, 1, 1);
	x[1] = same(&b, "branch3x3_2a", y, 384, 1, 3);
	x[2] = same(&b, "branch3x3_2b", y, 384, 3, 1);
	y = same(&b, "branch3x3dbl_1", in, 448, 1, 1);
	y = same(&b, "branch3x3dbl_2", y, 384, 3, 3);
	x[3] = same(&b, "branch3x3dbl_3a", y, 384, 1, 3);
	x[4] = same(&b, "branch3x3dbl_3b", y, 384, 3, 1);
	x[5] = pooled(&b, 192);
	return join(&b, x, 6);
}

static uint32_t stem_conv(const struct ff_zoo_net *n, const char *name, uint32_t x,
		int32_t channels, int32_t kernel, int32_t stride, int32_t pad)
{
	x = ff_layer_conv(n, ff_layer_name("%s.conv", name).text, x, channels, kernel, stride, pad);
	x = ff_layer_norm(n, ff_layer_name("%s.bn", name).text, x);
	return ff_layer_relu(n, ff_layer_name("%s.relu", name).text, x);
}

static uint32_t stem(const struct ff_zoo_net *n, uint32_t x)
{
	x = stem_conv(n, "Conv2d_1a_3x3", x, 32, 3, 2, 0);
	x = stem_conv(n, "Conv2d_2a_3x3", x, 32, 3, 1, 0);
	x = stem_conv(n, "Conv2d_2b_3x3", x, 64, 3, 1, 1);
	x = ff_layer_pool(n, "maxpool1", x, FF_POOL_MAX, 3, 2, 0);
	x = stem_conv(n, "Conv2d_3b_1x1", x, 80, 1, 1, 0);
	x = stem_conv(n, "Conv2d_4a_3x3", x, 192, 3, 1, 0);
	return ff_layer_pool(n, "maxpool2", x, FF_POOL_MAX, 3, 2, 0);
}

/* What is left of an image behind the last block: two convolutions and two
 * pools of the stem, then Mixed_6a and Mixed_7a, take away from it. */
static int32_t last_size(int32_t size)
{
	size = ff_layer_size(ff_layer_size(size, 3, 2, 0), 3, 1, 0);
	size = ff_layer_size(size, 3, 2, 0);
	size = ff_layer_size(ff_layer_size(size, 3, 1, 0), 3, 2, 0);
	return ff_layer_size(ff_layer_size(size, 3, 2, 0), 3, 2, 0);
}

static void build(const struct ff_zoo_net *net)
{
	const int32_t *v = net->value;
	struct ff_zoo_net normed = ff_layer_normed(net, &v[NORM], 1e-3), *n = &normed;
	uint32_t x = stem(n, ff_layer_images(n, v[CHANNELS], v[IMAGE]));

	x = mixed_5(n, "Mixed_5b", x, 32);
	x = mixed_5(n, "Mixed_5c", x, 64);
	x = mixed_5(n, "Mixed_5d", x, 64);
	x = mixed_6a(n, x);
	x = mixed_6(n, "Mixed_6b", x, 128);
	x = mixed_6(n, "Mixed_6c", x, 160);
	x = mixed_6(n, "Mixed_6d", x, 160);
	x = mixed_6(n, "Mixed_6e", x, 192);
	x = mixed_7a(n, x);
	x = mixed_7(n, "Mixed_7b", x);
	x = mixed_7(n, "Mixed_7c", x);
	x = ff_layer_pool(n, "avgpool", x, FF_POOL_AVG, last_size(v[IMAGE]), 1, 0);
	x = ff_layer_flatten(n, ff_layer_dropout(n, "dropout", x, v[DROPOUT]));
	ff_layer_classify(n, ff_layer_linear(n, "fc", x, v[CLASSES]), v[CLASSES]);
}

const struct ff_zoo_row ff_zoo_inception_v3 = {"inception_v3",
		"Inception-v3 for 299x299 images; no auxiliary classifier", 64, params,
		FF_ZOO_COUNT(params), build};
