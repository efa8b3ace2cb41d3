/* dlrm: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
 * Systems", 2019: layers of the numbers of a sample, a table for each of its ids, the products of
 * every two of these vectors, layers of all that.  Sizes are those the authors publish for
 * Criteo's Kaggle data, and MLPerf's for its terabyte (at most 40 million rows a table), with their
 * logistic loss of one number, whether somebody clicked.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#define MAX_TABLES 128

enum { NUMBERS, TABLES, ROWS, FEATURES };
#define SIZES(features)                                                                            \
	{"numbers", "numbers of a sample", 1, FF_ZOO_WIDTH, 13, NULL},                             \
			{"tables", "ids of a sample, a table each", 1, MAX_TABLES, 26, NULL},      \
			{"rows", "most rows of a table", 1, 1 << 30, 1 << 30, NULL},               \
	{                                                                                          \
		"features", "features of an id", 1, FF_ZOO_WIDTH, features, NULL                   \
	}
static const struct ff_zoo_param dlrm_params[] = {SIZES(16)};
static const struct ff_zoo_param dlrm_terabyte_params[] = {SIZES(128)};

#define CRITEO 26 /* columns of ids */
static const int32_t kaggle[CRITEO] = {1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145,
		5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181,
		105, 142572};
static const int32_t terabyte[CRITEO] = {39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63,
		38532951, 2953546, 403346, 10, 2208, 11938, 155, 4, 976, 14, 39979771, 25641295,
		39664984, 585935, 12972, 108, 36};

/* What differs: rows of tables, widths of layers up to 0. */
struct sizes {
	const int32_t *rows;
	int32_t bottom[4], top[5]; /* behind the bottom comes a vector like an id's */
};

static uint32_t add_layers(const struct ff_zoo_net *n, const char *stack, uint32_t x,
		const int32_t *widths, int32_t *layer)
{
	for (; *widths; widths++, ++*layer) {
		struct ff_layer_name name = ff_layer_name("%s%d", stack, *layer);

		x = ff_layer_linear(n, name.text, x, *widths);
		x = ff_layer_relu(n, ff_layer_name("%s.relu", name.text).text, x);
	}
	return x;
}

static uint32_t add_one(const struct ff_zoo_net *n, enum ff_op op, const char *name,
		const union ff_attrs *attrs, uint32_t in)
{
	return ff_builder_add(n->builder, op, name, attrs, &in, 1);
}

/* The bottom's vector and one for each id: [batch, 1 + tables, features]. */
static uint32_t add_vectors(const struct ff_zoo_net *n, const int32_t *rows, uint32_t bottom)
{
	const int32_t *v = n->value;
	union ff_attrs row = {.reshape = {.rank = 3, .shape = {0, 1, -1}}};
	uint32_t x[1 + MAX_TABLES];

	x[0] = add_one(n, FF_OP_RESHAPE, "bottom.row", &row, bottom);
	for (int32_t i = 0; i < v[TABLES]; i++) {
		struct ff_layer_name ids = ff_layer_name("ids%d", i);
		int32_t own = rows[i % CRITEO] < v[ROWS] ? rows[i % CRITEO] : v[ROWS];
		union ff_attrs a = {.embedding = {own, v[FEATURES], 1}};

		x[1 + i] = add_one(n, FF_OP_EMBEDDING, ff_layer_name("table%d", i).text, &a,
				ff_layer_ids(n, ids.text, 1, own));
	}
	return ff_layer_concat(n, "vectors", x, 1 + (uint32_t)v[TABLES]);
}

/* The product of every two different vectors: [batch, tables (1 + tables) / 2]. */
static uint32_t add_products(const struct ff_zoo_net *n, uint32_t vectors)
{
	int32_t count = 1 + n->value[TABLES], at = 0;
	double pair[(1 + MAX_TABLES) * MAX_TABLES / 2];
	union ff_attrs square = ff_attrs_preset(FF_OP_MATMUL), pick = {.gather = {1, {0, pair}}};
	uint32_t in[2] = {vectors, vectors}, x;

	square.matmul.transpose_b = 1;
	for (int32_t i = 1; i < count; i++)
		for (int32_t j = 0; j < i; j++)
			pair[at++] = i * count + j;
	pick.gather.indices.n = at;
	x = ff_builder_add(n->builder, FF_OP_MATMUL, "products", &square, in, 2);
	return add_one(n, FF_OP_GATHER, "pairs", &pick, ff_layer_flatten(n, x));
}

static void build(const struct ff_zoo_net *n, const struct sizes *s)
{
	const int32_t *v = n->value, last[2] = {v[FEATURES]};
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	uint32_t x, both[2];
	int32_t layer = 0;

	a.input.rank = 2;
	a.input.shape[0] = n->batch;
	a.input.shape[1] = v[NUMBERS];
	x = ff_builder_add(n->builder, FF_OP_INPUT, "data", &a, NULL, 0);
	both[0] = add_layers(
			n, "bottom", add_layers(n, "bottom", x, s->bottom, &layer), last, &layer);
	both[1] = add_products(n, add_vectors(n, s->rows, both[0]));
	layer = 0;
	x = add_layers(n, "top", ff_layer_concat(n, "both", both, 2), s->top, &layer);
	both[0] = ff_layer_linear(n, "click", x, 1);
	a.input.shape[1] = 1;
	both[1] = ff_builder_add(n->builder, FF_OP_INPUT, "labels", &a, NULL, 0);
	ff_builder_add(n->builder, FF_OP_BCE_WITH_LOGITS, "loss", NULL, both, 2);
}

static void build_dlrm(const struct ff_zoo_net *n)
{
	build(n, &(struct sizes){kaggle, {512, 256, 64}, {512, 256}});
}

static void build_dlrm_terabyte(const struct ff_zoo_net *n)
{
	build(n, &(struct sizes){terabyte, {512, 256}, {1024, 1024, 512, 256}});
}

const struct ff_zoo_row ff_zoo_dlrm = {"dlrm", "recommendations, of Criteo's Kaggle data", 128,
		dlrm_params, FF_ZOO_COUNT(dlrm_params), build_dlrm};
const struct ff_zoo_row ff_zoo_dlrm_terabyte = {"dlrm_terabyte",
		"recommendations, of Criteo's terabyte, MLPerf's sizes", 2048, dlrm_terabyte_params,
		FF_ZOO_COUNT(dlrm_terabyte_params), build_dlrm_terabyte};
