/* mlp: fully connected layers of one width.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { MLP_IMAGE, MLP_CHANNELS, MLP_HIDDEN, MLP_LAYERS, MLP_ACTIVATION, MLP_CLASSES };
static const struct ff_zoo_param mlp_params[] = {
		{"image", "height and width of the images", 4, 4096, 28, NULL},
		{"channels", "channels of the images", 1, 4096, 1, NULL},
		{"hidden", "features of each hidden layer", 1, FF_ZOO_WIDTH, 4096, NULL},
		{"layers", "hidden layers", 0, 1000, 3, NULL},
		{"activation", "after each hidden layer", 0, 2, 0, FF_ZOO_ACTIVATIONS},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 10, NULL},
};

static void build_mlp(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	uint32_t x = ff_layer_flatten(n, ff_layer_images(n, v[MLP_CHANNELS], v[MLP_IMAGE]));

	for (int32_t i = 1; i <= v[MLP_LAYERS]; i++) {
		x = ff_layer_linear(n, ff_layer_name("fc%d", i).text, x, v[MLP_HIDDEN]);
		x = ff_layer_activation(n, ff_layer_name("act%d", i).text, x, v[MLP_ACTIVATION]);
	}
	x = ff_layer_linear(n, ff_layer_name("fc%d", v[MLP_LAYERS] + 1).text, x, v[MLP_CLASSES]);
	ff_layer_classify(n, x, v[MLP_CLASSES]);
}

const struct ff_zoo_row ff_zoo_mlp = {"mlp", "fully connected layers of one width", 128, mlp_params,
		FF_ZOO_COUNT(mlp_params), build_mlp};
