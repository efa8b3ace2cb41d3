/* Recurrent networks.  rnn has its cells unrolled: every step is a node of its own and all
 * steps share their layer's weights.  The cells are PyTorch's RNN (tanh) and LSTM
 * (Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, with forget gates), with one bias.
 * rnnlm, rnntc and nmt are the recurrent networks of Jia, Zaharia and Aiken, "Beyond Data and
 * Model Parallelism for Deep Neural Networks", 2019; nmt attends after Luong et al., "Effective
 * Approaches to Attention-based Neural Machine Translation", 2015 (global, dot).  Their layers
 * are unrolled too, or operators over the steps of a sequence, of which several behind each other
 * have some of the steps each: the same function of the same parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#define MAX_STEPS 1000
#define MAX_LAYERS 100

enum { RNN_STEPS, RNN_FEATURES, RNN_HIDDEN, RNN_LAYERS, RNN_CELL, RNN_CLASSES };
static const struct ff_zoo_param rnn_params[] = {
		{"steps", "steps of time", 1, MAX_STEPS, 10, NULL},
		{"features", "features of each step", 1, FF_ZOO_WIDTH, 28, NULL},
		{"hidden", "features of a cell's state", 1, FF_ZOO_WIDTH, 128, NULL},
		{"layers", "layers of cells", 1, MAX_LAYERS, 1, NULL},
		{"cell", "what the layers are made of", 0, 1, 0, "rnn|lstm"},
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 10, NULL},
};

/* One layer at one step; `memory` is FF_NONE at the first. */
struct cell {
	const struct ff_zoo_net *net;
	const char *stack; /* what its layers are called */
	int32_t layer, step, hidden;
	uint32_t state, memory;
};

static struct ff_layer_name cell_name(const struct cell *c, const char *what)
{
	return ff_layer_name("%s%d.t%d.%s", c->stack, c->layer, c->step, what);
}

/* A parameter of all steps. */
static struct ff_layer_name shared_name(const struct cell *c, const char *what, const char *param)
{
	return ff_layer_name("%s%d.%s.%s", c->stack, c->layer, what, param);
}

/* A linear layer with the weights of all steps; a bias on the way in. */
static uint32_t add_linear(const struct cell *c, const char *what, uint32_t in, int32_t features)
{
	struct ff_layer_name weight = shared_name(c, what, "weight");
	struct ff_layer_name bias = shared_name(c, what, "bias");
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
	struct cell cell[MAX_LAYERS];
	uint32_t data, x = FF_NONE;

	a.input.rank = 3;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = v[RNN_STEPS];
	a.input.shape[2] = v[RNN_FEATURES];
	data = ff_builder_add(n->builder, FF_OP_INPUT, "data", &a, NULL, 0);
	for (int32_t i = 0; i < v[RNN_LAYERS]; i++)
		cell[i] = (struct cell){n, "l", i + 1, 0, v[RNN_HIDDEN], FF_NONE, FF_NONE};
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

/* ---- sequences of words ---- */

enum { STEPS, HIDDEN, LAYERS, VOCABULARY, FORM, PIECES, CLASSES };
#define SEQUENCES(hidden, layers, layers_text, vocabulary)                                         \
	{"steps", "steps of time", 1, MAX_STEPS, 40, NULL},                                        \
			{"hidden", "features of words and states", 1, FF_ZOO_WIDTH, hidden, NULL}, \
			{"layers", layers_text, 1, MAX_LAYERS, layers, NULL},                      \
			{"vocabulary", "different words", 1, FF_ZOO_WIDTH, vocabulary, NULL},      \
			{"form", "operators over steps, or a cell for each", 0, 1, 0,              \
					"sequence|cells"},                                         \
	{                                                                                          \
		"pieces",                                                                          \
				"operators behind each other that the steps of a sequence are "    \
				"shared by",                                                       \
				1, MAX_STEPS, 1, NULL                                              \
	}

/* Layers on each other, all of which see a piece before they see the next: one step of cells. */
struct stack {
	const struct ff_zoo_net *net;
	bool unrolled;
	int32_t steps, pieces, layers;
	struct cell cell[MAX_LAYERS];
	uint32_t out[MAX_STEPS]; /* of the last layer, by piece */
};

static int32_t first_step(const struct stack *s, int32_t piece)
{
	return (int32_t)((int64_t)s->steps * piece / s->pieces);
}

static void begin_stack(const struct ff_zoo_net *n, const char *name, struct stack *ret)
{
	const int32_t *v = n->value;

	ret->net = n;
	ret->unrolled = v[FORM] == 1;
	ret->steps = v[STEPS];
	ret->pieces = ret->unrolled || v[PIECES] > v[STEPS] ? v[STEPS] : v[PIECES];
	ret->layers = v[LAYERS];
	for (int32_t i = 0; i < ret->layers; i++)
		ret->cell[i] = (struct cell){n, name, i + 1, 0, v[HIDDEN], FF_NONE, FF_NONE};
}

/* A piece of [batch, steps, features]; without the axis of steps where cells read it. */
static uint32_t take_piece(const struct stack *s, uint32_t x, int32_t piece)
{
	struct ff_layer_name name = ff_layer_name("%s.t%d", s->cell->stack, piece);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};

	if (s->pieces > 1)
		x = ff_layer_slice(s->net, name.text, x, first_step(s, piece),
				first_step(s, piece + 1));
	if (!s->unrolled)
		return x;
	return ff_builder_add(s->net->builder, FF_OP_RESHAPE, ff_layer_name("%s.x", name.text).text,
			&flat, &x, 1);
}

/* `steps` of a layer; the states behind them are made where `more` comes. */
static uint32_t add_sequence(struct cell *c, uint32_t x, int32_t steps, bool more)
{
	struct ff_layer_name weight = shared_name(c, "state", "weight");
	const char *params[FF_MAX_PARAMS] = {weight.text};
	union ff_attrs a = ff_attrs_preset(FF_OP_LSTM);
	uint32_t in[3] = {add_linear(c, "in", x, 4 * c->hidden), c->state, c->memory}, out;

	a.recurrent.bias = 0;
	a.recurrent.cell = more;
	out = ff_builder_add_tied(c->net->builder, FF_OP_LSTM, cell_name(c, "state").text, &a, in,
			c->state == FF_NONE ? 1 : 3, params);
	if (more)
		c->state = ff_layer_slice(c->net, cell_name(c, "last").text, out, steps - 1, steps);
	c->memory = FF_PORT(out, 1);
	return out;
}

/* All layers over all steps; what is behind the last is read with `more`. */
static void add_stack(struct stack *s, uint32_t data, bool more)
{
	for (int32_t p = 0; p < s->pieces; p++) {
		int32_t steps = first_step(s, p + 1) - first_step(s, p);
		uint32_t x = take_piece(s, data, p);

		for (int32_t i = 0; i < s->layers; i++) {
			struct cell *c = &s->cell[i];

			c->step = p;
			if (s->unrolled) {
				add_lstm(c, x);
				x = c->state;
			} else {
				x = add_sequence(c, x, steps, more || p + 1 < s->pieces);
			}
		}
		s->out[p] = x;
	}
}

/* What the last layer gives at the last step: [batch, hidden]. */
static uint32_t last_output(const struct stack *s)
{
	uint32_t x = s->out[s->pieces - 1];
	int32_t steps = s->steps - first_step(s, s->pieces - 1);

	if (s->unrolled)
		return x;
	return ff_layer_flatten(s->net, ff_layer_slice(s->net, "last", x, steps - 1, steps));
}

/* What it gives at all steps: [batch, steps, hidden].  A node joins so many pieces at most. */
static uint32_t all_outputs(struct stack *s)
{
	const char *name = s->cell->stack;
	union ff_attrs row = {.reshape = {.rank = 3, .shape = {0, 1, -1}}};
	enum { MOST = 100 };
	uint32_t n = (uint32_t)s->pieces, at = 0;

	for (uint32_t i = 0; i < n && s->unrolled; i++)
		s->out[i] = ff_builder_add(s->net->builder, FF_OP_RESHAPE,
				ff_layer_name("%s.row%u", name, i).text, &row, &s->out[i], 1);
	for (uint32_t i = 0; n > MOST && i < n; i += MOST, at++)
		s->out[at] = i + 1 == n ? s->out[i]
					: ff_layer_concat(s->net,
							  ff_layer_name("%s.part%u", name, at).text,
							  s->out + i, n - i < MOST ? n - i : MOST);
	n = at ? at : n;
	return n == 1 ? s->out[0]
		      : ff_layer_concat(s->net, ff_layer_name("%s.all", name).text, s->out, n);
}

static uint32_t embed(const struct ff_zoo_net *n, const char *name, uint32_t ids)
{
	union ff_attrs a = {.embedding = {n->value[VOCABULARY], n->value[HIDDEN]}};

	return ff_builder_add(n->builder, FF_OP_EMBEDDING, name, &a, &ids, 1);
}

/* ---- networks of them ---- */

static const struct ff_zoo_param rnnlm_params[] = {SEQUENCES(2048, 2, "layers", 10000)};

static void build_rnnlm(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	uint32_t x = embed(n, "embed", ff_layer_ids(n, "data", v[STEPS], v[VOCABULARY]));
	struct stack s;

	begin_stack(n, "l", &s);
	add_stack(&s, x, false);
	x = ff_layer_linear(n, "logits", all_outputs(&s), v[VOCABULARY]);
	ff_layer_classify_places(n, x, v[STEPS], v[VOCABULARY]);
}

const struct ff_zoo_row ff_zoo_rnnlm = {"rnnlm", "LSTM language model: the next word at every step",
		64, rnnlm_params, FF_ZOO_COUNT(rnnlm_params), build_rnnlm};

static const struct ff_zoo_param rnntc_params[] = {SEQUENCES(1024, 4, "layers", 10000),
		{"classes", "classes told apart", 1, FF_ZOO_WIDTH, 2, NULL}};

static void build_rnntc(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	uint32_t x = embed(n, "embed", ff_layer_ids(n, "data", v[STEPS], v[VOCABULARY]));
	struct stack s;

	begin_stack(n, "l", &s);
	add_stack(&s, x, false);
	ff_layer_classify(n, ff_layer_linear(n, "fc", last_output(&s), v[CLASSES]), v[CLASSES]);
}

const struct ff_zoo_row ff_zoo_rnntc = {"rnntc", "LSTM text classification: one class a sequence",
		64, rnntc_params, FF_ZOO_COUNT(rnntc_params), build_rnntc};

static const struct ff_zoo_param nmt_params[] = {
		SEQUENCES(1024, 2, "layers of the encoder, and of the decoder", 32000)};

/* What the decoder gives, beside what it attends to of the encoder: [batch, steps, hidden]. */
static uint32_t attend(const struct ff_zoo_net *n, uint32_t queries, uint32_t keys)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION), join = ff_attrs_preset(FF_OP_CONCAT);
	uint32_t in[3] = {queries, keys, keys}, both[2] = {0, queries}, x;

	a.attention.head_dim = n->value[HIDDEN];
	a.attention.scale = 1;
	join.concat.axis = 2;
	both[0] = ff_builder_add(n->builder, FF_OP_ATTENTION, "attention", &a, in, 3);
	x = ff_builder_add(n->builder, FF_OP_CONCAT, "attention.both", &join, both, 2);
	x = ff_layer_linear(n, "attention.out", x, n->value[HIDDEN]);
	return ff_layer_activation(n, "attention.tanh", x, FF_ZOO_TANH);
}

/* A decoder begins with what the encoder of its layer ends with, and is told the words before. */
static void build_nmt(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	uint32_t source = embed(n, "embed", ff_layer_ids(n, "data", v[STEPS], v[VOCABULARY]));
	uint32_t target = embed(
			n, "embed.target", ff_layer_ids(n, "target", v[STEPS], v[VOCABULARY]));
	struct stack encoder, decoder;
	uint32_t x;

	begin_stack(n, "encoder", &encoder);
	begin_stack(n, "decoder", &decoder);
	add_stack(&encoder, source, true);
	for (int32_t i = 0; i < v[LAYERS]; i++) {
		decoder.cell[i].state = encoder.cell[i].state;
		decoder.cell[i].memory = encoder.cell[i].memory;
	}
	add_stack(&decoder, target, false);
	x = all_outputs(&encoder);
	x = attend(n, all_outputs(&decoder), x);
	ff_layer_classify_places(
			n, ff_layer_linear(n, "logits", x, v[VOCABULARY]), v[STEPS], v[VOCABULARY]);
}

const struct ff_zoo_row ff_zoo_nmt = {"nmt", "LSTM encoder and decoder with attention: translation",
		64, nmt_params, FF_ZOO_COUNT(nmt_params), build_nmt};
