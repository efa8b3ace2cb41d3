/* Rewrites: what a graph has room for, and what becomes of its nodes and parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "check_main.h"
#include "ff/graph_file.h"
#include "ff/rewrite.h"
#include "ff/zoo.h"

static void parse(const char *text, struct ff_arena *a, struct ff_graph *g)
{
	struct ff_error err = {0};

	ck_assert_msg(ff_graph_parse("test", text, strlen(text), a, g, &err) == FF_OK, "%s",
			err.text);
}

static const struct ff_node *node_of(const struct ff_graph *g, const char *name)
{
	uint32_t i = ff_graph_find(g, name);

	ck_assert_msg(i != FF_NONE, "there is no %s", name);
	return &g->nodes[i];
}

#define HEAD "{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"g\",\"nodes\":["
#define INPUTS                                                                                     \
	"{\"name\":\"x\",\"op\":\"input\",\"shape\":[4,6]},"                                       \
	"{\"name\":\"y\",\"op\":\"input\",\"shape\":[4],\"dtype\":\"int32\",\"classes\":3},"
#define LINEAR(name, in, out, more)                                                                \
	"{\"name\":\"" name "\",\"op\":\"linear\",\"in\":[\"" in "\"],\"out_features\":" #out more \
	"},"
#define TAIL(in)                                                                                   \
	"{\"name\":\"all\",\"op\":\"concat\",\"in\":[" in "]},"                                    \
	"{\"name\":\"out\",\"op\":\"linear\",\"in\":[\"all\"],\"out_features\":3},"                \
	"{\"name\":\"loss\",\"op\":\"softmax_cross_entropy\",\"in\":[\"out\",\"y\"]}]}"

/* Every parameter there was is a piece of one there is now, no row is left out or used twice, and
 * whatever draws random numbers does so by the node that it was. */
static void check_same(const struct ff_graph *g, const struct ff_graph *made)
{
	uint32_t pieces = 0, parameters = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		parameters += ff_node_is_parameter(g, i);
	for (uint32_t i = 0; i < made->n_nodes; i++) {
		uint32_t was = ff_graph_find(g, made->nodes[i].name);
		int32_t row = 0;

		if (was != FF_NONE)
			ck_assert_uint_eq(ff_node_stream(made, i), was);
		if (!ff_node_is_parameter(made, i))
			continue;
		for (uint32_t k = 0; k < ff_parameter_pieces(made, i); k++) {
			const struct ff_parameter_piece p = ff_parameter_piece(made, i, k);
			const struct ff_value *old;

			pieces++;
			ck_assert_str_eq(g->nodes[p.stream].name, p.name);
			old = &g->values[g->nodes[p.stream].out];
			ck_assert_int_eq(p.first, row);
			ck_assert_int_eq(p.n, old->shape[0]);
			ck_assert_int_eq(old->fan_in, made->values[made->nodes[i].out].fan_in);
			row += p.n;
		}
		ck_assert_int_eq(row, made->values[made->nodes[i].out].shape[0]);
	}
	ck_assert_uint_eq(pieces, parameters);
	ck_assert_int_eq(ff_graph_parameters(g), ff_graph_parameters(made));
	ck_assert_uint_eq(g->hash, made->hash);
	ck_assert_int_eq(g->batch, made->batch);
}

START_TEST(zoo)
{
	const struct ff_zoo_row *row;
	uint32_t rewritten = 0;

	for (uint32_t i = 0; (row = ff_zoo_row(i)); i++) {
		const char *const all[] = {"all"};
		struct ff_graph g, made;
		struct ff_rewrite *found;
		struct ff_error err = {0};
		struct ff_arena a;
		uint32_t n, classes;

		ff_arena_init(&a);
		ck_assert_int_eq(ff_zoo_build(row->name, 2, NULL, 0, &a, &g, &err), FF_OK);
		ck_assert_int_eq(ff_rewrites_find(&g, &a, &found, &n, &classes, &err), FF_OK);
		if (n) {
			ck_assert_msg(ff_graph_rewrite_matching(&g, all, 1, &a, &made, &err) ==
							FF_OK,
					"%s: %s", row->name, err.text);
			ck_assert_uint_eq(made.rewritten->n, n);
			check_same(&g, &made);
			rewritten++;
		}
		if (!strcmp(row->name, "gpt2")) /* query, key and value of 12 equal blocks */
			ck_assert(n == 12 && classes == 1);
		if (!strcmp(row->name, "llama")) /* and gate and up, of 32 */
			ck_assert(n == 64 && classes == 2);
		ff_arena_finish(&a);
	}
	ck_assert_uint_ge(rewritten, 8);
}
END_TEST

/* Of one size they are parts of a split, otherwise slices; nodes behind read those. */
START_TEST(parts)
{
	static const char equal[] = HEAD INPUTS LINEAR("a", "x", 2, "") LINEAR("b", "x", 2, "")
			TAIL("\"a\",\"b\"");
	static const char unequal[] = HEAD INPUTS LINEAR("a", "x", 2, "") LINEAR("b", "x", 5, "")
			TAIL("\"b\",\"a\"");
	static const char *const text[] = {"merge_products:b+a"};
	struct ff_graph g, made;
	struct ff_error err = {0};
	struct ff_arena a;

	ff_arena_init(&a);
	parse(equal, &a, &g);
	ck_assert_int_eq(ff_graph_rewrite(&g, text, 1, &a, &made, &err), FF_OK);
	check_same(&g, &made);
	ck_assert_int_eq(node_of(&made, "b.split")->op, FF_OP_SPLIT);
	ck_assert_int_eq(node_of(&made, "b.merged")->attrs.linear.out_features, 4);
	parse(unequal, &a, &g);
	ck_assert_int_eq(ff_graph_rewrite(&g, text, 1, &a, &made, &err), FF_OK);
	check_same(&g, &made);
	ck_assert_int_eq(node_of(&made, "b")->attrs.slice.stop, 5);
	ck_assert_int_eq(node_of(&made, "a")->attrs.slice.start, 5);
	ck_assert_int_eq(node_of(&made, "a")->attrs.slice.stop, 7);
	ff_arena_finish(&a);
}
END_TEST

/* What is not alike stays apart: another bias, another input, a parameter that is shared. */
START_TEST(apart)
{
	static const char text[] = HEAD INPUTS LINEAR("a", "x", 2, "")
			LINEAR("b", "x", 2, ",\"bias\":false") LINEAR("c", "a", 2, "") LINEAR(
					"d", "x", 4, ",\"params\":{\"weight\":\"shared\"}")
					LINEAR("e", "x", 4, ",\"params\":{\"weight\":\"shared\"}")
							TAIL("\"b\",\"c\",\"d\",\"e\"");
	static const char *const wrong[][2] = {{"merge_products:a+b", "cannot be part"},
			{"merge_products:a+c", "cannot be part"},
			{"merge_products:d+e", "cannot be part"}, {"merge_products:a", "two nodes"},
			{"merge_products:a+", "no node \"\""},
			{"merge_products", "expected merge_"}, {"merge:a+b", "expected merge_"},
			{"merge_products:x+y", "cannot be part"}};
	struct ff_graph g, made = {.n_nodes = 7};
	struct ff_rewrite *found;
	struct ff_error err = {0};
	uint32_t n, classes;
	struct ff_arena a;

	ff_arena_init(&a);
	parse(text, &a, &g);
	ck_assert_int_eq(ff_rewrites_find(&g, &a, &found, &n, &classes, &err), FF_OK);
	ck_assert_uint_eq(n, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(ff_graph_rewrite(&g, wrong[i], 1, &a, &made, &err), FF_E_INPUT);
		ck_assert_msg(strstr(err.text, wrong[i][1]) != NULL, "%s", err.text);
		ck_assert_uint_eq(made.n_nodes, 7);
	}
	ff_arena_finish(&a);
}
END_TEST

/* A name that is taken. */
START_TEST(impossible)
{
	static const char taken[] = HEAD INPUTS LINEAR("a", "x", 2, "") LINEAR("b", "x", 2, "")
			LINEAR("a.merged", "a", 2, "") TAIL("\"a.merged\",\"b\"");
	static const char *const text[] = {"merge_products:a+b"};
	struct ff_graph g, made;
	struct ff_error err = {0};
	struct ff_arena a;

	ff_arena_init(&a);
	parse(taken, &a, &g);
	ck_assert_int_eq(ff_graph_rewrite(&g, text, 1, &a, &made, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, "a.merged") != NULL, "%s", err.text);
	ff_arena_finish(&a);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("rewrite");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 100);
	tcase_add_test(t, zoo);
	tcase_add_test(t, parts);
	tcase_add_test(t, apart);
	tcase_add_test(t, impossible);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
