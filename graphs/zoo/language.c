/* lm: the next word from those before it, after Bengio et al., "A Neural
 * Probabilistic Language Model", 2003; with `tie` the words' vectors are the output
 * layer's weights too (Press and Wolf, "Using the Output Embedding to Improve
 * Language Models", 2017).  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

enum { LM_VOCABULARY, LM_FEATURES, LM_CONTEXT, LM_HIDDEN, LM_TIE };
static const struct ff_zoo_param lm_params[] = {
		{"vocabulary", "different words", 1, FF_ZOO_WIDTH, 10000, NULL},
		{"features", "features of a word", 1, FF_ZOO_WIDTH, 256, NULL},
		{"context", "words before the next", 1, FF_ZOO_WIDTH, 8, NULL},
		{"hidden", "features of the hidden layer", 1, FF_ZOO_WIDTH, 512, NULL},
		{"tie", "share the words' vectors with the output", 0, 1, 0, "no|yes"},
};

static void build_lm(const struct ff_zoo_net *n)
{
	const char *tied[FF_MAX_PARAMS] = {"embed.weight"};
	const int32_t *v = n->value;
	union ff_attrs ids = ff_attrs_preset(FF_OP_INPUT), words = ff_attrs_preset(FF_OP_EMBEDDING);
	union ff_attrs out = ff_attrs_preset(FF_OP_LINEAR);
	uint32_t x;

	ids.input = (struct ff_input_attrs){.rank = 2,
			.shape = {n->batch, v[LM_CONTEXT]},
			.dtype = FF_I32,
			.classes = v[LM_VOCABULARY]};
	words.embedding = (struct ff_embedding_attrs){v[LM_VOCABULARY], v[LM_FEATURES]};
	out.linear.out_features = v[LM_VOCABULARY];
	x = ff_builder_add(n->builder, FF_OP_INPUT, "data", &ids, NULL, 0);
	x = ff_builder_add(n->builder, FF_OP_EMBEDDING, "embed", &words, &x, 1);
	x = ff_layer_linear(n, "hidden", ff_layer_flatten(n, x), v[LM_HIDDEN]);
	x = ff_layer_activation(n, "act", x, FF_ZOO_TANH);
	if (v[LM_TIE])
		x = ff_layer_linear(n, "project", x, v[LM_FEATURES]);
	x = ff_builder_add_tied(
			n->builder, FF_OP_LINEAR, "logits", &out, &x, 1, v[LM_TIE] ? tied : NULL);
	ff_layer_classify(n, x, v[LM_VOCABULARY]);
}

const struct ff_zoo_row ff_zoo_lm = {"lm", "the next word from those before it", 64, lm_params,
		FF_ZOO_COUNT(lm_params), build_lm};
