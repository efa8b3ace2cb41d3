/* Reading operator graphs from JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attrs.h"
#include "base/names.h"
#include "builder.h"
#include "derive.h"
#include "ff/graph_file.h"
#include "ff/nearest.h"

#define MAX_ATTRS 16
#define MAX_OUTPUT 4095 /* FF_PORT */

/* A node as it stands in the file. */
struct entry {
	const struct ff_json *json, *in;
	const char *param[FF_MAX_PARAMS]; /* NULL: its own */
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
	uint32_t *inputs; /* entries and outputs (FF_PORT), all lists one behind the other */
	struct ff_names names;
	struct ff_arena *scratch;
	struct ff_error *err;
};

static int check_keys(const struct entry *e, struct ff_error *err)
{
	const char *keys[MAX_ATTRS + 5] = {"name", "op", "in", "params"};

	for (uint32_t i = 0; i < e->row->n_attrs && i < MAX_ATTRS; i++)
		keys[4 + i] = e->row->attrs[i].name;
	return ff_json_only(e->json, keys, err);
}

static int unknown_parameter(const struct entry *e, const struct ff_json *v, uint32_t params,
		struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, v->key);
	for (uint32_t i = 0; i < params; i++)
		ff_nearest_try(&near, e->row->param[i]);
	return ff_json_fail(v, err, "%s \"%.200s\" has no parameter \"%.100s\"%s", e->row->name,
			e->name, v->key, ff_nearest_known(&near));
}

/* "params": {"weight": "embed.weight"}: parameters that are shared. */
static int read_params(struct entry *e, struct ff_error *err)
{
	const struct ff_json *list = ff_json_get(e->json, "params");
	struct ff_op_counts count;

	if (!list)
		return FF_OK;
	if (list->type != FF_JSON_OBJECT)
		return ff_json_fail(list, err, "expected an object, names of parameters");
	ff_op_count(e->op, &e->attrs, &count);
	for (uint32_t k = 0; k < list->n; k++) {
		const struct ff_json *v = &list->child[k];
		uint32_t i = 0;

		while (i < count.params && strcmp(e->row->param[i], v->key) != 0)
			i++;
		if (i == count.params)
			return unknown_parameter(e, v, count.params, err);
		if (v->type != FF_JSON_STRING)
			return ff_json_fail(v, err, "expected the name of a parameter");
		e->param[i] = v->text;
	}
	return FF_OK;
}

static int read_inputs(struct entry *e, struct ff_error *err)
{
	e->in = ff_json_get(e->json, "in");
	if (!e->in && e->row->min_in)
		return ff_json_fail(e->json, err, "%s needs \"in\", the names of its inputs",
				e->row->name);
	if (e->in && e->in->type != FF_JSON_ARRAY)
		return ff_json_fail(e->in, err, "expected an array of node names");
	e->n_in = e->in ? e->in->n : 0;
	return FF_OK;
}

static int unknown_operator(const struct ff_json *place, const char *op, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, op);
	for (uint32_t i = 0; i < FF_OP_COUNT; i++)
		if (!(ff_op_rows[i]->flags & (FF_OP_UPDATE | FF_OP_PRELUDE)))
			ff_nearest_try(&near, ff_op_rows[i]->name);
	return ff_json_fail(place, err, "there is no operator \"%.100s\"%s", op,
			ff_nearest_hint(&near));
}

static int read_entry(struct parse *p, uint32_t i, const struct ff_json *json)
{
	struct entry *e = &p->entry[i];
	const char *op = NULL;
	uint32_t other;
	int code;

	e->json = json;
	if (json->type != FF_JSON_OBJECT)
		return ff_json_fail(json, p->err, "expected an object, a node");
	code = ff_json_string(json, "name", &e->name, p->err);
	if (code == FF_OK)
		code = ff_json_string(json, "op", &op, p->err);
	if (code < 0)
		return code;
	e->row = ff_op_find(op, &e->op);
	if (!e->row)
		return unknown_operator(ff_json_get(json, "op"), op, p->err);
	code = check_keys(e, p->err);
	if (code == FF_OK)
		code = ff_attrs_read(e->row, json, p->scratch, &e->attrs, p->err);
	if (code == FF_OK)
		code = read_inputs(e, p->err);
	if (code == FF_OK)
		code = read_params(e, p->err);
	if (code < 0)
		return code;
	other = ff_names_find(&p->names, e->name);
	if (other != FF_NONE)
		return ff_json_fail(ff_json_get(json, "name"), p->err,
				"the name \"%.200s\" is taken by nodes[%u]", e->name, other);
	return ff_names_put(&p->names, e->name, i) < 0 ? ff_fail_memory(p->err) : FF_OK;
}

static int read_entries(struct parse *p, const struct ff_json *nodes)
{
	int code = FF_OK;

	if (nodes->n > FF_MAX_NODES)
		return ff_json_fail(nodes, p->err, "a graph has at most %d nodes", FF_MAX_NODES);
	p->n = nodes->n;
	p->entry = ff_arena_array(p->scratch, p->n, sizeof(*p->entry));
	if (!p->entry)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < p->n && code == FF_OK; i++)
		code = read_entry(p, i, &nodes->child[i]);
	return code;
}

static int unknown_node(const struct parse *p, const struct ff_json *in, const char *name)
{
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < p->n; i++)
		ff_nearest_try(&near, p->entry[i].name);
	return ff_json_fail(
			in, p->err, "there is no node \"%.200s\"%s", name, ff_nearest_hint(&near));
}

/* "name" is a node's first output, "name#1" its second. */
static int resolve_input(struct parse *p, const struct ff_json *in, uint32_t *ret)
{
	const char *mark;
	char name[256];
	int64_t output = 0;
	char *end = NULL;

	if (in->type != FF_JSON_STRING)
		return ff_json_fail(in, p->err, "expected the name of a node");
	mark = strchr(in->text, '#');
	if (mark)
		output = strtol(mark + 1, &end, 10);
	if (mark && (mark[1] < '0' || mark[1] > '9' || *end || output > MAX_OUTPUT))
		return ff_json_fail(in, p->err,
				"expected the number of an output behind the # of \"%.200s\"",
				in->text);
	snprintf(name, sizeof(name), "%.*s",
			(int)(mark ? (size_t)(mark - in->text) : strlen(in->text)), in->text);
	*ret = ff_names_find(&p->names, name);
	if (*ret == FF_NONE)
		return unknown_node(p, in, name);
	*ret = FF_PORT(*ret, output);
	return FF_OK;
}

/* Turns input names into entries. */
static int resolve(struct parse *p)
{
	size_t total = 0, at = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->n; i++)
		total += p->entry[i].n_in;
	p->inputs = ff_arena_array(p->scratch, total, sizeof(*p->inputs));
	if (!p->inputs)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < p->n; i++) {
		struct entry *e = &p->entry[i];

		e->first = (uint32_t)at;
		for (uint32_t k = 0; k < e->n_in && code == FF_OK; k++)
			code = resolve_input(p, &e->in->child[k], &p->inputs[at++]);
	}
	return code;
}

static int add_entry(struct parse *p, struct ff_builder *b, struct entry *e, uint32_t *room)
{
	for (uint32_t k = 0; k < e->n_in; k++) {
		uint32_t in = p->inputs[e->first + k];

		room[k] = FF_PORT(p->entry[in & 0xfffff].index, in >> 20);
	}
	e->index = ff_builder_add_at(
			b, e->op, e->name, &e->attrs, room, e->n_in, e->param, e->json);
	e->state = PLACED;
	return e->index == FF_NONE ? FF_E_INPUT : FF_OK;
}

/* Adds the nodes in the order of the file, each behind its inputs: a walk in
 * depth, without recursion because chains may be long.  Returns FF_E_INPUT
 * with the sentence, or leaves it to ff_builder_finish. */
static int add_sorted(struct parse *p, struct ff_builder *b)
{
	uint32_t *stack = ff_arena_array(p->scratch, p->n, sizeof(*stack)), *room, most = 0;

	for (uint32_t i = 0; i < p->n; i++)
		most = p->entry[i].n_in > most ? p->entry[i].n_in : most;
	room = ff_arena_array(p->scratch, most, sizeof(*room));
	if (!stack || !room)
		return ff_fail_memory(p->err);
	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t depth = 0, source;

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
			source = p->inputs[e->first + e->next++] & 0xfffff;
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

/* What the graph computes in; absent, as in files from before there was a choice, it is
 * float32. */
static int read_dtype(const struct ff_json *root, enum ff_dtype *ret, struct ff_error *err)
{
	const struct ff_json *v = ff_json_get(root, "dtype");

	if (!v)
		return FF_OK;
	if (v->type != FF_JSON_STRING || !ff_dtype_find(v->text, ret) || ff_dtype_is_whole(*ret))
		return ff_json_fail(v, err, "expected float32 or bfloat16");
	return FF_OK;
}

static int parse_root(const struct ff_json *root, struct ff_arena *scratch, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "name", "dtype", "nodes", NULL};
	struct parse p = {.scratch = scratch, .err = err};
	const struct ff_json *nodes = NULL;
	enum ff_dtype dtype = FF_F32;
	struct ff_error named;
	const char *name = NULL;
	struct ff_builder *b;
	int code = ff_json_format(root, "ffsoap-graph", FF_GRAPH_VERSION, err);

	ff_names_init(&p.names, scratch);
	if (code == FF_OK)
		code = ff_json_only(root, keys, err);
	if (code == FF_OK)
		code = ff_json_string(root, "name", &name, err);
	if (code == FF_OK)
		code = read_dtype(root, &dtype, err);
	if (code == FF_OK)
		code = ff_json_need(root, "nodes", FF_JSON_ARRAY, &nodes, err);
	if (code == FF_OK)
		code = read_entries(&p, nodes);
	if (code == FF_OK)
		code = resolve(&p);
	if (code < 0)
		return code;
	code = ff_builder_create(name, a, &b, &named);
	if (code < 0)
		return code == FF_E_INPUT ? ff_json_fail(ff_json_get(root, "name"), err, "%s",
							    named.text)
					  : ff_fail_memory(err);
	ff_builder_set_place(b, root);
	ff_builder_set_dtype(b, dtype);
	code = add_sorted(&p, b);
	return code < 0 ? code : ff_builder_finish(b, ret, err);
}

int ff_graph_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	const struct ff_json *root = NULL;
	struct ff_arena scratch;
	int code;

	ff_arena_init(&scratch);
	code = ff_json_parse(file, text, len, &scratch, &root, err);
	if (code == FF_OK)
		code = parse_root(root, &scratch, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

int ff_graph_load(const char *path, struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	const struct ff_json *root = NULL;
	struct ff_arena scratch;
	int code;

	ff_arena_init(&scratch);
	code = ff_json_load(path, &scratch, &root, err);
	if (code == FF_OK)
		code = parse_root(root, &scratch, a, ret, err);
	ff_arena_finish(&scratch);
	return code;
}

int ff_graph_check_reference(const struct ff_json *root, const char *what, const struct ff_graph *g,
		struct ff_error *err)
{
	char own[FF_GRAPH_HASH_TEXT];
	const char *name, *hash;
	int code = ff_json_string(root, "graph", &name, err);

	if (code == FF_OK)
		code = ff_json_string(root, "graph_hash", &hash, err);
	if (code < 0)
		return code;
	snprintf(own, sizeof(own), "%016" PRIx64, g->hash);
	if (strcmp(own, hash) != 0)
		return ff_json_fail(root, err,
				"the %s is for graph %s (hash %s), not for this graph %s (hash %s)",
				what, name, hash, g->name, own);
	return FF_OK;
}
