/* Strategies: the ones every tool knows, their files and their issue order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/strategy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_LIST 16 /* devices written one by one */

int ff_strategy_create(const struct ff_graph *g, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err)
{
	struct ff_strategy s = {.n_nodes = g->n_nodes};

	s.config = ff_arena_array(a, g->n_nodes, sizeof(*s.config));
	s.priority = ff_arena_array(a, g->n_nodes, sizeof(*s.priority));
	if (!s.config || !s.priority)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		s.config[i].replicas = 1;
		for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
			s.config[i].degree[d] = 1;
	}
	*ret = s;
	return FF_OK;
}

int ff_strategy_single(const struct ff_graph *g, uint32_t device, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_strategy s;
	int code = ff_strategy_create(g, a, &s, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		s.config[i].start = (uint16_t)device;
		s.config[i].n_parts = ff_node_needs_config(g, i);
	}
	*ret = s;
	return FF_OK;
}

int ff_strategy_data_parallel(const struct ff_graph *g, uint32_t n_devices, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_strategy s;
	int code = ff_strategy_single(g, 0, a, &s, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		for (uint32_t d = 0; d < n->n_dims && ff_node_needs_config(g, i); d++) {
			uint32_t extent = (uint32_t)n->dim[d].extent;

			if (n->dim[d].label != FF_DIM_SAMPLE)
				continue;
			s.config[i].n_parts = extent < n_devices ? extent : n_devices;
			s.config[i].degree[d] = (uint16_t)s.config[i].n_parts;
			s.config[i].stride[d] = 1;
			break;
		}
	}
	*ret = s;
	return FF_OK;
}

int ff_strategy_check(const struct ff_graph *g, const struct ff_strategy *s, uint32_t n_devices,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!s->config[i].n_parts && ff_node_needs_config(g, i))
			return ff_fail(err, FF_E_INPUT, "operator %s has no config",
					g->nodes[i].name);
		if (s->config[i].n_parts && ff_node_is_prelude(g, i))
			return ff_fail(err, FF_E_INPUT,
					"operator %s has the config of %s, not its own",
					g->nodes[i].name, g->nodes[ff_node_leader(g, i)].name);
		if (s->config[i].n_parts)
			code = ff_config_check(&g->nodes[i], &s->config[i], n_devices, err);
	}
	return code;
}

/* The dim of `n` that `v` names, with a number from `min` to `max`. */
static int read_dim(const struct ff_json *v, const struct ff_node *n, uint32_t *dim, int64_t *ret,
		int64_t min, int64_t max, struct ff_error *err)
{
	uint32_t d = 0;

	while (d < n->n_dims && strcmp(n->dim[d].name, v->key))
		d++;
	if (d == n->n_dims)
		return ff_json_fail(v, err, "operator %s has no dim called %s", n->name, v->key);
	*dim = d;
	return ff_json_as_int(v, min, max < 0 ? n->dim[d].extent : max, ret, err);
}

static int read_degrees(const struct ff_json *op, const struct ff_node *n, struct ff_config *c,
		struct ff_error *err)
{
	const struct ff_json *degrees;
	int64_t degree = 1;
	uint32_t d;
	int code = ff_json_need(op, "degrees", FF_JSON_OBJECT, &degrees, err);

	if (code < 0)
		return code;
	c->n_parts = 1;
	for (uint32_t i = 0; i < degrees->n; i++) {
		const struct ff_json *v = &degrees->child[i];

		code = read_dim(v, n, &d, &degree, 1, -1, err);
		if (code < 0)
			return code;
		if (degree * c->n_parts > FF_MAX_DEVICES)
			return ff_json_fail(v, err, "operator %s would have more than %d parts",
					n->name, FF_MAX_DEVICES);
		c->degree[d] = (uint16_t)degree;
		c->n_parts *= (uint32_t)degree;
	}
	degree = 1;
	if (ff_json_get(op, "replicas") &&
			(code = ff_json_int(op, "replicas", 1, FF_MAX_DEVICES / c->n_parts, &degree,
					 err)) < 0)
		return code;
	c->replicas = (uint16_t)degree;
	c->n_parts *= (uint32_t)degree;
	return FF_OK;
}

static int read_list(const struct ff_json *list, const struct ff_node *n, uint32_t n_devices,
		struct ff_arena *a, struct ff_config *c, struct ff_error *err)
{
	uint16_t *device = ff_arena_array(a, c->n_parts, sizeof(*device));

	if (!device)
		return ff_fail_memory(err);
	if (list->n != c->n_parts)
		return ff_json_fail(list, err, "operator %s has %u parts but %u devices are named",
				n->name, c->n_parts, list->n);
	for (uint32_t i = 0; i < list->n; i++) {
		int64_t dev;
		int code = ff_json_as_int(&list->child[i], 0, FF_MAX_DEVICES - 1, &dev, err);

		if (code < 0)
			return code;
		if (dev >= n_devices)
			return ff_json_fail(&list->child[i], err,
					"device %d does not exist: there are %u", (int)dev,
					n_devices);
		device[i] = (uint16_t)dev;
	}
	c->list = device;
	return FF_OK;
}

static int read_view(const struct ff_json *view, const struct ff_node *n, struct ff_config *c,
		struct ff_error *err)
{
	static const char *const keys[] = {"start", "strides", "replica_stride", NULL};
	const struct ff_json *strides = ff_json_get(view, "strides");
	int64_t v = 0;
	uint32_t d;
	int code;

	if ((code = ff_json_only(view, keys, err)) < 0 ||
			(code = ff_json_int(view, "start", 0, FF_MAX_DEVICES - 1, &v, err)) < 0)
		return code;
	c->start = (uint16_t)v;
	if (ff_json_get(view, "replica_stride") &&
			(code = ff_json_int(view, "replica_stride", 1, FF_MAX_DEVICES - 1, &v,
					 err)) < 0)
		return code;
	c->replica_stride = ff_json_get(view, "replica_stride") ? (uint16_t)v : 0;
	if (strides && strides->type != FF_JSON_OBJECT)
		return ff_json_fail(strides, err, "expected an object, a stride a dim");
	for (uint32_t i = 0; strides && i < strides->n; i++) {
		code = read_dim(&strides->child[i], n, &d, &v, 0, FF_MAX_DEVICES - 1, err);
		if (code < 0)
			return code;
		c->stride[d] = (uint16_t)v;
	}
	return FF_OK;
}

/* A list, one a part, or a view. */
static int read_devices(const struct ff_json *op, const struct ff_node *n, uint32_t n_devices,
		struct ff_arena *a, struct ff_config *c, struct ff_error *err)
{
	const struct ff_json *devices = ff_json_get(op, "devices");

	if (devices && devices->type == FF_JSON_OBJECT)
		return read_view(devices, n, c, err);
	if (devices && devices->type == FF_JSON_ARRAY)
		return read_list(devices, n, n_devices, a, c, err);
	return ff_json_fail(devices ? devices : op, err,
			"expected \"devices\": a list of devices, or their start and strides");
}

static int read_operator(const struct ff_json *op, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *s, struct ff_error *err)
{
	static const char *const keys[] = {
			"name", "degrees", "replicas", "devices", "priority", NULL};
	struct ff_error inner;
	struct ff_config *c;
	const char *name;
	int64_t priority = 0;
	uint32_t node;
	int code;

	if (op->type != FF_JSON_OBJECT)
		return ff_json_fail(op, err, "expected an object");
	if ((code = ff_json_only(op, keys, err)) < 0 ||
			(code = ff_json_string(op, "name", &name, err)) < 0)
		return code;
	node = ff_graph_find(g, name);
	if (node == FF_NONE || ff_node_is_source(g, node) || ff_node_is_prelude(g, node))
		return ff_json_fail(op, err, "the graph has no operator called %s", name);
	c = &s->config[node];
	if (c->n_parts)
		return ff_json_fail(op, err, "operator %s stands twice", name);
	if (ff_json_get(op, "priority") && (code = ff_json_int(op, "priority", INT32_MIN, INT32_MAX,
							    &priority, err)) < 0)
		return code;
	s->priority[node] = (int32_t)priority;
	if ((code = read_degrees(op, &g->nodes[node], c, err)) < 0 ||
			(code = read_devices(op, &g->nodes[node], n_devices, a, c, err)) < 0)
		return code;
	code = ff_config_check(&g->nodes[node], c, n_devices, &inner);
	return code < 0 ? ff_json_fail(op, err, "%s", inner.text) : FF_OK;
}

static int read_info(const struct ff_json *root, struct ff_arena *a, uint32_t n_devices,
		struct ff_strategy_info *info, struct ff_error *err)
{
	const struct ff_json *memory = ff_json_get(root, "memory_bytes");
	int64_t devices, *bytes;
	double steadiness = 1;
	const char *machine;
	int code;

	if ((code = ff_json_string(root, "machine", &machine, err)) < 0 ||
			(code = ff_json_int(root, "devices", 1, FF_MAX_DEVICES, &devices, err)) < 0)
		return code;
	info->machine = ff_arena_strdup(a, machine);
	if (!info->machine)
		return ff_fail_memory(err);
	info->devices = (uint32_t)devices;
	if (info->devices > n_devices)
		return ff_json_fail(ff_json_get(root, "devices"), err,
				"the strategy is for %u devices but there are %u", info->devices,
				n_devices);
	if (ff_json_get(root, "predicted_us") &&
			(code = ff_json_real(root, "predicted_us", 0, 1e300, &info->predicted_us,
					 err)) < 0)
		return code;
	if (ff_json_get(root, "steadiness") &&
			(code = ff_json_real(root, "steadiness", 0, 1, &steadiness, err)) < 0)
		return code;
	info->disturbed_share = 1 - steadiness;
	if (!memory)
		return FF_OK;
	if (memory->type != FF_JSON_ARRAY || memory->n != info->devices)
		return ff_json_fail(memory, err, "expected one number a device");
	bytes = ff_arena_array(a, memory->n, sizeof(*bytes));
	if (!bytes)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < memory->n; i++)
		if ((code = ff_json_as_int(
				     &memory->child[i], 0, INT64_C(1) << 53, &bytes[i], err)) < 0)
			return code;
	info->memory_bytes = bytes;
	return FF_OK;
}

static int check_header(const struct ff_json *root, const struct ff_graph *g, struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "graph", "graph_hash", "machine",
			"devices", "predicted_us", "steadiness", "memory_bytes", "operators", NULL};
	const char *name, *hash;
	char own[20];
	int code;

	if ((code = ff_json_format(root, "ffsoap-strategy", FF_STRATEGY_VERSION, err)) < 0 ||
			(code = ff_json_only(root, keys, err)) < 0 ||
			(code = ff_json_string(root, "graph", &name, err)) < 0 ||
			(code = ff_json_string(root, "graph_hash", &hash, err)) < 0)
		return code;
	snprintf(own, sizeof(own), "%016" PRIx64, g->hash);
	if (strcmp(own, hash))
		return ff_json_fail(root, err,
				"the strategy is for graph %s (hash %s), not for this graph %s "
				"(hash %s)",
				name, hash, g->name, own);
	return FF_OK;
}

static int read_strategy(const struct ff_json *root, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_strategy_info *info,
		struct ff_error *err)
{
	const struct ff_json *list;
	struct ff_strategy_info in = {0};
	struct ff_strategy s;
	int code;

	if ((code = check_header(root, g, err)) < 0 ||
			(code = read_info(root, a, n_devices, &in, err)) < 0 ||
			(code = ff_json_need(root, "operators", FF_JSON_ARRAY, &list, err)) < 0 ||
			(code = ff_strategy_create(g, a, &s, err)) < 0)
		return code;
	for (uint32_t i = 0; i < list->n; i++)
		if ((code = read_operator(&list->child[i], g, in.devices, a, &s, err)) < 0)
			return code;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!s.config[i].n_parts && ff_node_needs_config(g, i))
			return ff_json_fail(list, err, "operator %s is missing", g->nodes[i].name);
	*ret = s;
	if (info)
		*info = in;
	return FF_OK;
}

/* The tree is many times as large as what is kept of it, so it gets an arena of its own. */
int ff_strategy_load(const char *path, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_strategy_info *info,
		struct ff_error *err)
{
	const struct ff_json *root;
	struct ff_arena tree;
	int code;

	ff_arena_init(&tree);
	code = ff_json_load(path, &tree, &root, err);
	if (code == FF_OK)
		code = read_strategy(root, g, n_devices, a, ret, info, err);
	ff_arena_finish(&tree);
	return code;
}

/* Lists are easier to read and to edit; views stay short. */
static void write_devices(const struct ff_node *n, const struct ff_config *c, struct ff_out *o)
{
	uint16_t device[FF_MAX_DEVICES];

	if (c->list || c->n_parts <= LONGEST_LIST) {
		ff_config_devices(n, c, device);
		ff_out_array(o, "devices");
		for (uint32_t p = 0; p < c->n_parts; p++)
			ff_out_int(o, NULL, device[p]);
		ff_out_close(o);
		return;
	}
	ff_out_object(o, "devices");
	ff_out_int(o, "start", c->start);
	ff_out_object(o, "strides");
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (c->degree[d] > 1)
			ff_out_int(o, n->dim[d].name, c->stride[d]);
	ff_out_close(o);
	if (c->replicas > 1)
		ff_out_int(o, "replica_stride", c->replica_stride);
	ff_out_close(o);
}

static void write_operator(const struct ff_node *n, const struct ff_config *c, int32_t priority,
		struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "name", n->name);
	ff_out_object(o, "degrees");
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (c->degree[d] > 1)
			ff_out_int(o, n->dim[d].name, c->degree[d]);
	ff_out_close(o);
	if (c->replicas > 1)
		ff_out_int(o, "replicas", c->replicas);
	write_devices(n, c, o);
	if (priority)
		ff_out_int(o, "priority", priority);
	ff_out_close(o);
}

void ff_strategy_write(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_strategy_info *info, struct ff_out *o)
{
	char hash[20];

	snprintf(hash, sizeof(hash), "%016" PRIx64, g->hash);
	ff_out_object(o, NULL);
	ff_out_string(o, "format", "ffsoap-strategy");
	ff_out_int(o, "version", FF_STRATEGY_VERSION);
	ff_out_string(o, "graph", g->name);
	ff_out_string(o, "graph_hash", hash);
	ff_out_string(o, "machine", info->machine);
	ff_out_int(o, "devices", info->devices);
	if (info->predicted_us > 0)
		ff_out_real(o, "predicted_us", info->predicted_us);
	if (info->disturbed_share > 0)
		ff_out_real(o, "steadiness", 1 - info->disturbed_share);
	if (info->memory_bytes) {
		ff_out_array(o, "memory_bytes");
		for (uint32_t i = 0; i < info->devices; i++)
			ff_out_int(o, NULL, info->memory_bytes[i]);
		ff_out_close(o);
	}
	ff_out_array(o, "operators");
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (s->config[i].n_parts)
			write_operator(&g->nodes[i], &s->config[i], s->priority[i], o);
	ff_out_close(o);
	ff_out_close(o);
}

/* A binary heap of ready nodes, the next to issue on top. */
struct ready {
	const int32_t *priority;
	uint32_t *node, n;
};

static bool before(const struct ready *r, uint32_t a, uint32_t b)
{
	return r->priority[a] != r->priority[b] ? r->priority[a] > r->priority[b] : a < b;
}

static void ready_push(struct ready *r, uint32_t node)
{
	uint32_t i = r->n++;

	for (; i && before(r, node, r->node[(i - 1) / 2]); i = (i - 1) / 2)
		r->node[i] = r->node[(i - 1) / 2];
	r->node[i] = node;
}

static uint32_t ready_pop(struct ready *r)
{
	uint32_t top = r->node[0], last = r->node[--r->n], i = 0;

	for (uint32_t c; (c = 2 * i + 1) < r->n; i = c) {
		if (c + 1 < r->n && before(r, r->node[c + 1], r->node[c]))
			c++;
		if (!before(r, r->node[c], last))
			break;
		r->node[i] = r->node[c];
	}
	r->node[i] = last;
	return top;
}

/* What waited for `node` alone is ready now. */
static void issued(const struct ff_graph *g, uint32_t node, uint32_t *waits, struct ready *r)
{
	const struct ff_node *n = &g->nodes[node];

	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct ff_value *v = &g->values[n->out + k];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t next = g->edges[g->uses[v->first_use + u]].node;

			if (!--waits[next])
				ready_push(r, next);
		}
	}
}

int ff_strategy_order(const struct ff_graph *g, const struct ff_strategy *s,
		struct ff_arena *scratch, uint32_t *order, struct ff_error *err)
{
	struct ready r = {.priority = s->priority};
	uint32_t *waits = ff_arena_array(scratch, g->n_nodes, sizeof(*waits)), n = 0;

	r.node = ff_arena_array(scratch, g->n_nodes, sizeof(*r.node));
	if (!waits || !r.node)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		waits[i] = g->nodes[i].n_in;
	/* nobody waits for what is there from the start */
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!ff_node_is_computed(g, i)) {
			order[n++] = i;
			issued(g, i, waits, &r);
		}
	while (r.n) {
		order[n] = ready_pop(&r);
		issued(g, order[n++], waits, &r);
	}
	return FF_OK;
}
