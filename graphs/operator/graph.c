/* Operator graphs in JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "attrs.h"
#include "base/names.h"
#include "builder.h"
#include "derive.h"

#define MAX_ATTRS 16

/* A node as it stands in the file. */
struct entry {
	const struct ff_json *json, *in;
	const char *name;
	enum ff_op op;
	const struct ff_op_row *row;
	union ff_attrs attrs;
	uint32_t first, n_in; /* slice of inputs */
	uint32_t next;        /* while sorting: the input to look at */
	enum { UNSEEN, OPEN, PLACED } state;
	uint32_t index; /* in the graph, once placed */
};

struct parse {
	struct entry *entry;
	uint32_t n;
	uint32_t *inputs; /* entries, all lists one behind the other */
	struct ff_names names;
	struct ff_arena *scratch;
	struct ff_error *err;
};

static int check_keys(const struct entry *e, struct ff_error *err)
{
	const char *keys[MAX_ATTRS + 4] = {"name", "op", "in"};
	for (uint32_t i = 0; i < e->row->n_attrs && i < MAX_ATTRS; i++)
		keys[3 + i] = e->row->attrs[i].name;
	return ff_json_only(e->json, keys, err);
}

static int read_entry(struct parse *p, uint32_t i, const struct ff_json *json)
{
	struct entry *e = &p->entry[i];
	const char *op = NULL;
	e->json = json;
	if (json->type != FF_JSON_OBJECT)
		return ff_json_fail(json, p->err, "expected an object, a node");
	int code = ff_json_string(json, "name", &e->name, p->err);
	if (code == FF_OK)
		code = ff_json_string(json, "op", &op, p->err);
	if (code < 0)
		return code;
	e->row = ff_op_find(op, &e->op);
	if (!e->row)
		return ff_json_fail(ff_json_get(json, "op"), p->err,
				"there is no operator \"%.100s\"", op);
	code = check_keys(e, p->err);
	if (code == FF_OK)
		code = ff_attrs_read(e->row, json, &e->attrs, p->err);
	if (code < 0)
		return code;
	e->in = ff_json_get(json, "in");
	if (!e->in && e->row->min_in)
		return ff_json_fail(json, p->err, "%s needs \"in\", the names of its inputs", op);
	if (e->in && e->in->type != FF_JSON_ARRAY)
		return ff_json_fail(e->in, p->err, "expected an array of node names");
	e->n_in = e->in ? e->in->n : 0;
	uint32_t other = ff_names_find(&p->names, e->name);
	if (other != FF_NONE)
		return ff_json_fail(ff_json_get(json, "name"), p->err,
				"the name \"%.200s\" is taken by nodes[%u]", e->name, other);
	return ff_names_put(&p->names, e->name, i) < 0 ? ff_fail_memory(p->err) : FF_OK;
}

static int read_entries(struct parse *p, const struct ff_json *nodes)
{
	if (nodes->n > FF_MAX_NODES)
		return ff_json_fail(nodes, p->err, "a graph has at most %d nodes", FF_MAX_NODES);
	p->n = nodes->n;
	p->entry = ff_arena_array(p->scratch, p->n, sizeof(p->entry[0]));
	if (!p->entry)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < p->n; i++) {
		int code = read_entry(p, i, &nodes->child[i]);
		if (code < 0)
			return code;
	}
	return FF_OK;
}

/* Turns input names into entries. */
static int resolve(struct parse *p)
{
	size_t total = 0, at = 0;
	for (uint32_t i = 0; i < p->n; i++)
		total += p->entry[i].n_in;
	p->inputs = ff_arena_array(p->scratch, total, sizeof(p->inputs[0]));
	if (!p->inputs)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entry[i];
		e->first = (uint32_t)at;
		for (uint32_t k = 0; k < e->n_in; k++) {
			const struct ff_json *name = &e->in->child[k];
			if (name->type != FF_JSON_STRING)
				return ff_json_fail(name, p->err, "expected the name of a node");
			uint32_t source = ff_names_find(&p->names, name->text);
			if (source == FF_NONE)
				return ff_json_fail(name, p->err, "there is no node \"%.200s\"",
						name->text);
			p->inputs[at++] = source;
		}
	}
	return FF_OK;
}

static int add_entry(struct parse *p, struct ff_builder *b, struct entry *e, uint32_t *room)
{
	for (uint32_t k = 0; k < e->n_in; k++)
		room[k] = p->entry[p->inputs[e->first + k]].index;
	e->index = ff_builder_add_at(b, e->op, e->name, &e->attrs, room, e->n_in, e->json);
	e->state = PLACED;
	return e->index == FF_NONE ? FF_E_INPUT : FF_OK;
}

/* Adds the nodes in the order of the file, each behind its inputs: a walk in
 * depth, without recursion because chains may be long.  Returns FF_E_INPUT
 * with the sentence, or leaves it to ff_builder_finish. */
static int add_sorted(struct parse *p, struct ff_builder *b)
{
	uint32_t *stack = ff_arena_array(p->scratch, p->n, sizeof(*stack)), most = 0;
	for (uint32_t i = 0; i < p->n; i++)
		most = p->entry[i].n_in > most ? p->entry[i].n_in : most;
	uint32_t *room = ff_arena_array(p->scratch, most, sizeof(*room));
	if (!stack || !room)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t depth = 0;
		if (p->entry[i].state == UNSEEN)
			stack[depth++] = i;
		while (depth) {
			struct entry *e = &p->entry[stack[depth - 1]];
			e->state = OPEN;
			if (e->next == e->n_in) {
				if (add_entry(p, b, e, room) < 0)
					return FF_OK;
				depth--;
				continue;
			}
			uint32_t source = p->inputs[e->first + e->next++];
			if (p->entry[source].state == OPEN)
				return ff_json_fail(&e->in->child[e->next - 1], p->err,
						"\"%.200s\" is part of a cycle: it needs its own "
						"output",
						p->entry[source].name);
			if (p->entry[source].state == UNSEEN)
				stack[depth++] = source;
		}
	}
	return FF_OK;
}

static int parse_root(const struct ff_json *root, struct ff_arena *scratch, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "name", "nodes", NULL};
	struct parse p = {.scratch = scratch, .err = err};
	const struct ff_json *nodes = NULL;
	const char *name = NULL;
	struct ff_builder *b;
	ff_names_init(&p.names, scratch);
	int code = ff_json_format(root, "ffsoap-graph", 1, err);
	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = ff_json_string(root, "name", &name, err);
	if (code == FF_OK)
		code = ff_json_need(root, "nodes", FF_JSON_ARRAY, &nodes, err);
	if (code == FF_OK)
		code = read_entries(&p, nodes);
	if (code == FF_OK)
		code = resolve(&p);
	if (code < 0)
		return code;
	struct ff_error named;
	code = ff_builder_create(name, a, &b, &named);
	if (code < 0)
		return code == FF_E_INPUT ? ff_json_fail(ff_json_get(root, "name"), err, "%s",
							    named.text)
					  : ff_fail_memory(err);
	ff_builder_set_place(b, root);
	code = add_sorted(&p, b);
	return code < 0 ? code : ff_builder_finish(b, ret, err);
}

int ff_graph_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	ff_arena_init(&scratch);
	int code = ff_json_parse(file, text, len, &scratch, &root, err);
	if (code == FF_OK)
		code = parse_root(root, &scratch, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

int ff_graph_load(const char *path, struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	ff_arena_init(&scratch);
	int code = ff_json_load(path, &scratch, &root, err);
	if (code == FF_OK)
		code = parse_root(root, &scratch, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

void ff_graph_write(const struct ff_graph *g, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-graph");
	ff_out_int(o, "version", 1);
	ff_out_string(o, "name", g->name);
	ff_out_array(o, "nodes");
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		const struct ff_op_row *row = ff_op_row(n->op);
		ff_out_object(o, NULL);
		ff_out_string(o, "name", n->name);
		ff_out_string(o, "op", row->name);
		if (row->max_in) {
			ff_out_array(o, "in");
			for (uint32_t k = 0; k < n->n_in; k++)
				ff_out_string(o, NULL, g->nodes[ff_edge_source(g, n->in + k)].name);
			ff_out_close(o);
		}
		ff_attrs_write(row, &n->attrs, o);
		ff_out_close(o);
	}
	ff_out_close(o);
	ff_out_close(o);
}

uint32_t ff_graph_find(const struct ff_graph *g, const char *name)
{
	return ff_names_find(g->names, name);
}

int64_t ff_graph_parameters(const struct ff_graph *g)
{
	int64_t n = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		for (uint32_t w = 0; w < g->nodes[i].n_weights; w++)
			n += ff_shape_volume(g->nodes[i].weight[w].map.rank,
					g->nodes[i].weight[w].map.shape);
	return n;
}
