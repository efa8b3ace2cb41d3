/* Operator graphs: reading, writing, order, parameters.  Bad input is in
 * test_graph_bad.c, building in code in test_builder.c.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "ff/builder.h"
#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/micro.h"
#include "ff/philox.h"
#include "ff/zoo.h"

/* The canonical text, to be freed. */
static char *text_of(const struct ff_graph *g)
{
	struct ff_out o;
	char *text;

	ff_out_init(&o);
	ff_graph_write(g, &o);
	ck_assert(!o.failed);
	text = strdup(o.text);
	ff_out_finish(&o);
	return text;
}

static void parse(const char *text, struct ff_arena *a, struct ff_graph *g)
{
	struct ff_error err = {0};
	int code = ff_graph_parse("test.json", text, strlen(text), a, g, &err);

	ck_assert_msg(code == FF_OK, "%s", err.text);
}

static const struct ff_value *value_of(const struct ff_graph *g, const char *node)
{
	return &g->values[g->nodes[ff_graph_find(g, node)].out];
}

/* Every cross reference of a finished graph. */
static void check_links(const struct ff_graph *g)
{
	uint32_t edges = 0, uses = 0, values = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		ck_assert_uint_eq(ff_graph_find(g, n->name), i);
		ck_assert_uint_eq(n->out, values);
		ck_assert_uint_gt(n->n_out, n->n_saved);
		for (uint32_t k = 0; k < n->n_out; k++, values++) {
			ck_assert_uint_eq(g->values[values].producer, i);
			ck_assert_uint_eq(g->values[values].port, k);
			ck_assert_int_eq(g->values[values].kind == FF_VALUE_SAVED,
					k + n->n_saved >= n->n_out);
		}
		ck_assert_uint_eq(n->in, edges);
		ck_assert_uint_le(n->n_data, n->n_in);
		for (uint32_t k = 0; k < n->n_in; k++, edges++) {
			ck_assert_uint_eq(g->edges[edges].node, i);
			ck_assert_uint_eq(g->edges[edges].slot, k);
			if (k + n->n_carried < n->n_data || k >= n->n_data)
				ck_assert_uint_lt(ff_edge_source(g, edges), i);
			else /* what it carries from part to part */
				ck_assert_uint_eq(g->edges[edges].value,
						n->out + ff_node_outputs(n) + k + n->n_carried -
								n->n_data);
			/* data first, then parameters */
			ck_assert_int_eq(
					g->values[g->edges[edges].value].kind == FF_VALUE_PARAMETER,
					k >= n->n_data);
		}
	}
	ck_assert_uint_eq(edges, g->n_edges);
	ck_assert_uint_eq(values, g->n_values);
	for (uint32_t t = 0; t < g->n_values; t++) {
		ck_assert_uint_eq(g->values[t].first_use, uses);
		ck_assert(g->values[t].kind != FF_VALUE_SAVED || !g->values[t].n_uses);
		for (uint32_t k = 0; k < g->values[t].n_uses; k++, uses++) {
			ck_assert_uint_eq(g->edges[g->uses[uses]].value, t);
			ck_assert(!k || g->uses[uses] > g->uses[uses - 1]);
		}
	}
	ck_assert_uint_eq(uses, g->n_edges);
	ck_assert_uint_eq(ff_graph_find(g, "no such node"), FF_NONE);
}

static const char every_op[] =
		"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"every\", \"nodes\": ["
		"{\"name\": \"x\", \"op\": \"input\", \"shape\": [4, 4, 9, 9]},"
		"{\"name\": \"y\", \"op\": \"input\", \"shape\": [4], \"dtype\": \"int32\", "
		"\"classes\": 7},"
		"{\"name\": \"c\", \"op\": \"conv2d\", \"in\": [\"x\"], \"out_channels\": 8,"
		" \"kernel\": 3, \"stride\": [2, 1], \"pad\": 1, \"groups\": 2, \"bias\": false},"
		"{\"name\": \"r\", \"op\": \"relu\", \"in\": [\"c\"]},"
		"{\"name\": \"t\", \"op\": \"tanh\", \"in\": [\"c\"]},"
		"{\"name\": \"s\", \"op\": \"sigmoid\", \"in\": [\"t\"]},"
		"{\"name\": \"a\", \"op\": \"add\", \"in\": [\"r\", \"s\", \"s\"]},"
		"{\"name\": \"p\", \"op\": \"pool2d\", \"in\": [\"a\"], \"mode\": \"avg\", "
		"\"kernel\": [2, 3]},"
		"{\"name\": \"k\", \"op\": \"concat\", \"in\": [\"p\", \"p\"], \"axis\": 2},"
		"{\"name\": \"f\", \"op\": \"reshape\", \"in\": [\"k\"], \"shape\": [0, -1]},"
		"{\"name\": \"d\", \"op\": \"dropout\", \"in\": [\"f\"], \"p\": 0.25},"
		"{\"name\": \"l\", \"op\": \"linear\", \"in\": [\"d\"], \"out_features\": 7},"
		"{\"name\": \"z\", \"op\": \"softmax_cross_entropy\", \"in\": [\"l\", \"y\"]}]}";

START_TEST(reads)
{
	struct ff_arena a;
	struct ff_graph g;
	const struct ff_node *c;
	const struct ff_conv_attrs *v;
	static const int32_t pooled[] = {4, 8, 4, 3}; /* 5x9 by 2x3 twice along the height */

	ff_arena_init(&a);
	parse(every_op, &a, &g);
	check_links(&g);
	ck_assert_str_eq(g.name, "every");
	ck_assert_uint_eq(g.n_nodes, 17); /* with c.weight, l.weight, l.bias, z.statistics */
	ck_assert_int_eq(g.batch, 4);
	ck_assert_uint_eq(g.loss[0], 16);
	ck_assert_uint_eq(ff_graph_find(&g, "c.bias"), FF_NONE);
	c = &g.nodes[ff_graph_find(&g, "c")];
	v = &c->attrs.conv;
	ck_assert_int_eq(v->kernel[1], 3);
	ck_assert_int_eq(v->stride[0], 2);
	ck_assert_int_eq(v->stride[1], 1);
	ck_assert_int_eq(v->dilation[1], 1);
	ck_assert_int_eq(v->bias, 0);
	ck_assert_int_eq(g.nodes[ff_graph_find(&g, "p")].attrs.pool.stride[1], 3);
	ck_assert_double_eq(g.nodes[ff_graph_find(&g, "d")].attrs.dropout.p, 0.25);
	ck_assert_mem_eq(value_of(&g, "k")->shape, pooled, sizeof(pooled));
	ck_assert(!value_of(&g, "x")->needs_grad);
	ck_assert(!value_of(&g, "y")->needs_grad);
	ck_assert(value_of(&g, "s")->needs_grad);
	ck_assert_int_eq(value_of(&g, "x")->kind, FF_VALUE_INPUT);
	ck_assert_int_eq(value_of(&g, "s")->kind, FF_VALUE_ACTIVATION);
	ck_assert_int_eq(value_of(&g, "l.bias")->kind, FF_VALUE_PARAMETER);
	ck_assert_int_eq(ff_graph_parameters(&g), 8 * 2 * 9 + 96 * 7 + 7);
	ff_arena_finish(&a);
}
END_TEST

/* FNV-1a written out once more, over what the writer says. */
static uint64_t hash_of(const char *text)
{
	uint64_t h = 14695981039346656037u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211u;
	return h;
}

/* Lists lie in their graph's memory; of them the texts are compared. */
static bool has_lists(const struct ff_node *n)
{
	const struct ff_op_row *row = ff_op_row(n->op);

	for (uint32_t i = 0; i < row->n_attrs; i++)
		if (row->attrs[i].type == FF_ATTR_LIST)
			return true;
	return false;
}

static void check_attrs(const struct ff_node *x, const struct ff_node *y)
{
	ck_assert_uint_eq(x->op, y->op);
	if (!has_lists(x))
		ck_assert_mem_eq(&x->attrs, &y->attrs, sizeof(x->attrs));
}

static void check_round_trip(const struct ff_graph *g)
{
	struct ff_arena a;
	struct ff_graph again;
	char *text = text_of(g);
	char *second;

	ff_arena_init(&a);
	parse(text, &a, &again);
	second = text_of(&again);
	ck_assert_str_eq(text, second);
	ck_assert_uint_eq(g->hash, again.hash);
	ck_assert_uint_eq(g->hash, hash_of(text));
	check_links(&again);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *x = &g->nodes[i], *y = &again.nodes[i];

		check_attrs(x, y);
		ck_assert_mem_eq(x->out_map, y->out_map, x->n_out * sizeof(*x->out_map));
		ck_assert_int_eq(x->flops_forward, y->flops_forward);
		ck_assert_int_eq(x->flops_backward, y->flops_backward);
	}
	free(text);
	free(second);
	ff_arena_finish(&a);
}

START_TEST(round_trip)
{
	const struct ff_zoo_row *row;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_error err;
	uint64_t hash;

	ff_arena_init(&a);
	parse(every_op, &a, &g);
	check_round_trip(&g);
	hash = g.hash;
	for (uint32_t i = 0; (row = ff_zoo_row(i)); i++) {
		ck_assert_int_eq(ff_zoo_build(row->name, 0, NULL, 0, &a, &g, &err), FF_OK);
		check_round_trip(&g);
		ck_assert_uint_ne(g.hash, hash);
		hash = g.hash;
	}
	ff_arena_finish(&a);
}
END_TEST

START_TEST(loads)
{
	struct ff_arena a;
	struct ff_graph g, h;
	struct ff_error err;
	struct ff_out o;
	char path[] = "/tmp/ff_test_graph_XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	ff_arena_init(&a);
	parse(every_op, &a, &g);
	ff_out_init(&o);
	ff_graph_write(&g, &o);
	ck_assert_int_eq(ff_out_save(&o, path, &err), FF_OK);
	ff_out_finish(&o);
	ck_assert_int_eq(ff_graph_load(path, &a, &h, &err), FF_OK);
	ck_assert_uint_eq(g.hash, h.hash);
	remove(path);
	ck_assert_int_eq(ff_graph_load(path, &a, &h, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, path));
	ff_arena_finish(&a);
}
END_TEST

/* ---- order ---- */

#define NODE_BEGIN "\n    {\n"
#define NODE_END "\n    }"

/* Cuts a canonical text into its nodes, shuffles them and joins them again. */
static char *shuffle(const char *text, struct ff_random *r)
{
	const char *node[256];
	size_t len[256], n = 0;
	const char *head = strstr(text, NODE_BEGIN), *tail = head;
	struct ff_out o;

	ck_assert_ptr_nonnull(head);
	for (const char *at = head; at; at = strstr(tail, NODE_BEGIN)) {
		ck_assert_uint_lt(n, 256);
		tail = strstr(at, NODE_END) + strlen(NODE_END);
		node[n] = at;
		len[n++] = (size_t)(tail - at);
	}
	ff_out_init(&o);
	ff_out_printf(&o, "%.*s", (int)(head - text), text);
	for (size_t left = n; left; left--) {
		size_t k = ff_random_below(r, (uint32_t)left);

		ff_out_printf(&o, "%.*s%s", (int)len[k], node[k], left > 1 ? "," : "");
		node[k] = node[left - 1];
		len[k] = len[left - 1];
	}
	ff_out_printf(&o, "%s", tail);
	ck_assert(!o.failed);
	return o.text;
}

/* The same nodes, whatever their numbers. */
static void check_same(const struct ff_graph *g, const struct ff_graph *h)
{
	ck_assert_uint_eq(g->n_nodes, h->n_nodes);
	ck_assert_uint_eq(g->n_edges, h->n_edges);
	ck_assert_int_eq(ff_graph_parameters(g), ff_graph_parameters(h));
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t j = ff_graph_find(h, g->nodes[i].name);
		const struct ff_node *x, *y;

		ck_assert_uint_ne(j, FF_NONE);
		x = &g->nodes[i];
		y = &h->nodes[j];
		ck_assert_uint_eq(x->op, y->op);
		check_attrs(x, y);
		ck_assert_uint_eq(x->n_out, y->n_out);
		ck_assert_mem_eq(g->values[x->out].shape, h->values[y->out].shape,
				sizeof(g->values[x->out].shape));
		ck_assert_uint_eq(x->n_in, y->n_in);
		for (uint32_t k = 0; k < x->n_in; k++)
			ck_assert_str_eq(g->nodes[ff_edge_source(g, x->in + k)].name,
					h->nodes[ff_edge_source(h, y->in + k)].name);
	}
}

START_TEST(any_order)
{
	struct ff_random r = {.seed = ff_test_seed(8), .stream = 1};
	struct ff_arena a;
	struct ff_graph g, h;
	struct ff_error err;
	char *text;

	ff_arena_init(&a);
	ck_assert_int_eq(ff_zoo_build("branchnet", 4, NULL, 0, &a, &g, &err), FF_OK);
	text = text_of(&g);
	for (int i = 0; i < 50; i++) {
		char *shuffled = shuffle(text, &r);

		parse(shuffled, &a, &h);
		check_links(&h);
		check_same(&g, &h);
		check_round_trip(&h);
		free(shuffled);
	}
	free(text);
	ff_arena_finish(&a);
}
END_TEST

#define CHAIN 100000

/* The longest path first: sorting must neither recurse nor be quadratic. */
START_TEST(long_chain)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_error err = {0};
	struct ff_out o;
	double start;
	int code;

	ff_arena_init(&a);
	ff_out_init(&o);
	ff_out_printf(&o,
			"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"chain\",\"nodes\":["
			"{\"name\":\"loss\",\"op\":\"softmax_cross_entropy\",\"in\":[\"n%d\",\"y\"]"
			"},",
			CHAIN);
	for (int i = CHAIN; i > 0; i--)
		ff_out_printf(&o, "{\"name\":\"n%d\",\"op\":\"relu\",\"in\":[\"n%d\"]},", i, i - 1);
	ff_out_printf(&o, "{\"name\":\"n0\",\"op\":\"linear\",\"in\":[\"x\"],\"out_features\":2},"
			  "{\"name\":\"x\",\"op\":\"input\",\"shape\":[2,3]},"
			  "{\"name\":\"y\",\"op\":\"input\",\"shape\":[2],\"dtype\":\"int32\","
			  "\"classes\":2}]}");
	start = ff_clock_us();
	code = ff_graph_parse("chain.json", o.text, o.len, &a, &g, &err);
	printf("# %d nodes parsed in %.0f ms\n", CHAIN, (ff_clock_us() - start) / 1000);
	ck_assert_msg(code == FF_OK, "%s", err.text);
	ck_assert_uint_eq(g.n_nodes, CHAIN + 7); /* and n0.weight, n0.bias, loss.statistics */
	check_links(&g);
	ff_out_finish(&o);
	ff_arena_finish(&a);
}
END_TEST

/* What a graph computes in is what its activations and parameters are; gradients of
 * parameters and the loss are float32. */
START_TEST(computes_in_bfloat16)
{
	struct ff_graph g, plain, micro;
	struct ff_error err;
	struct ff_arena a;

	ff_arena_init(&a);
	ck_assert_int_eq(ff_zoo_build("lenet", 8, NULL, 0, &a, &plain, &err), FF_OK);
	ck_assert_int_eq(ff_zoo_build("lenet", 8, (const char *const[]){"dtype=bfloat16"}, 1, &a,
					 &g, &err),
			FF_OK);
	ck_assert(g.hash != plain.hash);
	ck_assert_int_eq(ff_graph_micro(&g, 2, &a, &micro, &err), FF_OK);
	for (int k = 0; k < 2; k++) {
		const struct ff_graph *of = k ? &micro : &g;

		ck_assert_int_eq(of->dtype, FF_BF16);
		for (uint32_t i = 0; i < of->n_nodes; i++) {
			const struct ff_operand *o = &of->nodes[i].out_map[0];
			bool param = ff_node_is_parameter(of, i);
			bool whole = of->values[of->nodes[i].out].dtype == FF_I32;
			bool sums = ff_node_is_loss(of, i) || ff_node_is_prelude(of, i);

			ck_assert_int_eq(o->dtype, whole ? FF_I32 : sums ? FF_F32 : FF_BF16);
			ck_assert_int_eq(o->gradient, param ? FF_F32 : o->dtype);
		}
	}
	ff_arena_finish(&a);
}
END_TEST

/* ---- parameters ---- */

/* Two layers of one shape, `more` members of the second, and the loss. */
#define LAYERS(more)                                                                               \
	"{\"format\":\"ffsoap-graph\",\"version\":2,\"name\":\"tied\",\"nodes\":["                 \
	"{\"name\":\"x\",\"op\":\"input\",\"shape\":[4,7]},"                                       \
	"{\"name\":\"y\",\"op\":\"input\",\"shape\":[4],\"dtype\":\"int32\",\"classes\":7},"       \
	"{\"name\":\"a\",\"op\":\"linear\",\"in\":[\"x\"],\"out_features\":7},"                    \
	"{\"name\":\"b\",\"op\":\"linear\",\"in\":[\"a\"]," more "},"                              \
	"{\"name\":\"z\",\"op\":\"softmax_cross_entropy\",\"in\":[\"b\",\"y\"]}]}"

START_TEST(own_parameters)
{
	struct ff_arena a;
	struct ff_graph g;

	ff_arena_init(&a);
	parse(LAYERS("\"out_features\":7"), &a, &g);
	check_links(&g);
	ck_assert_uint_eq(g.n_nodes, 10);
	ck_assert_int_eq(ff_graph_parameters(&g), 2 * (49 + 7));
	for (uint32_t i = 0; i < g.n_nodes; i++) {
		const struct ff_value *v = &g.values[g.nodes[i].out];

		ck_assert(ff_node_is_computed(&g, i) + ff_node_is_source(&g, i) +
						ff_node_is_parameter(&g, i) ==
				1);
		if (ff_node_is_parameter(&g, i))
			ck_assert_uint_eq(v->n_uses, 1);
	}
	check_round_trip(&g);
	ff_arena_finish(&a);
}
END_TEST

/* One parameter, read by both: made once, counted once, its gradient has two uses. */
START_TEST(tied_parameters)
{
	static const char text[] =
			LAYERS("\"out_features\":7,\"params\":{\"weight\":\"a.weight\"}");
	const struct ff_value *weight;
	struct ff_graph g, own;
	struct ff_arena a;
	char *written;

	ff_arena_init(&a);
	parse(LAYERS("\"out_features\":7"), &a, &own);
	parse(text, &a, &g);
	check_links(&g);
	ck_assert_uint_eq(g.n_nodes, 9);
	ck_assert_int_eq(ff_graph_parameters(&g), 49 + 2 * 7);
	ck_assert_uint_eq(ff_graph_find(&g, "b.weight"), FF_NONE);
	weight = value_of(&g, "a.weight");
	ck_assert_uint_eq(weight->n_uses, 2);
	for (uint32_t u = 0; u < 2; u++) {
		const struct ff_edge *e = &g.edges[ff_value_use(&g, weight, u)];

		ck_assert_str_eq(g.nodes[e->node].name, u ? "b" : "a");
		ck_assert_uint_eq(e->slot, 1);
	}
	ck_assert_uint_ne(g.hash, own.hash);
	check_round_trip(&g);
	written = text_of(&g);
	ck_assert_ptr_nonnull(strstr(written, "\"params\": {"));
	ck_assert_ptr_nonnull(strstr(written, "\"weight\": \"a.weight\""));
	ck_assert_ptr_null(strstr(written, "bias\": \""));
	free(written);
	ff_arena_finish(&a);
}
END_TEST

/* A parameter may have a name that is no node's; naming one's own says nothing. */
START_TEST(named_parameters)
{
	struct ff_graph g, h;
	struct ff_arena a;

	ff_arena_init(&a);
	parse(LAYERS("\"out_features\":7,\"params\":{\"bias\":\"shared/b\",\"weight\":\"w.0\"}"),
			&a, &g);
	check_links(&g);
	ck_assert_uint_eq(ff_graph_find(&g, "b.weight"), FF_NONE);
	ck_assert_int_eq(value_of(&g, "w.0")->kind, FF_VALUE_PARAMETER);
	ck_assert_int_eq(value_of(&g, "shared/b")->shape[0], 7);
	check_round_trip(&g);
	parse(LAYERS("\"out_features\":7"), &a, &g);
	parse(LAYERS("\"out_features\":7,\"params\":{\"weight\":\"b.weight\"}"), &a, &h);
	ck_assert_uint_eq(g.hash, h.hash);
	ff_arena_finish(&a);
}
END_TEST

/* Whoever comes first in the file makes what both read. */
START_TEST(tied_in_any_order)
{
	struct ff_random r = {.seed = ff_test_seed(9), .stream = 1};
	struct ff_graph g, h;
	struct ff_arena a;
	char *text;

	ff_arena_init(&a);
	parse(LAYERS("\"out_features\":7,\"params\":{\"weight\":\"a.weight\",\"bias\":\"a.bias\"}"),
			&a, &g);
	text = text_of(&g);
	for (int i = 0; i < 50; i++) {
		char *shuffled = shuffle(text, &r);

		parse(shuffled, &a, &h);
		check_links(&h);
		check_same(&g, &h);
		check_round_trip(&h);
		free(shuffled);
	}
	free(text);
	ff_arena_finish(&a);
}
END_TEST

/* The same in code; what the builder is asked to tie it ties. */
START_TEST(built_tied)
{
	static const char *const tied[2] = {"a.weight", NULL};
	union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x, fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_graph g, parsed;
	struct ff_builder *b;
	struct ff_error err = {0};
	struct ff_arena a;
	uint32_t in[2];

	ff_arena_init(&a);
	ck_assert_int_eq(ff_builder_create("tied", &a, &b, &err), FF_OK);
	x.input = (struct ff_input_attrs){.rank = 2, .shape = {4, 7}};
	y.input = (struct ff_input_attrs){.rank = 1, .shape = {4}, .dtype = FF_I32, .classes = 7};
	fc.linear.out_features = 7;
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "a", &fc, in, 1);
	in[0] = ff_builder_add_tied(
			b, FF_OP_LINEAR, "b", &fc, (uint32_t[]){FF_PORT(in[0], 0)}, 1, tied);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "z", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, &g, &err) == FF_OK, "%s", err.text);
	check_links(&g);
	check_round_trip(&g);
	parse(LAYERS("\"out_features\":7,\"params\":{\"weight\":\"a.weight\"}"), &a, &parsed);
	ck_assert_uint_eq(g.hash, parsed.hash);
	ff_arena_finish(&a);
}
END_TEST

/* Whatever allocation fails, the sentence says so and nothing leaks. */
START_TEST(no_memory)
{
	struct ff_arena a;
	struct ff_graph g;
	int failures = 0;

	for (size_t limit = 1;; limit += 2048) {
		struct ff_error err = {0};
		int code;

		ff_arena_init(&a);
		a.limit = limit;
		code = ff_graph_parse("test.json", every_op, strlen(every_op), &a, &g, &err);
		ff_arena_finish(&a);
		if (code == FF_OK)
			break;
		ck_assert_int_eq(code, FF_E_NOMEM);
		ck_assert_int_eq(err.code, FF_E_NOMEM);
		failures++;
	}
	ck_assert_int_gt(failures, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("graph");
	TCase *c = tcase_create("graph");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, reads);
	tcase_add_test(c, round_trip);
	tcase_add_test(c, loads);
	tcase_add_test(c, any_order);
	tcase_add_test(c, long_chain);
	tcase_add_test(c, computes_in_bfloat16);
	tcase_add_test(c, own_parameters);
	tcase_add_test(c, tied_parameters);
	tcase_add_test(c, named_parameters);
	tcase_add_test(c, tied_in_any_order);
	tcase_add_test(c, built_tied);
	tcase_add_test(c, no_memory);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
