/* The map of a module exported from PyTorch, as limits.  SPDX-License-Identifier: Apache-2.0 */
#include "torch.h"

#include <string.h>

#include "ff/json.h"
#include "prime_mesh.h"

/* Being read. */
struct torch {
	const struct ff_graph *g;
	struct ff_arena *a;
	int64_t batch;            /* samples that the map is for */
	uint32_t *length, *joint; /* as in struct ff_prime_mesh */
	const char **source;      /* by node: PyTorch's name of it, or NULL */
	struct ff_pin **pin;
};

/* What PyTorch cannot cut has degree 1. */
static int pin_whole(struct torch *t, uint32_t node, uint32_t d, struct ff_error *err)
{
	const struct ff_node *n = &t->g->nodes[node];

	if (!t->pin[node])
		t->pin[node] = ff_arena_alloc(t->a, sizeof(*t->pin[node]));
	if (!t->pin[node])
		return ff_fail_memory(err);
	if (t->pin[node]->degree[d] > 1)
		return ff_fail(err, FF_E_INPUT,
				"option --pin: operator %s cannot be cut along %s in PyTorch",
				n->name, n->dim[d].name);
	t->pin[node]->degree[d] = 1;
	return FF_OK;
}

/* "cuts": dims that may be cut, and of how many elements degrees are divisors. */
static int read_cuts(
		struct torch *t, uint32_t node, const struct ff_json *cuts, struct ff_error *err)
{
	const struct ff_node *n = &t->g->nodes[node];
	uint32_t *length = t->length + (size_t)node * FF_MAX_DIMS;
	int code = FF_OK;

	for (uint32_t d = 0; d < n->n_dims && code == FF_OK; d++) {
		int64_t elements = 1;

		if (ff_json_get(cuts, n->dim[d].name))
			code = ff_json_int(cuts, n->dim[d].name, 1, INT32_MAX, &elements, err);
		if (n->dim[d].label == FF_DIM_SAMPLE && elements % t->batch == 0)
			elements = elements / t->batch * t->g->batch;
		length[d] = (uint32_t)elements;
		if (code == FF_OK && elements == 1)
			code = pin_whole(t, node, d, err);
	}
	return code;
}

/* A node that several operators were made from is one there. */
static void find_joint(struct torch *t, uint32_t node)
{
	for (uint32_t i = 0; i < node && t->source[node]; i++)
		if (t->source[i] && !strcmp(t->source[i], t->source[node])) {
			t->joint[i] = t->joint[i] == FF_NONE ? i : t->joint[i];
			t->joint[node] = t->joint[i];
			return;
		}
}

static int read_operator(struct torch *t, uint32_t node, const struct ff_json *operators,
		struct ff_error *err)
{
	const char *name = t->g->nodes[node].name;
	const struct ff_json *op = ff_json_get(operators, name), *nodes, *cuts;
	int code;

	if (!op)
		return ff_json_fail(operators, err, "operator %s of the graph is missing", name);
	code = ff_json_need(op, "nodes", FF_JSON_ARRAY, &nodes, err);
	if (code < 0 || !nodes->n) /* a loss that stands behind the module */
		return code;
	cuts = ff_json_get(op, "cuts");
	if (!cuts || cuts->type != FF_JSON_OBJECT)
		return ff_json_fail(op, err, "expected cuts, as export writes them: export again");
	t->source[node] = nodes->child[0].text;
	find_joint(t, node);
	return read_cuts(t, node, cuts, err);
}

static int make_room(struct torch *t, const struct ff_limits *l, struct ff_error *err)
{
	uint32_t n = t->g->n_nodes;

	t->length = ff_arena_array(t->a, (size_t)n * FF_MAX_DIMS, sizeof(*t->length));
	t->joint = ff_arena_array(t->a, n, sizeof(*t->joint));
	t->source = ff_arena_array(t->a, n, sizeof(*t->source));
	t->pin = ff_arena_array(t->a, n, sizeof(*t->pin));
	if (!t->length || !t->joint || !t->source || !t->pin)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		t->joint[i] = FF_NONE;
		if (l->pin && l->pin[i]) {
			t->pin[i] = ff_arena_copy(t->a, l->pin[i], 1, sizeof(**l->pin));
			if (!t->pin[i])
				return ff_fail_memory(err);
		}
	}
	return FF_OK;
}

/* Statistics that an operator keeps from step to step are a batch's, not a micro-batch's. */
static bool has_statistics(const struct ff_graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_op_row(g->nodes[i].op)->kept[0])
			return true;
	return false;
}

static int check_map(struct torch *t, const struct ff_json *map, struct ff_error *err)
{
	const char *name;
	int code = ff_json_format(map, "ffsoap-torch-map", 1, err);

	if (code == FF_OK)
		code = ff_json_string(map, "graph", &name, err);
	if (code == FF_OK && strcmp(name, t->g->name) != 0)
		code = ff_json_fail(ff_json_get(map, "graph"), err,
				"it is the map of graph %.100s, not of %.100s", name, t->g->name);
	return code == FF_OK ? ff_json_int(map, "batch", 1, INT32_MAX, &t->batch, err) : code;
}

int ff_torch_limit(const char *path, const struct ff_graph *g, struct ff_arena *a,
		struct ff_limits *l, struct ff_error *err)
{
	struct ff_prime_mesh *mesh = ff_arena_alloc(a, sizeof(*mesh));
	struct torch t = {.g = g, .a = a};
	const struct ff_json *map, *operators, *why;
	int code = mesh ? make_room(&t, l, err) : ff_fail_memory(err);

	if (code == FF_OK)
		code = ff_json_load(path, a, &map, err);
	if (code == FF_OK)
		code = check_map(&t, map, err);
	if (code == FF_OK)
		code = ff_json_need(map, "operators", FF_JSON_OBJECT, &operators, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i))
			code = read_operator(&t, i, operators, err);
	if (code < 0)
		return code;
	*mesh = (struct ff_prime_mesh){t.length, t.joint, (uint32_t)g->batch};
	l->mesh = mesh;
	l->pin = (const struct ff_pin **)t.pin;
	l->no_pipeline = l->no_pipeline || has_statistics(g);
	why = ff_json_get(map, "whole_batch");
	if (has_statistics(g) || why)
		l->max_micro = 1;
	if (has_statistics(g))
		l->why_one = "statistics that the network keeps are of a whole batch";
	else if (why && why->type == FF_JSON_STRING)
		l->why_one = why->text;
	return FF_OK;
}
