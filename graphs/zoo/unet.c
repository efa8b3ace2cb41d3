/* unet: Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image
 * Segmentation", 2015: convolutions in twos, each level down half the size and twice the channels,
 * and back up beside what went down, classes for every pixel.  As it was published
 * ("padding=valid", "norm=none": what went down is cropped) or as it is mostly trained (padded,
 * normed; what comes up is padded where halves were rounded).  Operators are called as the modules
 * of the widespread PyTorch implementation (milesial's Pytorch-UNet).  SPDX-License-Identifier:
 * Apache-2.0 */
#include "layers.h"

#define MAX_DEPTH 6

enum { IMAGE, CHANNELS, CLASSES, WIDTH, DEPTH, PADDING, DECODER, NORM };
enum { TRANSPOSED, UPSAMPLED };
static const struct ff_zoo_param params[] = {
		{"image", "height and width of the images", 1, 4096, 256, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		{"classes", "classes of a pixel", 1, FF_ZOO_WIDTH, 2, NULL},
		{"width", "channels of the first level", 2, 4096, 64, NULL},
		{"depth", "levels below the first", 1, MAX_DEPTH, 4, NULL},
		{"padding", "images keep their size, or lose the borders of every convolution", 0,
				1, 0, "same|valid"},
		{"decoder",
				"transposed convolutions, or enlarging between pixels and half the "
				"channels at the bottom",
				0, 1, TRANSPOSED, "transposed|upsample"},
		FF_ZOO_NORM,
};

/* An image on its way. */
struct image {
	uint32_t node;
	int32_t size, channels;
};

static void convolve(const struct ff_zoo_net *n, const char *name, int32_t i, int32_t channels,
		struct image *x)
{
	int32_t pad = n->value[PADDING] == 0;

	x->node = ff_layer_conv(n, ff_layer_name("%s.double_conv.%d", name, i).text, x->node,
			channels, 3, 1, pad);
	x->node = ff_layer_norm(n, ff_layer_name("%s.double_conv.%d", name, i + 1).text, x->node);
	x->node = ff_layer_relu(n, ff_layer_name("%s.double_conv.%d", name, i + 2).text, x->node);
	x->size -= 2 * !pad;
	x->channels = channels;
}

/* Two convolutions, between which there are `middle` channels. */
static void convolve_twice(const struct ff_zoo_net *n, const char *name, int32_t middle,
		int32_t channels, struct image *x)
{
	convolve(n, name, 0, middle, x);
	convolve(n, name, 3, channels, x);
}

/* Twice the size. */
static void enlarge(const struct ff_zoo_net *n, int32_t level, struct image *x)
{
	struct ff_layer_name name = ff_layer_name("up%d.up", level);

	x->size *= 2;
	if (n->value[DECODER] == UPSAMPLED) {
		x->node = ff_layer_upsample(n, name.text, x->node, x->size);
		return;
	}
	x->channels /= 2;
	x->node = ff_layer_conv_transpose(n, name.text, x->node, x->channels, 2, 2);
}

/* Next to what went down, of which the borders go that `x` has not, or the other way round. */
static void join(const struct ff_zoo_net *n, int32_t level, struct image skip, struct image *x)
{
	int32_t more = skip.size - x->size;
	struct image *changed = n->value[PADDING] ? &skip : x;

	if (n->value[PADDING])
		more = -more;
	if (more)
		changed->node = ff_layer_pad(n, ff_layer_name("up%d.pad", level).text,
				changed->node, more / 2, more - more / 2);
	changed->size += more;
	x->node = ff_layer_concat(n, ff_layer_name("up%d.concat", level).text,
			(uint32_t[]){skip.node, x->node}, 2);
	x->channels += skip.channels;
}

static void build(const struct ff_zoo_net *net)
{
	const int32_t *v = net->value;
	struct ff_zoo_net normed = ff_layer_normed(net, &v[NORM], 1e-5), *n = &normed;
	struct image x = {ff_layer_images(n, v[CHANNELS], v[IMAGE]), v[IMAGE], v[CHANNELS]};
	struct image level[MAX_DEPTH + 1];
	int32_t depth = v[DEPTH], half = v[DECODER] == UPSAMPLED ? 2 : 1;

	convolve_twice(n, "inc", v[WIDTH], v[WIDTH], &x);
	for (int32_t i = 1; i <= depth; i++) {
		int32_t width = v[WIDTH] << i;

		level[i - 1] = x;
		x.node = ff_layer_pool(n, ff_layer_name("down%d.maxpool_conv.0", i).text, x.node,
				FF_POOL_MAX, 2, 2, 0);
		x.size /= 2;
		width = i == depth ? width / half : width;
		convolve_twice(n, ff_layer_name("down%d.maxpool_conv.1", i).text, width, width, &x);
	}
	for (int32_t i = 1; i <= depth; i++) {
		int32_t width = v[WIDTH] << (depth - i);

		enlarge(n, i, &x);
		join(n, i, level[depth - i], &x);
		convolve_twice(n, ff_layer_name("up%d.conv", i).text,
				half == 2 ? x.channels / 2 : width,
				i < depth ? width / half : width, &x);
	}
	normed.batch_norm = false; /* the last has a bias, too */
	x.node = ff_layer_conv(n, "outc.conv", x.node, v[CLASSES], 1, 1, 0);
	ff_layer_classify_pixels(n, x.node, v[CLASSES], x.size, x.size);
}

const struct ff_zoo_row ff_zoo_unet = {"unet",
		"U-Net, classes of pixels: padded and normed, or as published (--set padding=valid "
		"--set norm=none --set image=572 --set channels=1)",
		8, params, FF_ZOO_COUNT(params), build};
