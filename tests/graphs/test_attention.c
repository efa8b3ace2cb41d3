/* Attention, its prelude and rope against brute force: shapes, the region of every tensor that
 * random iteration boxes touch, FLOPs and keys of parts, errors. SPDX-License-Identifier:
 * Apache-2.0 */
#include "ff/intervals.h"
#include "ff/work.h"
#include "probe.h"

enum { SAMPLE, HEAD, QUERY, KEY };

/* One score: a query of a head and a key of the one that it shares. */
static void touch_score(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int64_t size = p->node->attrs.attention.head_dim;
	int64_t shared = in_of(p, 0)->shape[2] / in_of(p, 1)->shape[2];
	bool prelude = p->node->op == FF_OP_ATTENTION_STATISTICS;
	bool masked = p->node->n_data - p->node->n_prelude > 3;
	uint32_t pairs = p->node->n_data - 1;

	for (int64_t d = 0; d<size; d += size> 1 ? size - 1 : 1) {
		int64_t column = at[HEAD] * size + d, key = at[HEAD] / shared * size + d;

		TOUCH(&h->in[0], at[SAMPLE], at[QUERY], column);
		TOUCH(&h->in[1], at[SAMPLE], at[KEY], key);
		TOUCH(&h->in[2], at[SAMPLE], at[KEY], key);
		if (!prelude)
			TOUCH(&h->out, at[SAMPLE], at[QUERY], column);
	}
	for (int64_t k = 0; k < 2; k++) {
		TOUCH(prelude ? &h->out : &h->saved, at[SAMPLE], at[HEAD], at[QUERY], k);
		if (!prelude)
			TOUCH(&h->in[pairs], at[SAMPLE], at[HEAD], at[QUERY], k);
	}
	if (masked) {
		const int32_t *shape = in_of(p, 3)->shape;

		TOUCH(&h->in[3], at[SAMPLE], shape[1] > 1 ? at[HEAD] : 0,
				shape[2] > 1 ? at[QUERY] : 0, shape[3] > 1 ? at[KEY] : 0);
	}
}

/* One that counts the scores of a box one by one. */
static int64_t count_scores(const struct probe *p, const struct ff_region *box)
{
	int32_t at[FF_MAX_DIMS];
	int64_t n = 0;

	memcpy(at, box->lo, sizeof(at));
	do
		n += !p->node->attrs.attention.causal || at[KEY] <= at[QUERY];
	while (next_point(box, at));
	return n;
}

/* FLOPs go by scores, in the node's forward and its prelude's backward; the prelude does nothing
 * forward where a part has all keys. */
static void check_flops(struct ff_random *r, const struct probe *p)
{
	int64_t size = p->node->attrs.attention.head_dim;
	bool prelude = p->node->op == FF_OP_ATTENTION_STATISTICS;
	uint32_t node = (uint32_t)(p->node - p->graph.nodes);

	for (int i = 0; i < BOXES; i++) {
		struct ff_region box = {0};
		struct ff_work w;
		int64_t scores, want;
		bool all;

		draw_box(r, p->node, &box);
		scores = count_scores(p, &box);
		all = ff_region_size(&box, KEY) == p->node->dim[KEY].extent;
		ff_work_fill(&p->graph, node, &box, FF_FORWARD, &w);
		want = !prelude ? (4 * size + 6) * scores : all ? 0 : (2 * size + 5) * scores;
		ck_assert_int_eq(ff_work_flops(&w), want);
		ff_work_fill(&p->graph, node, &box, FF_BACKWARD, &w);
		want = prelude ? (10 * size + 6) * scores : 2 * ff_region_volume(&w.out[0]);
		ck_assert_int_eq(ff_work_flops(&w), want);
	}
}

static void check_prelude(struct ff_random *r, struct probe *p)
{
	const struct ff_graph *g = &p->graph;
	const struct ff_node *node = p->node;
	uint32_t prelude = ff_node_prelude(g, (uint32_t)(node - g->nodes));

	ck_assert_uint_ne(prelude, FF_NONE);
	p->node = &g->nodes[prelude];
	ck_assert_str_eq(p->node->name, "probe.statistics");
	check_regions(r, p, touch_score);
	check_flops(r, p);
	ck_assert_int_eq(p->node->out_map[0].reduce, FF_REDUCE_LOG_SUM_EXP);
	ck_assert_uint_eq(p->node->n_dims, node->n_dims);
	for (uint32_t d = 0; d < node->n_dims; d++) {
		ck_assert_str_eq(p->node->dim[d].name, node->dim[d].name);
		ck_assert_int_eq(p->node->dim[d].extent, node->dim[d].extent);
		ck_assert_int_eq(p->node->dim[d].label, node->dim[d].label);
	}
	for (uint32_t i = 0; i < node->n_data - 1; i++)
		ck_assert_uint_eq(g->edges[node->in + i].shared, p->node->in + i);
}

START_TEST(regions)
{
	struct ff_random r = {.seed = ff_test_seed(51), .stream = 1};
	static const char labels[] = "SPAR";

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION);
		int32_t n = draw(&r, 1, 3), heads = draw(&r, 1, 3), shared = draw(&r, 1, 3);
		int32_t queries = draw(&r, 1, 6), keys = draw(&r, 1, 6), size = draw(&r, 1, 4);
		struct shape in[4] = {{3, {n, queries, heads * shared * size}},
				{3, {n, keys, heads * size}}, {3, {n, keys, heads * size}},
				{4, {n, heads * shared, queries, keys}}};
		struct probe p;

		for (int i = 1; i < 4; i++)
			in[3].size[i] = draw(&r, 0, 1) ? in[3].size[i] : 1;
		a.attention.head_dim = size;
		a.attention.causal = draw(&r, 0, 1);
		probe_open(&p, FF_OP_ATTENTION, &a, in, (uint32_t)draw(&r, 3, 4));
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, 4);
		for (uint32_t d = 0; d < 4; d++)
			ck_assert_int_eq(p.node->dim[d].label, labels[d]);
		ck_assert_uint_eq(p.node->n_saved, 1);
		ck_assert_mem_eq(out_of(&p)->shape, in[0].size, 3 * sizeof(int32_t));
		check_regions(&r, &p, touch_score);
		check_flops(&r, &p);
		check_prelude(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* Some of the first keys, before whose end all queries look, and some of the last. */
START_TEST(places_are_in_the_key)
{
	const struct shape in[3] = {{3, {2, 8, 8}}, {3, {2, 8, 8}}, {3, {2, 8, 8}}};
	char key[2][FF_KEY_BYTES];
	uint16_t like[4];

	for (int causal = 0; causal < 2; causal++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION);
		uint64_t hash[2];
		struct probe p;

		a.attention.head_dim = 4;
		a.attention.causal = causal;
		probe_open(&p, FF_OP_ATTENTION, &a, in, 3);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		for (int i = 0; i < 2; i++) {
			struct ff_region box = {4, {0, 0, 4, 4 * i}, {2, 2, 8, 4 * i + 4}};
			struct ff_work w;

			ff_work_fill(&p.graph, (uint32_t)(p.node - p.graph.nodes), &box, FF_FORWARD,
					&w);
			ff_work_key(&w, key[i]);
			hash[i] = ff_work_hash(&w);
		}
		ck_assert_int_eq(!strcmp(key[0], key[1]), !causal);
		ck_assert_int_eq(hash[0] == hash[1], !causal);
		ck_assert_ptr_nonnull(strstr(key[0], " flops="));
		/* all intervals of queries are other work */
		ff_intervals_alike(p.node, QUERY, 4, like);
		for (uint16_t i = 0; i < 4; i++)
			ck_assert_uint_eq(like[i], causal ? i : 0);
		probe_close(&p);
	}
}
END_TEST

START_TEST(errors)
{
	struct shape in[4] = {{3, {2, 6, 8}}, {3, {2, 5, 4}}, {3, {2, 5, 4}}, {4, {2, 1, 6, 5}}};
	union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION);
	struct probe p;

	a.attention.head_dim = 3;
	probe_open(&p, FF_OP_ATTENTION, &a, in, 3);
	refused(&p, "queries of 8 and keys of 4 elements are no heads of 3");
	a.attention.head_dim = 2;
	in[3].size[2] = 5;
	probe_open(&p, FF_OP_ATTENTION, &a, in, 4);
	refused(&p, "the mask [2, 1, 5, 5] does not broadcast to scores [2, 4, 6, 5]");
	in[2].size[1] = 4;
	probe_open(&p, FF_OP_ATTENTION, &a, in, 3);
	refused(&p, "attention \"probe\": queries [2, 6, 8], keys [2, 5, 4] and values [2, 4, 4] "
		    "do not fit");
	a.attention.dropout = 1;
	probe_open(&p, FF_OP_ATTENTION, &a, in, 3);
	refused(&p, "attention \"probe\": \"dropout\" must be below 1, or nothing is left");
}
END_TEST

/* Two inputs, of which `trained` goes through a linear layer, as queries and as keys. */
static int build_with(struct ff_arena *arena, int trained, struct ff_error *err)
{
	union ff_attrs x = {.input = {.rank = 3, .shape = {2, 4, 4}}};
	union ff_attrs y = {.input = {1, {2}, FF_I32, 3}}, a = ff_attrs_preset(FF_OP_ATTENTION);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_graph g;
	struct ff_builder *b;
	uint32_t in[3];

	ck_assert_int_eq(ff_builder_create("g", arena, &b, err), FF_OK);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &x, NULL, 0);
	fc.linear.out_features = 4;
	in[trained] = ff_builder_add(b, FF_OP_LINEAR, "own", &fc, &in[trained], 1);
	in[2] = in[1];
	a.attention.head_dim = 2;
	in[0] = ff_builder_add(b, FF_OP_ATTENTION, "attention", &a, in, 3);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = 3;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "labels", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	return ff_builder_finish(b, &g, err);
}

START_TEST(queries_have_a_gradient)
{
	struct ff_arena arena;
	struct ff_error err;

	ff_arena_init(&arena);
	ck_assert_int_eq(build_with(&arena, 0, &err), FF_OK);
	ck_assert_int_eq(build_with(&arena, 1, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "expected queries that are, too"));
	ff_arena_finish(&arena);
}
END_TEST

/* ---- rope ---- */

/* A head's row. */
static void touch_turned(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int64_t size = p->node->attrs.rope.head_dim;

	for (int64_t d = 0; d < size; d += size - 1) {
		TOUCH(&h->in[0], at[0], at[2], at[1] * size + d);
		TOUCH(&h->out, at[0], at[2], at[1] * size + d);
	}
}

START_TEST(turns)
{
	struct ff_random r = {.seed = ff_test_seed(52), .stream = 1};
	struct shape in = {3, {2, 3, 6}};
	union ff_attrs a = ff_attrs_preset(FF_OP_ROPE);
	struct probe p;

	for (int round = 0; round < ROUNDS; round++) {
		int32_t size = 2 * draw(&r, 1, 3);

		a.rope.head_dim = size;
		in = (struct shape){3, {draw(&r, 1, 3), draw(&r, 1, 5), size * draw(&r, 1, 3)}};
		probe_open(&p, FF_OP_ROPE, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		check_regions(&r, &p, touch_turned);
		probe_close(&p);
	}
	in.size[2] = 9;
	a.rope.head_dim = 3;
	probe_open(&p, FF_OP_ROPE, &a, &in, 1);
	refused(&p, "rows of 9 elements are no heads of 3, an even number");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("attention");
	TCase *c = tcase_create("attention");

	tcase_add_test(c, regions);
	tcase_add_test(c, places_are_in_the_key);
	tcase_add_test(c, errors);
	tcase_add_test(c, queries_have_a_gradient);
	tcase_add_test(c, turns);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
