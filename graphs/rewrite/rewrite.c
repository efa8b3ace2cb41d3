/* Which rewrites a graph has room for, and the graph that they make.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/rewrite.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "ff/nearest.h"
#include "products.h"

#define MAX_NAME 256

/* A row a rule.  Nodes of one rewrite read the same value. */
static const struct rule {
	const char *name;
	bool (*takes)(const struct ff_graph *g, uint32_t i);
	bool (*alike)(const struct ff_graph *g, uint32_t i, uint32_t k);
	int (*make)(struct ff_rewriting *r, const char *name, const uint32_t *node, uint32_t n);
} rules[] = {
		{"merge_products", ff_product_merges, ff_products_alike, ff_products_merge},
};
#define N_RULES (sizeof(rules) / sizeof(rules[0]))

/* One that is done: its nodes in the order in which their parameters lie. */
struct merge {
	const struct rule *rule;
	const char *text;
	uint32_t n, node[FF_MAX_MERGED];
};

/* ---- what parameters were ---- */

uint32_t ff_parameter_pieces(const struct ff_graph *g, uint32_t node)
{
	return g->rewritten && g->rewritten->n_pieces[node] ? g->rewritten->n_pieces[node] : 1;
}

struct ff_parameter_piece ff_parameter_piece(const struct ff_graph *g, uint32_t node, uint32_t k)
{
	if (g->rewritten && g->rewritten->n_pieces[node])
		return g->rewritten->piece[node][k];
	return (struct ff_parameter_piece){g->nodes[node].name, ff_node_stream(g, node), 0,
			g->values[g->nodes[node].out].shape[0]};
}

/* ---- what can be done ---- */

/* Node `i` and those behind it that it may be one with. */
static void collect(const struct ff_graph *g, const struct rule *rule, uint32_t i,
		const uint8_t *taken, struct merge *ret)
{
	const struct ff_value *v = &g->values[g->edges[g->nodes[i].in].value];

	*ret = (struct merge){.rule = rule, .n = 1, .node = {i}};
	for (uint32_t u = 0; u < v->n_uses && ret->n < FF_MAX_MERGED; u++) {
		uint32_t k = ff_value_reader(g, v, u);

		if (k > i && !taken[k] && rule->takes(g, k) && rule->alike(g, i, k))
			ret->node[ret->n++] = k;
	}
}

static const char *text_of(const struct ff_graph *g, const struct merge *m, struct ff_arena *a)
{
	const char *text = ff_arena_printf(a, "%s:%s", m->rule->name, g->nodes[m->node[0]].name);

	for (uint32_t k = 1; k < m->n && text; k++)
		text = ff_arena_printf(a, "%s+%s", text, g->nodes[m->node[k]].name);
	return text;
}

/* Equal for equal layers: operators, attributes and the shape of what they read. */
static uint64_t class_of(const struct ff_graph *g, const struct merge *m)
{
	const struct ff_value *v = &g->values[g->edges[g->nodes[m->node[0]].in].value];
	uint64_t hash = ff_fnv1a(v->shape, v->rank * sizeof(v->shape[0]));

	for (uint32_t k = 0; k < m->n; k++) {
		const struct ff_node *n = &g->nodes[m->node[k]];

		hash = ff_hash_mix(hash, (uint64_t)n->op);
		hash = ff_hash_mix(hash, ff_fnv1a(&n->attrs, sizeof(n->attrs)));
	}
	return hash;
}

static uint32_t number_class(uint64_t *seen, uint32_t *n, uint64_t class)
{
	uint32_t i = 0;

	while (i < *n && seen[i] != class)
		i++;
	if (i == *n)
		seen[(*n)++] = class;
	return i;
}

static void take(const struct merge *m, uint8_t *taken)
{
	for (uint32_t k = 0; k < m->n; k++)
		taken[m->node[k]] = 1;
}

int ff_rewrites_find(const struct ff_graph *g, struct ff_arena *a, struct ff_rewrite **ret,
		uint32_t *n, uint32_t *n_classes, struct ff_error *err)
{
	uint8_t *taken = ff_arena_array(a, g->n_nodes, sizeof(*taken));
	struct ff_rewrite *found = ff_arena_array(a, g->n_nodes, sizeof(*found));
	uint64_t *seen = ff_arena_array(a, g->n_nodes, sizeof(*seen));
	uint32_t classes = 0, count = 0;

	if (!taken || !found || !seen)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < N_RULES * g->n_nodes; i++) {
		const struct rule *rule = &rules[i / g->n_nodes];
		uint32_t node = i % g->n_nodes;
		struct merge m;

		if (taken[node] || !rule->takes(g, node))
			continue;
		collect(g, rule, node, taken, &m);
		if (m.n < 2)
			continue;
		take(&m, taken);
		found[count] = (struct ff_rewrite){text_of(g, &m, a), g->nodes[node].name,
				number_class(seen, &classes, class_of(g, &m))};
		if (!found[count++].text)
			return ff_fail_memory(err);
	}
	*ret = found;
	*n = count;
	*n_classes = classes;
	return FF_OK;
}

/* ---- reading one ---- */

static int read_node(const struct ff_graph *g, const char *text, const char *name, size_t len,
		struct merge *m, struct ff_error *err)
{
	char word[MAX_NAME];
	uint32_t i;

	snprintf(word, sizeof(word), "%.*s", (int)len, name);
	i = ff_graph_find(g, word);
	if (i == FF_NONE)
		return ff_fail(err, FF_E_INPUT, "rewrite \"%.200s\": graph %s has no node \"%s\"",
				text, g->name, word);
	if (m->n == FF_MAX_MERGED)
		return ff_fail(err, FF_E_INPUT, "rewrite \"%.200s\": expected at most %d nodes",
				text, FF_MAX_MERGED);
	if (!m->rule->takes(g, i) || (m->n && !m->rule->alike(g, m->node[0], i)))
		return ff_fail(err, FF_E_INPUT,
				"rewrite \"%.200s\": %s cannot be part of it: expected products of "
				"one value, alike but for their number of features, whose "
				"parameters no other node reads",
				text, word);
	m->node[m->n++] = i;
	return FF_OK;
}

static int read_merge(
		const struct ff_graph *g, const char *text, struct merge *ret, struct ff_error *err)
{
	const char *colon = strchr(text, ':'), *at;
	struct merge m = {.text = text};
	int code = FF_OK;

	for (size_t i = 0; colon && i < N_RULES; i++)
		if (strlen(rules[i].name) == (size_t)(colon - text) &&
				!strncmp(text, rules[i].name, (size_t)(colon - text)))
			m.rule = &rules[i];
	if (!m.rule)
		return ff_fail(err, FF_E_INPUT,
				"rewrite \"%.200s\": expected merge_products:NODE+NODE...", text);
	for (at = colon + 1; at && code == FF_OK;) {
		const char *plus = strchr(at, '+');

		code = read_node(g, text, at, plus ? (size_t)(plus - at) : strlen(at), &m, err);
		at = plus ? plus + 1 : NULL;
	}
	if (code == FF_OK && m.n < 2)
		return ff_fail(err, FF_E_INPUT, "rewrite \"%.200s\": expected at least two nodes",
				text);
	*ret = m;
	return code;
}

/* ---- doing them ---- */

/* Copies a node with the names that its parameters have. */
static int copy_node(struct ff_rewriting *r, uint32_t i, struct ff_error *err)
{
	const struct ff_node *n = &r->g->nodes[i];
	uint32_t *in = ff_arena_array(r->a, n->n_in + 1, sizeof(*in)), made;
	const char *params[FF_MAX_PARAMS] = {NULL};

	if (!in)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < ff_node_inputs(n); k++)
		in[k] = r->made[r->g->edges[n->in + k].value];
	for (uint32_t k = n->n_data; k < n->n_in; k++)
		params[k - n->n_data] = r->g->nodes[ff_edge_source(r->g, n->in + k)].name;
	made = ff_builder_add_tied(r->b, n->op, n->name, &n->attrs, in, ff_node_inputs(n), params);
	for (uint32_t k = 0; k < ff_node_outputs(n); k++)
		r->made[n->out + k] = FF_PORT(made, k);
	return FF_OK;
}

static uint32_t first_of(const struct merge *m)
{
	uint32_t first = m->node[0];

	for (uint32_t k = 1; k < m->n; k++)
		first = m->node[k] < first ? m->node[k] : first;
	return first;
}

static const char *merged_name(const struct ff_graph *g, const struct merge *m, struct ff_arena *a)
{
	return ff_arena_printf(a, "%s.merged", g->nodes[m->node[0]].name);
}

/* Nodes in their order; a rewrite stands where its first node stood, so behind what all read and
 * before who reads any. */
static int copy_nodes(struct ff_rewriting *r, const struct merge *merge, const uint32_t *merge_of,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < r->g->n_nodes && code == FF_OK; i++) {
		const struct merge *m = merge_of[i] == FF_NONE ? NULL : &merge[merge_of[i]];

		if (ff_op_flags_of(r->g, i) & (FF_OP_UPDATE | FF_OP_PRELUDE))
			continue; /* those that read it make it */
		if (!m) {
			code = copy_node(r, i, err);
		} else if (first_of(m) == i) {
			const char *name = merged_name(r->g, m, r->a);

			if (!name || m->rule->make(r, name, m->node, m->n) < 0)
				return ff_fail_memory(err);
		}
	}
	return code;
}

/* Every parameter of the merged node holds those of its nodes. */
static int note_pieces(const struct ff_graph *g, const struct merge *m, const struct ff_graph *made,
		uint32_t *n_pieces, const struct ff_parameter_piece **piece, struct ff_arena *a)
{
	const char *name = merged_name(g, m, a);
	const struct ff_node *n;

	if (!name)
		return FF_E_NOMEM;
	n = &made->nodes[ff_graph_find(made, name)];
	for (uint32_t slot = n->n_data; slot < n->n_in; slot++) {
		struct ff_parameter_piece *p = ff_arena_array(a, m->n, sizeof(*p));
		uint32_t holder = ff_edge_source(made, n->in + slot);
		int32_t row = 0;

		if (!p)
			return FF_E_NOMEM;
		for (uint32_t k = 0; k < m->n; k++) {
			uint32_t old = ff_edge_source(g, g->nodes[m->node[k]].in + slot);
			int32_t rows = g->values[g->nodes[old].out].shape[0];

			p[k] = (struct ff_parameter_piece){g->nodes[old].name, old, row, rows};
			row += rows;
		}
		n_pieces[holder] = m->n;
		piece[holder] = p;
	}
	return FF_OK;
}

static int note(const struct ff_graph *g, const struct merge *merge, uint32_t n, struct ff_arena *a,
		struct ff_graph *made, struct ff_error *err)
{
	struct ff_rewritten *w = ff_arena_alloc(a, sizeof(*w));
	uint32_t *stream = ff_arena_array(a, made->n_nodes, sizeof(*stream));
	uint32_t *n_pieces = ff_arena_array(a, made->n_nodes, sizeof(*n_pieces));
	const struct ff_parameter_piece **piece = ff_arena_array(a, made->n_nodes, sizeof(*piece));
	const char **text = ff_arena_array(a, n, sizeof(*text));

	if (!w || !stream || !n_pieces || !piece || !text)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < made->n_nodes; i++) {
		uint32_t old = ff_graph_find(g, made->nodes[i].name);

		stream[i] = old == FF_NONE ? g->n_nodes + i : old;
	}
	for (uint32_t i = 0; i < n; i++) {
		text[i] = ff_arena_strdup(a, merge[i].text);
		if (!text[i] || note_pieces(g, &merge[i], made, n_pieces, piece, a) < 0)
			return ff_fail_memory(err);
	}
	*w = (struct ff_rewritten){n, text, stream, n_pieces, piece};
	made->rewritten = w;
	made->hash = g->hash;
	return FF_OK;
}

static int build(const struct ff_graph *g, const struct merge *merge, const uint32_t *merge_of,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	struct ff_rewriting r = {.g = g, .a = a};
	int code = ff_builder_create(g->name, a, &r.b, err);

	if (code < 0)
		return code;
	r.made = ff_arena_array(a, g->n_values, sizeof(*r.made));
	if (!r.made)
		return ff_fail_memory(err);
	ff_builder_set_dtype(r.b, g->dtype);
	code = copy_nodes(&r, merge, merge_of, err);
	return code < 0 ? code : ff_builder_finish(r.b, ret, err);
}

/* Reads all; of each node which it belongs to, or FF_NONE. */
static int read_all(const struct ff_graph *g, const char *const *text, uint32_t n,
		struct merge *merge, uint32_t *merge_of, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		merge_of[i] = FF_NONE;
	for (uint32_t i = 0; i < n && code == FF_OK; i++) {
		code = read_merge(g, text[i], &merge[i], err);
		for (uint32_t k = 0; code == FF_OK && k < merge[i].n; k++) {
			uint32_t *of = &merge_of[merge[i].node[k]];

			if (*of != FF_NONE)
				code = ff_fail(err, FF_E_INPUT,
						"rewrite \"%.200s\": %s is rewritten twice",
						text[i], g->nodes[merge[i].node[k]].name);
			*of = i;
		}
	}
	return code;
}

int ff_graph_rewrite(const struct ff_graph *g, const char *const *text, uint32_t n,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	struct merge *merge = ff_arena_array(a, n, sizeof(*merge));
	uint32_t *merge_of = ff_arena_array(a, g->n_nodes, sizeof(*merge_of));
	struct ff_graph made;
	int code = merge && merge_of ? FF_OK : ff_fail_memory(err);

	if (code == FF_OK && !n) {
		*ret = *g;
		return FF_OK;
	}
	if (code == FF_OK && g->rewritten)
		code = ff_fail(err, FF_E_INPUT, "graph %s is rewritten already", g->name);
	if (code == FF_OK)
		code = read_all(g, text, n, merge, merge_of, err);
	if (code == FF_OK)
		code = build(g, merge, merge_of, a, &made, err);
	if (code == FF_OK)
		code = note(g, merge, n, a, &made, err);
	if (code == FF_OK)
		*ret = made;
	return code;
}

/* ---- by patterns ---- */

static int fail_pattern(const struct ff_graph *g, const struct ff_rewrite *found, uint32_t n,
		const char *pattern, struct ff_error *err)
{
	struct ff_nearest near;

	if (!n)
		return ff_fail(err, FF_E_INPUT,
				"\"%.100s\": graph %s has no products that could be merged",
				pattern, g->name);
	ff_nearest_init(&near, pattern);
	for (uint32_t i = 0; i < n; i++)
		ff_nearest_try(&near, found[i].first);
	return ff_fail(err, FF_E_INPUT,
			"\"%.100s\": expected all, none, or a pattern of the first of products "
			"that can be merged%s",
			pattern, ff_nearest_known(&near));
}

int ff_graph_rewrite_matching(const struct ff_graph *g, const char *const *pattern, uint32_t n,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	struct ff_rewrite *found;
	uint32_t n_found, n_classes, chosen = 0;
	const char **text;
	uint8_t *used;
	int code = ff_rewrites_find(g, a, &found, &n_found, &n_classes, err);

	if (code < 0)
		return code;
	text = ff_arena_array(a, n_found, sizeof(*text));
	used = ff_arena_array(a, n, sizeof(*used));
	if (!text || !used)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n_found; i++) {
		bool fits = false;

		for (uint32_t k = 0; k < n; k++)
			if (!strcmp(pattern[k], "all") || !fnmatch(pattern[k], found[i].first, 0))
				used[k] = fits = true;
		if (fits)
			text[chosen++] = found[i].text;
	}
	for (uint32_t k = 0; k < n; k++)
		if (!used[k] && strcmp(pattern[k], "none") != 0)
			return fail_pattern(g, found, n_found, pattern[k], err);
	return ff_graph_rewrite(g, text, chosen, a, ret, err);
}
