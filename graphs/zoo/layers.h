/* What networks of the zoo are made of: one function a layer.  Each adds its
 * node and returns it; errors stick in the builder.  And the table of networks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPHS_ZOO_LAYERS_H
#define FF_GRAPHS_ZOO_LAYERS_H

#include "ff/builder.h"
#include "ff/zoo_net.h"

/* Every network, in the order in which they are listed: ff_zoo_NAME is a row in
 * the file of its family. */
#define FF_ZOO_NETS(X)                                                                             \
	X(mlp)                                                                                     \
	X(lenet)                                                                                   \
	X(alexnet)                                                                                 \
	X(branchnet)                                                                               \
	X(vgg16)                                                                                   \
	X(resnet50)                                                                                \
	X(resnet101)                                                                               \
	X(resnet152)                                                                               \
	X(resnext50_32x4d)                                                                         \
	X(resnext101_32x4d)                                                                        \
	X(mobilenet_v2)                                                                            \
	X(googlenet)                                                                               \
	X(inception_v3)                                                                            \
	X(densenet121)                                                                             \
	X(unet)                                                                                    \
	X(cosmoflow)                                                                               \
	X(rnn)                                                                                     \
	X(rnnlm)                                                                                   \
	X(rnntc)                                                                                   \
	X(nmt)                                                                                     \
	X(lm)                                                                                      \
	X(dlrm)                                                                                    \
	X(dlrm_terabyte)                                                                           \
	X(gpt2)                                                                                    \
	X(gpt2_medium)                                                                             \
	X(gpt2_large)                                                                              \
	X(gpt2_xl)                                                                                 \
	X(bert)                                                                                    \
	X(bert_large)                                                                              \
	X(llama)                                                                                   \
	X(moe)                                                                                     \
	X(vit_b16)

#define FF_ZOO_ROW(name) extern const struct ff_zoo_row ff_zoo_##name;
FF_ZOO_NETS(FF_ZOO_ROW)
#undef FF_ZOO_ROW

#define FF_ZOO_WIDTH (1 << 20) /* most channels, features or classes */
#define FF_ZOO_COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))
#define FF_ZOO_ACTIVATIONS "relu|tanh|sigmoid"
enum { FF_ZOO_RELU, FF_ZOO_TANH, FF_ZOO_SIGMOID };

struct ff_layer_name {
	char text[64];
};
struct ff_layer_name ff_layer_name(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The input "data": square images. */
uint32_t ff_layer_images(const struct ff_zoo_net *n, int32_t channels, int32_t size);
/* An input of `length` ids below `classes` a sample. */
uint32_t ff_layer_ids(
		const struct ff_zoo_net *n, const char *name, int32_t length, int32_t classes);
/* Labels and the loss. */
void ff_layer_classify(const struct ff_zoo_net *n, uint32_t logits, int32_t classes);
/* A label for every pixel. */
void ff_layer_classify_pixels(const struct ff_zoo_net *n, uint32_t logits, int32_t classes,
		int32_t height, int32_t width);
/* The same over every place of a sequence; `logits` are [batch, length, classes]. */
void ff_layer_classify_places(
		const struct ff_zoo_net *n, uint32_t logits, int32_t length, int32_t classes);

/* Rows and columns that are left of `size` by a window of `kernel`. */
static inline int32_t ff_layer_size(int32_t size, int32_t kernel, int32_t stride, int32_t pad)
{
	return (size + 2 * pad - kernel) / stride + 1;
}

/* A network's last parameters.  "norm": "batch", or "none", with which convolutions have a bias. */
#define FF_ZOO_NORM                                                                                \
	{"norm", "batch normalisation, or none and biases instead", 0, 1, 0, "batch|none"},        \
	{                                                                                          \
		"norm_group", "samples that are normalised together; 0: all of the batch", 0,      \
				1 << 24, 0, NULL                                                   \
	}
/* `n` with what `value`, of the first of them, and those behind it say. */
struct ff_zoo_net ff_layer_normed(const struct ff_zoo_net *n, const int32_t *value, double epsilon);
/* `in` itself without batch normalisation. */
uint32_t ff_layer_norm(const struct ff_zoo_net *n, const char *name, uint32_t in);
uint32_t ff_layer_conv(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t channels,
		int32_t kernel, int32_t stride, int32_t pad);
/* Every one of `groups` groups of channels by itself; padded so that a stride of 1 keeps the size.
 */
uint32_t ff_layer_conv_grouped(const struct ff_zoo_net *n, const char *name, uint32_t in,
		int32_t channels, int32_t kernel, int32_t stride, int32_t groups);
/* Without padding, with a bias. */
uint32_t ff_layer_conv_transpose(const struct ff_zoo_net *n, const char *name, uint32_t in,
		int32_t channels, int32_t kernel, int32_t stride);
/* Images of `size`, corners where they were. */
uint32_t ff_layer_upsample(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t size);
/* Zeros around images; where negative, less of them. */
uint32_t ff_layer_pad(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t before,
		int32_t after);
/* Stride 1, an odd kernel of `height` x `width`, padded so that the size stays. */
uint32_t ff_layer_conv_same(const struct ff_zoo_net *n, const char *name, uint32_t in,
		int32_t channels, int32_t height, int32_t width);
uint32_t ff_layer_pool(const struct ff_zoo_net *n, const char *name, uint32_t in,
		enum ff_pool_mode mode, int32_t kernel, int32_t stride, int32_t pad);
/* The largest of windows; the size is rounded up. */
uint32_t ff_layer_pool_up(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t kernel,
		int32_t stride, int32_t pad);
uint32_t ff_layer_linear(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t features);
/* The node "flatten". */
uint32_t ff_layer_flatten(const struct ff_zoo_net *n, uint32_t in);
/* `in` itself when `percent` is 0. */
uint32_t ff_layer_dropout(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t percent);
/* `choice` is an index of FF_ZOO_ACTIVATIONS. */
uint32_t ff_layer_activation(
		const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t choice);
/* Between 0 and 6. */
uint32_t ff_layer_relu6(const struct ff_zoo_net *n, const char *name, uint32_t in);
uint32_t ff_layer_relu(const struct ff_zoo_net *n, const char *name, uint32_t in);
uint32_t ff_layer_add(const struct ff_zoo_net *n, const char *name, uint32_t a, uint32_t b);
uint32_t ff_layer_mul(const struct ff_zoo_net *n, const char *name, uint32_t a, uint32_t b);
/* Elements start .. stop - 1 of axis 1. */
uint32_t ff_layer_slice(const struct ff_zoo_net *n, const char *name, uint32_t in, int32_t start,
		int32_t stop);
/* Along the channels. */
uint32_t ff_layer_concat(
		const struct ff_zoo_net *n, const char *name, const uint32_t *in, uint32_t n_in);

#endif
