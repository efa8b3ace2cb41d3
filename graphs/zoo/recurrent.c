/* rnn: layers of recurrent cells, unrolled: every step is a node of its own and all
 * steps share their layer's weights.  The cells are PyTorch's RNN (tanh) and LSTM
 * (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, with forget gates),
 * with one bias.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { RNN_STEPS, RNN_FEATURES, RNN_HIDDEN, RNN_LAYERS, RNN_CELL, RNN_CLASSES };
static const struct ff_zoo_param rnn_params[] = {
		{"steps", "steps of time", 1, 1000, 10, NULL},
		{"features", "features of each step", 1, FF_ZOO_WIDTH, 28, NULL},
		{"hidden", "features of a cell's state", 1, FF_ZOO_WIDTH, 128, NULL},
		{"layers", "layers of cells", 1, 100, 1, NULL},
		{"cell", "what the layers are made of", 0, 1, 0, "rnn|lstm"},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 10, NULL},
};

/* One layer at one step; `memory` is FF_NONE at the first. */
struct cell {
	const struct ff_zoo_net *net;
	int32_t layer, step, hidden;
	uint32_t state, memory;
};

static struct ff_layer_name cell_name(const struct cell *c, const char *what)
{
	return ff_layer_name("l%d.t%d.%s", c->layer, c->step, what);
}

/* A linear layer with the weights of all steps; a bias on the way in. */
static uint32_t add_linear(const struct cell *c, const char *what, uint32_t in, int32_t features)
{
	struct ff_layer_name weight = ff_layer_name("l%d.%s.weight", c->layer, what);
	struct ff_layer_name bias = ff_layer_name("l%d.%s.bias", c->layer, what);
	const char *params[FF_MAX_PARAMS] = {weight.text, bias.text};
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);

	a.linear.out_features = features;
	a.linear.bias = what[0] == 'i';
	return ff_builder_add_tied(
			c->net->builder, FF_OP_LINEAR, cell_name(c, what).text, &a, &in, 1, params);
}

/* What the cell's nonlinearities get: W x + b + U h. */
static uint32_t add_sum(const struct cell *c, uint32_t x, int32_t features)
{
	uint32_t in = add_linear(c, "in", x, features);

	if (c->state == FF_NONE)
		return in;
	return ff_layer_add(c->net, cell_name(c, "sum").text, in,
			add_linear(c, "state", c->state, features));
}

static void add_rnn(struct cell *c, uint32_t x)
{
	c->state = ff_layer_activation(
			c->net, cell_name(c, "h").text, add_sum(c, x, c->hidden), FF_ZOO_TANH);
}

/* The gates i, f, g, o; at the first step nothing is to be forgotten. */
static void add_gates(const struct cell *c, uint32_t sum, uint32_t gate[4])
{
	static const char *const names[] = {"i", "f", "g", "o"};
	union ff_attrs split = ff_attrs_preset(FF_OP_SPLIT);

	split.split.parts = 4;
	if (c->memory != FF_NONE)
		sum = ff_builder_add(c->net->builder, FF_OP_SPLIT, cell_name(c, "gates").text,
				&split, &sum, 1);
	for (int32_t i = 0; i < 4; i++) {
		struct ff_layer_name name = cell_name(c, names[i]);
		uint32_t in = FF_PORT(sum, i);

		if (c->memory == FF_NONE && i == 1)
			continue;
		if (c->memory == FF_NONE)
			in = ff_layer_slice(c->net, ff_layer_name("%s.slice", name.text).text, sum,
					i * c->hidden, (i + 1) * c->hidden);
		gate[i] = ff_layer_activation(
				c->net, name.text, in, i == 2 ? FF_ZOO_TANH : FF_ZOO_SIGMOID);
	}
}

static void add_lstm(struct cell *c, uint32_t x)
{
	uint32_t gate[4], memory;

	add_gates(c, add_sum(c, x, 4 * c->hidden), gate);
	memory = ff_layer_mul(c->net, cell_name(c, "new").text, gate[0], gate[2]);
	if (c->memory != FF_NONE)
		memory = ff_layer_add(c->net, cell_name(c, "c").text, memory,
				ff_layer_mul(c->net, cell_name(c, "kept").text, gate[1],
						c->memory));
	c->memory = memory;
	x = ff_layer_activation(c->net, cell_name(c, "tanh").text, memory, FF_ZOO_TANH);
	c->state = ff_layer_mul(c->net, cell_name(c, "h").text, gate[3], x);
}

/* The features of step `t`. */
static uint32_t add_step(const struct ff_zoo_net *n, uint32_t data, int32_t t)
{
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	uint32_t x = ff_layer_slice(n, ff_layer_name("t%d", t).text, data, t, t + 1);

	return ff_builder_add(
			n->builder, FF_OP_RESHAPE, ff_layer_name("t%d.x", t).text, &flat, &x, 1);
}

static void build_rnn(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	struct cell cell[100];
	uint32_t data, x = FF_NONE;

	a.input.rank = 3;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = v[RNN_STEPS];
	a.input.shape[2] = v[RNN_FEATURES];
	data = ff_builder_add(n->builder, FF_OP_INPUT, "data", &a, NULL, 0);
	for (int32_t i = 0; i < v[RNN_LAYERS]; i++)
		cell[i] = (struct cell){n, i + 1, 0, v[RNN_HIDDEN], FF_NONE, FF_NONE};
	for (int32_t t = 0; t < v[RNN_STEPS]; t++) {
		x = add_step(n, data, t);
		for (int32_t i = 0; i < v[RNN_LAYERS]; i++) {
			cell[i].step = t;
			(v[RNN_CELL] ? add_lstm : add_rnn)(&cell[i], x);
			x = cell[i].state;
		}
	}
	ff_layer_classify(n, ff_layer_linear(n, "fc", x, v[RNN_CLASSES]), v[RNN_CLASSES]);
}

const struct ff_zoo_row ff_zoo_rnn = {"rnn",
		"layers of recurrent cells, unrolled over time, and a linear layer", 64, rnn_params,
		FF_ZOO_COUNT(rnn_params), build_rnn};
