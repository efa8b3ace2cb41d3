/* cosmoflow: Mathuriya et al., "CosmoFlow: Using Deep Learning to Learn the Universe at Scale",
 * SC 2018, in the form that the MLPerf HPC benchmark trains: convolutions of 2x2x2 that keep the
 * size and pools that halve it, twice the channels each time, three linear layers, 1.2 tanh; the
 * mean squared error of a few parameters of the universe.  "Keeps the size" as TensorFlow pads an
 * even kernel, behind; leaky relus have Keras' slope of 0.3.  SPDX-License-Identifier: Apache-2.0
 */
#include "layers.h"

enum { IMAGE, CHANNELS, WIDTH, LAYERS, FC1, FC2, DROPOUT, TARGETS };
static const struct ff_zoo_param params[] = {
		{"image", "depth, height and width of the volumes", 2, 1024, 128, NULL},
		{"channels", "channels of the volumes", 1, 4096, 4, NULL},
		{"width", "channels of the first convolution", 1, 4096, 32, NULL},
		{"layers", "convolutions, each behind the first with twice the channels", 1, 8, 5,
				NULL},
		{"fc1", "features of the first linear layer", 1, FF_ZOO_WIDTH, 128, NULL},
		{"fc2", "features of the second linear layer", 1, FF_ZOO_WIDTH, 64, NULL},
		{"dropout", "percent of the features dropped (0: no dropout)", 0, 99, 50, NULL},
		{"targets", "numbers that are predicted", 1, FF_ZOO_WIDTH, 4, NULL},
};

static uint32_t add(const struct ff_zoo_net *n, enum ff_op op, const char *name,
		const union ff_attrs *attrs, uint32_t in)
{
	return ff_builder_add(n->builder, op, name, attrs, &in, 1);
}

static uint32_t activate(const struct ff_zoo_net *n, int32_t i, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LEAKY_RELU);

	a.unary.a = 0.3;
	return add(n, FF_OP_LEAKY_RELU, ff_layer_name("act%d", i).text, &a, in);
}

static uint32_t convolve(const struct ff_zoo_net *n, int32_t i, uint32_t in)
{
	union ff_attrs conv = ff_attrs_preset(FF_OP_CONV3D), pool = ff_attrs_preset(FF_OP_POOL3D);

	conv.conv.out_channels = n->value[WIDTH] << (i - 1);
	for (uint32_t k = 0; k < 3; k++) {
		conv.conv.kernel[k] = pool.pool.kernel[k] = pool.pool.stride[k] = 2;
		conv.conv.pad[1][k] = 1;
	}
	in = add(n, FF_OP_CONV3D, ff_layer_name("conv%d", i).text, &conv, in);
	return add(n, FF_OP_POOL3D, ff_layer_name("pool%d", i).text, &pool, activate(n, i, in));
}

static void build(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value, layers = v[LAYERS];
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	union ff_attrs scale = ff_attrs_preset(FF_OP_SCALE);
	uint32_t x, in[2];

	a.input.rank = 5;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = v[CHANNELS];
	a.input.shape[2] = a.input.shape[3] = a.input.shape[4] = v[IMAGE];
	x = ff_builder_add(n->builder, FF_OP_INPUT, "data", &a, NULL, 0);
	for (int32_t i = 1; i <= layers; i++)
		x = convolve(n, i, x);
	x = ff_layer_flatten(n, x);
	for (int32_t i = 1; i <= 2; i++) {
		x = ff_layer_linear(n, ff_layer_name("fc%d", i).text, x, v[i == 1 ? FC1 : FC2]);
		x = activate(n, layers + i, x);
		x = ff_layer_dropout(n, ff_layer_name("drop%d", i).text, x, v[DROPOUT]);
	}
	x = add(n, FF_OP_TANH, "tanh", NULL, ff_layer_linear(n, "fc3", x, v[TARGETS]));
	scale.unary.a = 1.2;
	in[0] = add(n, FF_OP_SCALE, "scale", &scale, x);
	a = ff_attrs_preset(FF_OP_INPUT); /* no shape of data behind that of targets */
	a.input.rank = 2;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = v[TARGETS];
	in[1] = ff_builder_add(n->builder, FF_OP_INPUT, "labels", &a, NULL, 0);
	ff_builder_add(n->builder, FF_OP_MSE, "loss", NULL, in, 2);
}

const struct ff_zoo_row ff_zoo_cosmoflow = {"cosmoflow",
		"CosmoFlow as MLPerf HPC trains it: numbers predicted from volumes", 4, params,
		FF_ZOO_COUNT(params), build};
