/* Transformers (Vaswani et al., "Attention Is All You Need", 2017): gpt2 and its larger sizes
 * (Radford et al., 2019), bert (Devlin et al., 2019), llama (Touvron et al., 2023), vit_b16
 * (Dosovitskiy et al., 2021), moe, Mixtral's sizes (Jiang et al., "Mixtral of Experts", 2024) with
 * slots as GShard has them (Lepikhin et al., 2021).  Queries, keys and values have a layer each, so
 * that those and attention are cut along the heads alike.  gpt2 and bert drop what they are told
 * to: of attention's weights, of what is added to the sums, and of the first of these.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "layers.h"

#define MAX_EXPERTS 256
#define LEAST_SHARE 1e-9 /* of a place that no expert took */

/* What the blocks of a network have in common. */
struct blocks {
	const struct ff_zoo_net *n;
	int32_t width, heads, key_heads, hidden;
	bool causal, bias, rms, rotary; /* rotary: gated by silu, too */
	int32_t gelu;                   /* its form: 0 by the error function, 1 by tanh */
	double epsilon, base;           /* of rotary positions; 0: as the operator has it */
	int32_t dropout;                /* percent */
	int32_t experts, choices,
			capacity; /* of layers behind attention; no experts: one for all */
	bool ones;                /* places go to slots by products with ones, not by index */
};

/* ---- layers ---- */

static uint32_t add_one(const struct blocks *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, uint32_t in)
{
	return ff_builder_add(b->n->builder, op, name, attrs, &in, 1);
}

static uint32_t linear(const struct blocks *b, const char *name, uint32_t in, int32_t features)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);

	a.linear.out_features = features;
	a.linear.bias = b->bias;
	return add_one(b, FF_OP_LINEAR, name, &a, in);
}

static uint32_t norm(const struct blocks *b, const char *name, uint32_t in)
{
	enum ff_op op = b->rms ? FF_OP_RMS_NORM : FF_OP_LAYER_NORM;
	union ff_attrs a = ff_attrs_preset(op);

	a.norm.epsilon = b->epsilon;
	return add_one(b, op, name, &a, in);
}

static uint32_t turn(const struct blocks *b, const char *name, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_ROPE);

	a.rope.head_dim = b->width / b->heads;
	if (b->base > 0)
		a.rope.base = b->base;
	return b->rotary ? add_one(b, FF_OP_ROPE, name, &a, in) : in;
}

static uint32_t embed(const struct blocks *b, const char *name, uint32_t in, int32_t vocabulary)
{
	union ff_attrs a = {.embedding = {vocabulary, b->width}};

	return add_one(b, FF_OP_EMBEDDING, name, &a, in);
}

/* One trained row for each place. */
static uint32_t place(const struct blocks *b, const char *name, uint32_t in, int32_t places)
{
	union ff_attrs a = {.binary = {.rank = 2, .shape = {places, b->width}}};

	return add_one(b, FF_OP_ADD, name, &a, in);
}

/* Words by the vectors of `table`, or by a layer of their own. */
static uint32_t words(const struct blocks *b, const char *name, uint32_t in, int32_t vocabulary,
		const char *table, bool bias)
{
	const char *tied[FF_MAX_PARAMS] = {table};
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);

	a.linear.out_features = vocabulary;
	a.linear.bias = bias;
	return ff_builder_add_tied(
			b->n->builder, FF_OP_LINEAR, name, &a, &in, 1, table ? tied : NULL);
}

/* What the first place of a sequence has become. */
static uint32_t first_place(const struct ff_zoo_net *n, uint32_t in)
{
	return ff_layer_flatten(n, ff_layer_slice(n, "first", in, 0, 1));
}

/* ---- blocks ---- */

static uint32_t attend(const struct blocks *b, const char *p, uint32_t in)
{
	int32_t size = b->width / b->heads, keys = b->key_heads * size;
	union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION);
	uint32_t x[3];

	a.attention.head_dim = size;
	a.attention.causal = b->causal;
	a.attention.dropout = b->dropout / 100.0;
	x[0] = linear(b, ff_layer_name("%s.query", p).text, in, b->width);
	x[1] = linear(b, ff_layer_name("%s.key", p).text, in, keys);
	x[2] = linear(b, ff_layer_name("%s.value", p).text, in, keys);
	x[0] = turn(b, ff_layer_name("%s.query.rope", p).text, x[0]);
	x[1] = turn(b, ff_layer_name("%s.key.rope", p).text, x[1]);
	x[0] = ff_builder_add(b->n->builder, FF_OP_ATTENTION, ff_layer_name("%s.heads", p).text, &a,
			x, 3);
	x[0] = linear(b, ff_layer_name("%s.out", p).text, x[0], b->width);
	return ff_layer_dropout(b->n, ff_layer_name("%s.drop", p).text, x[0], b->dropout);
}

static uint32_t feed(const struct blocks *b, const char *p, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_GELU);
	uint32_t x = linear(b, ff_layer_name("%s.up", p).text, in, b->hidden), gate;

	a.unary.form = b->gelu;
	if (b->rotary) {
		gate = linear(b, ff_layer_name("%s.gate", p).text, in, b->hidden);
		gate = add_one(b, FF_OP_SILU, ff_layer_name("%s.silu", p).text, NULL, gate);
		x = ff_layer_mul(b->n, ff_layer_name("%s.gated", p).text, gate, x);
	} else {
		x = add_one(b, FF_OP_GELU, ff_layer_name("%s.gelu", p).text, &a, x);
	}
	x = linear(b, ff_layer_name("%s.down", p).text, x, b->width);
	return ff_layer_dropout(b->n, ff_layer_name("%s.drop", p).text, x, b->dropout);
}

/* ---- experts ---- */

static uint32_t product(const struct blocks *b, const char *name, uint32_t left, uint32_t right,
		bool transposed)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_MATMUL);
	uint32_t in[2] = {left, right};

	a.matmul.transpose_a = transposed;
	return ff_builder_add(b->n->builder, FF_OP_MATMUL, name, &a, in, 2);
}

/* Every expert's layer over its slots: a group of channels each.  By index slots lie as pixels. */
static uint32_t each(const struct blocks *b, const char *name, uint32_t in, int32_t features)
{
	enum ff_op op = b->ones ? FF_OP_CONV1D : FF_OP_CONV2D;
	union ff_attrs a = ff_attrs_preset(op);

	a.conv.out_channels = b->experts * features;
	a.conv.kernel[0] = a.conv.kernel[1] = 1;
	a.conv.groups = b->experts;
	a.conv.bias = 0;
	return add_one(b, op, name, &a, in);
}

/* What experts make of channels of their slots. */
static uint32_t add_gated(const struct blocks *b, const char *p, uint32_t x)
{
	uint32_t gate = each(b, ff_layer_name("%s.gate", p).text, x, b->hidden);

	gate = add_one(b, FF_OP_SILU, ff_layer_name("%s.silu", p).text, NULL, gate);
	x = each(b, ff_layer_name("%s.up", p).text, x, b->hidden);
	x = ff_layer_mul(b->n, ff_layer_name("%s.gated", p).text, gate, x);
	return each(b, ff_layer_name("%s.down", p).text, x, b->width);
}

/* Of slots [batch, capacity experts, width] what the experts make, in their place. */
static uint32_t add_experts(const struct blocks *b, const char *p, uint32_t x)
{
	union ff_attrs wide = {.reshape = {3, {0, b->capacity, -1}}};
	union ff_attrs slots = {.reshape = {3, {0, b->capacity * b->experts, b->width}}};
	union ff_attrs turned = {.transpose = {3, {0, 2, 1}}};

	x = add_one(b, FF_OP_RESHAPE, ff_layer_name("%s.slots", p).text, &wide, x);
	x = add_one(b, FF_OP_TRANSPOSE, ff_layer_name("%s.lanes", p).text, &turned, x);
	x = add_gated(b, p, x);
	x = add_one(b, FF_OP_TRANSPOSE, ff_layer_name("%s.back", p).text, &turned, x);
	return add_one(b, FF_OP_RESHAPE, ff_layer_name("%s.results", p).text, &slots, x);
}

/* Of every slot the score that its place gives its expert: [batch, capacity experts, 1]. */
static uint32_t add_shares(const struct blocks *b, const char *p, uint32_t mask, uint32_t scores)
{
	int32_t n = b->experts, capacity = b->capacity;
	union ff_attrs square = {.reshape = {4, {0, capacity, n, n}}};
	union ff_attrs line = {.reshape = {3, {0, capacity * n, 1}}};
	union ff_attrs own = {.constant = {.rank = 4, .shape = {b->n->batch, 1, n, n}}};
	union ff_attrs sum = ff_attrs_preset(FF_OP_REDUCE_SUM);
	double runs[4 * MAX_EXPERTS] = {1, 1}; /* of a matrix: ones along the diagonal */
	uint32_t x = product(b, ff_layer_name("%s.scored", p).text, mask, scores, true);

	own.constant.runs = (struct ff_numbers){4 * n - 2, runs};
	for (int64_t i = 1; i < n; i++) {
		runs[4 * i - 2] = n;
		runs[4 * i] = runs[4 * i + 1] = 1;
	}
	sum.reduce.n_axes = 1;
	sum.reduce.axis[0] = 3;
	x = add_one(b, FF_OP_RESHAPE, ff_layer_name("%s.scored.by", p).text, &square, x);
	x = ff_layer_mul(b->n, ff_layer_name("%s.scored.own", p).text, x,
			ff_builder_add(b->n->builder, FF_OP_CONSTANT_OF,
					ff_layer_name("%s.own", p).text, &own, NULL, 0));
	x = add_one(b, FF_OP_REDUCE_SUM, ff_layer_name("%s.share", p).text, &sum, x);
	return add_one(b, FF_OP_RESHAPE, ff_layer_name("%s.shares", p).text, &line, x);
}

/* Results of the slots that products with ones bring places to, and back, by share of the scores
 * of those experts that took the place. */
static uint32_t join_by_ones(const struct blocks *b, const char *p, uint32_t in, uint32_t scores)
{
	union ff_attrs least = ff_attrs_preset(FF_OP_CLIP);
	union ff_attrs route = {.route = {b->choices, b->capacity}};
	uint32_t mask, shares, x, both[2];

	least.unary.a = LEAST_SHARE;
	mask = add_one(b, FF_OP_ROUTE, ff_layer_name("%s.route", p).text, &route, scores);
	shares = add_shares(b, p, mask, scores);
	x = add_experts(b, p, product(b, ff_layer_name("%s.taken", p).text, mask, in, true));
	x = ff_layer_mul(b->n, ff_layer_name("%s.weighed", p).text, x, shares);
	both[0] = product(b, ff_layer_name("%s.joined", p).text, mask, x, false);
	x = product(b, ff_layer_name("%s.sum", p).text, mask, shares, false);
	both[1] = add_one(b, FF_OP_CLIP, ff_layer_name("%s.some", p).text, &least, x);
	return ff_builder_add(
			b->n->builder, FF_OP_DIV, ff_layer_name("%s.mean", p).text, NULL, both, 2);
}

/* The same by index. */
static uint32_t join_by_index(const struct blocks *b, const char *p, uint32_t in, uint32_t scores)
{
	union ff_attrs least = ff_attrs_preset(FF_OP_CLIP), sum = ff_attrs_preset(FF_OP_REDUCE_SUM);
	union ff_attrs route = {.route = {b->choices, b->capacity, 1}};
	uint32_t took, places, both[2], slots[2], x[3];

	least.unary.a = LEAST_SHARE;
	sum.reduce = (struct ff_reduce_attrs){.n_axes = 1, .axis = {2}, .keep = 1};
	took = add_one(b, FF_OP_ROUTE, ff_layer_name("%s.route", p).text, &route, scores);
	places = FF_PORT(took, 1);
	both[0] = ff_layer_mul(b->n, ff_layer_name("%s.taken", p).text, scores, took);
	both[1] = add_one(b, FF_OP_REDUCE_SUM, ff_layer_name("%s.sum", p).text, &sum, both[0]);
	both[1] = add_one(b, FF_OP_CLIP, ff_layer_name("%s.some", p).text, &least, both[1]);
	x[1] = ff_builder_add(b->n->builder, FF_OP_DIV, ff_layer_name("%s.shares", p).text, NULL,
			both, 2);
	slots[0] = in;
	slots[1] = places;
	x[0] = add_gated(b, p,
			ff_builder_add(b->n->builder, FF_OP_DISPATCH,
					ff_layer_name("%s.dispatch", p).text, NULL, slots, 2));
	x[2] = places;
	return ff_builder_add(b->n->builder, FF_OP_COMBINE, ff_layer_name("%s.combine", p).text,
			NULL, x, 3);
}

/* Places go to their experts' slots and results come back, by share of the scores of those that
 * took the place; a place that no expert took gets nothing. */
static uint32_t feed_experts(const struct blocks *b, const char *p, uint32_t in)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR), last = {.softmax = {2}};
	uint32_t x;

	a.linear.out_features = b->experts;
	a.linear.bias = 0;
	x = add_one(b, FF_OP_LINEAR, ff_layer_name("%s.router", p).text, &a, in);
	x = add_one(b, FF_OP_SOFTMAX, ff_layer_name("%s.scores", p).text, &last, x);
	return (b->ones ? join_by_ones : join_by_index)(b, p, in, x);
}

/* Norms before attention and layers. */
static uint32_t block_before(const struct blocks *b, int32_t i, uint32_t in)
{
	struct ff_layer_name p = ff_layer_name("block%d", i);
	uint32_t x = norm(b, ff_layer_name("%s.norm1", p.text).text, in);

	x = attend(b, ff_layer_name("%s.attention", p.text).text, x);
	in = ff_layer_add(b->n, ff_layer_name("%s.add1", p.text).text, in, x);
	x = norm(b, ff_layer_name("%s.norm2", p.text).text, in);
	x = (b->experts ? feed_experts : feed)(b, ff_layer_name("%s.mlp", p.text).text, x);
	return ff_layer_add(b->n, ff_layer_name("%s.add2", p.text).text, in, x);
}

/* Norms behind the sums. */
static uint32_t block_behind(const struct blocks *b, int32_t i, uint32_t in)
{
	struct ff_layer_name p = ff_layer_name("block%d", i);
	uint32_t x = attend(b, ff_layer_name("%s.attention", p.text).text, in);

	in = ff_layer_add(b->n, ff_layer_name("%s.add1", p.text).text, in, x);
	in = norm(b, ff_layer_name("%s.norm1", p.text).text, in);
	x = feed(b, ff_layer_name("%s.mlp", p.text).text, in);
	x = ff_layer_add(b->n, ff_layer_name("%s.add2", p.text).text, in, x);
	return norm(b, ff_layer_name("%s.norm2", p.text).text, x);
}

/* ---- networks ---- */

enum { LAYERS, WIDTH, HEADS, SEQUENCE, VOCABULARY, TASK, KEY_HEADS = TASK, HIDDEN };

#define SIZE(key, help, preset)                                                                    \
	{                                                                                          \
		key, help, 1, FF_ZOO_WIDTH, preset, NULL                                           \
	}
/* Of more no graph has room for the nodes. */
#define MAX_BLOCKS 10000
#define BLOCKS(preset)                                                                             \
	{                                                                                          \
		"layers", "blocks", 1, MAX_BLOCKS, preset, NULL                                    \
	}
#define SIZES(layers, width, heads, sequence, vocabulary)                                          \
	BLOCKS(layers), SIZE("width", "features of a place", width),                               \
			SIZE("heads", "heads of attention", heads),                                \
			SIZE("sequence", "places of a sequence", sequence),                        \
			SIZE("vocabulary", "different words", vocabulary)
#define DROPOUT                                                                                    \
	{                                                                                          \
		"dropout", "percent dropped, of attention's weights, too (0: no dropout)", 0, 99,  \
				0, NULL                                                            \
	}
enum { GPT2_DROPOUT = VOCABULARY + 1, BERT_DROPOUT = TASK + 1 };

static void build_gpt2(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	const struct blocks b = {.n = n,
			.width = v[WIDTH],
			.heads = v[HEADS],
			.key_heads = v[HEADS],
			.hidden = 4 * v[WIDTH],
			.causal = true,
			.bias = true,
			.gelu = 1,
			.epsilon = 1e-5,
			.dropout = v[GPT2_DROPOUT]};
	uint32_t x = embed(&b, "embed", ff_layer_ids(n, "data", v[SEQUENCE], v[VOCABULARY]),
			v[VOCABULARY]);

	x = place(&b, "position", x, v[SEQUENCE]);
	x = ff_layer_dropout(n, "drop", x, b.dropout);
	for (int32_t i = 0; i < v[LAYERS]; i++)
		x = block_before(&b, i, x);
	x = words(&b, "logits", norm(&b, "norm", x), v[VOCABULARY], "embed.weight", false);
	ff_layer_classify_places(n, x, v[SEQUENCE], v[VOCABULARY]);
}

#define GPT2(row, text, layers, width, heads)                                                      \
	static const struct ff_zoo_param row##_params[] = {                                        \
			SIZES(layers, width, heads, 1024, 50257), DROPOUT};                        \
	const struct ff_zoo_row ff_zoo_##row = {                                                   \
			#row, text, 8, row##_params, FF_ZOO_COUNT(row##_params), build_gpt2}

GPT2(gpt2, "GPT-2, small: the next word at every place", 12, 768, 12);
GPT2(gpt2_medium, "GPT-2, medium", 24, 1024, 16);
GPT2(gpt2_large, "GPT-2, large", 36, 1280, 20);
GPT2(gpt2_xl, "GPT-2, the largest", 48, 1600, 25);

/* Words that are told at every place: a layer, and the words' vectors. */
static void tell_words(const struct blocks *b, uint32_t x)
{
	const int32_t *v = b->n->value;
	union ff_attrs a = ff_attrs_preset(FF_OP_GELU);

	x = add_one(b, FF_OP_GELU, "transform.gelu", &a, linear(b, "transform", x, b->width));
	x = norm(b, "transform.norm", x);
	x = words(b, "logits", x, v[VOCABULARY], "embed.weight", true);
	ff_layer_classify_places(b->n, x, v[SEQUENCE], v[VOCABULARY]);
}

static void build_bert(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	const struct blocks b = {.n = n,
			.width = v[WIDTH],
			.heads = v[HEADS],
			.key_heads = v[HEADS],
			.hidden = 4 * v[WIDTH],
			.bias = true,
			.epsilon = 1e-12,
			.dropout = v[BERT_DROPOUT]};
	uint32_t x = embed(&b, "embed", ff_layer_ids(n, "data", v[SEQUENCE], v[VOCABULARY]),
			v[VOCABULARY]);
	uint32_t type = embed(&b, "type", ff_layer_ids(n, "types", v[SEQUENCE], 2), 2);

	x = place(&b, "position", ff_layer_add(n, "add", x, type), v[SEQUENCE]);
	x = norm(&b, "norm", x);
	x = ff_layer_dropout(n, "drop", x, b.dropout);
	for (int32_t i = 0; i < v[LAYERS]; i++)
		x = block_behind(&b, i, x);
	if (v[TASK]) {
		tell_words(&b, x);
		return;
	}
	x = ff_layer_linear(n, "pooler", first_place(n, x), v[WIDTH]);
	x = ff_layer_activation(n, "pooler.tanh", x, FF_ZOO_TANH);
	ff_layer_classify(n, ff_layer_linear(n, "classifier", x, 2), 2);
}

#define TASKS                                                                                      \
	{                                                                                          \
		"task", "two classes of sequences, or the word at every place", 0, 1, 0,           \
				"classify|words"                                                   \
	}
static const struct ff_zoo_param bert_params[] = {SIZES(12, 768, 12, 512, 30522), TASKS, DROPOUT};
static const struct ff_zoo_param bert_large_params[] = {
		SIZES(24, 1024, 16, 512, 30522), TASKS, DROPOUT};

const struct ff_zoo_row ff_zoo_bert = {"bert", "BERT, base: sequences of words", 16, bert_params,
		FF_ZOO_COUNT(bert_params), build_bert};
const struct ff_zoo_row ff_zoo_bert_large = {"bert_large", "BERT, large", 16, bert_large_params,
		FF_ZOO_COUNT(bert_large_params), build_bert};

static const struct ff_zoo_param llama_params[] = {SIZES(32, 4096, 32, 4096, 32000),
		SIZE("key_heads", "heads of keys and values", 32),
		SIZE("hidden", "features of the gated layer", 11008)};

/* From words to the next ones at every place. */
static void add_words(const struct blocks *b)
{
	const int32_t *v = b->n->value;
	uint32_t x = embed(b, "embed", ff_layer_ids(b->n, "data", v[SEQUENCE], v[VOCABULARY]),
			v[VOCABULARY]);

	for (int32_t i = 0; i < v[LAYERS]; i++)
		x = block_before(b, i, x);
	x = words(b, "logits", norm(b, "norm", x), v[VOCABULARY], NULL, false);
	ff_layer_classify_places(b->n, x, v[SEQUENCE], v[VOCABULARY]);
}

static void build_llama(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	const struct blocks b = {.n = n,
			.width = v[WIDTH],
			.heads = v[HEADS],
			.key_heads = v[KEY_HEADS],
			.hidden = v[HIDDEN],
			.causal = true,
			.rms = true,
			.rotary = true,
			.epsilon = 1e-5};

	add_words(&b);
}

const struct ff_zoo_row ff_zoo_llama = {"llama", "LLaMA 2, 7B: rotary, gated, RMS norms", 1,
		llama_params, FF_ZOO_COUNT(llama_params), build_llama};

enum { EXPERTS = HIDDEN + 1, CHOICES, CAPACITY, DISPATCH };
static const struct ff_zoo_param moe_params[] = {SIZES(32, 4096, 32, 4096, 32000),
		SIZE("key_heads", "heads of keys and values", 8),
		SIZE("hidden", "features of an expert's gated layer", 14336),
		{"experts", "experts of a block", 1, MAX_EXPERTS, 8, NULL},
		{"choices", "experts that a place goes to", 1, MAX_EXPERTS, 2, NULL},
		{"capacity",
				"slots, in hundredths of those that all would need if each had its "
				"share",
				1, 100 * MAX_EXPERTS, 125, NULL},
		{"dispatch", "how places get to slots: by index, or by products with ones", 0, 1, 0,
				"index|ones"}};

static void build_moe(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	int64_t all = 100 * (int64_t)v[EXPERTS];
	int64_t slots = ((int64_t)v[SEQUENCE] * v[CHOICES] * v[CAPACITY] + all - 1) / all;
	const struct blocks b = {.n = n,
			.width = v[WIDTH],
			.heads = v[HEADS],
			.key_heads = v[KEY_HEADS],
			.hidden = v[HIDDEN],
			.causal = true,
			.rms = true,
			.rotary = true,
			.epsilon = 1e-5,
			.base = 1e6,
			.experts = v[EXPERTS],
			.choices = v[CHOICES],
			.ones = v[DISPATCH],
			.capacity = (int32_t)(slots < v[SEQUENCE] ? slots : v[SEQUENCE])};

	add_words(&b);
}

const struct ff_zoo_row ff_zoo_moe = {"moe", "mixture of experts, Mixtral 8x7B's sizes", 8,
		moe_params, FF_ZOO_COUNT(moe_params), build_moe};

enum { VIT_LAYERS, VIT_WIDTH, VIT_HEADS, VIT_IMAGE, VIT_PATCH, VIT_CHANNELS, VIT_CLASSES };
static const struct ff_zoo_param vit_params[] = {
		BLOCKS(12),
		SIZE("width", "features of a patch", 768),
		SIZE("heads", "heads of attention", 12),
		{"image", "height and width of the images", 1, 4096, 224, NULL},
		{"patch", "height and width of a patch", 1, 4096, 16, NULL},
		{"channels", "channels of the images", 1, 4096, 3, NULL},
		SIZE("classes", "classes told apart", 1000),
};

/* Patches one behind the other, and before them a token that is trained. */
static uint32_t patches(const struct blocks *b)
{
	const int32_t *v = b->n->value;
	int32_t side = ff_layer_size(v[VIT_IMAGE], v[VIT_PATCH], v[VIT_PATCH], 0);
	union ff_attrs flat = {.reshape = {3, {0, 0, -1}}}, turned = {.transpose = {3, {0, 2, 1}}};
	union ff_attrs token = {.expand = {.rank = 3,
						.shape = {b->n->batch, 1, b->width},
						.own_rank = 2,
						.own = {1, b->width}}};
	uint32_t x = ff_layer_images(b->n, v[VIT_CHANNELS], v[VIT_IMAGE]), in[2];

	x = ff_layer_conv(b->n, "patches", x, b->width, v[VIT_PATCH], v[VIT_PATCH], 0);
	x = add_one(b, FF_OP_RESHAPE, "patches.flat", &flat, x);
	in[1] = add_one(b, FF_OP_TRANSPOSE, "patches.rows", &turned, x);
	in[0] = ff_builder_add(b->n->builder, FF_OP_EXPAND, "class", &token, NULL, 0);
	return place(b, "position", ff_layer_concat(b->n, "tokens", in, 2), side * side + 1);
}

static void build_vit(const struct ff_zoo_net *n)
{
	const int32_t *v = n->value;
	const struct blocks b = {.n = n,
			.width = v[VIT_WIDTH],
			.heads = v[VIT_HEADS],
			.key_heads = v[VIT_HEADS],
			.hidden = 4 * v[VIT_WIDTH],
			.bias = true,
			.epsilon = 1e-6};
	uint32_t x = patches(&b);

	for (int32_t i = 0; i < v[VIT_LAYERS]; i++)
		x = block_before(&b, i, x);
	x = first_place(n, norm(&b, "norm", x));
	ff_layer_classify(n, ff_layer_linear(n, "head", x, v[VIT_CLASSES]), v[VIT_CLASSES]);
}

const struct ff_zoo_row ff_zoo_vit_b16 = {"vit_b16", "vision transformer, base, patches of 16", 32,
		vit_params, FF_ZOO_COUNT(vit_params), build_vit};
