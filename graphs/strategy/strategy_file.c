/* Strategies read from JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/graph_file.h"
#include "ff/micro.h"
#include "ff/nearest.h"
#include "ff/strategy_file.h"
#include "rewrites.h"
#include "strategy_info.h"

static int unknown_dim(const struct ff_json *v, const struct ff_node *n, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, v->key);
	for (uint32_t d = 0; d < n->n_dims; d++)
		ff_nearest_try(&near, n->dim[d].name);
	return ff_json_fail(v, err, "operator %s has no dim called %.64s%s", n->name, v->key,
			ff_nearest_known(&near));
}

/* The dim of `n` that `v` names, with a number from `min` to `max`. */
static int read_dim(const struct ff_json *v, const struct ff_node *n, uint32_t *dim, int64_t *ret,
		int64_t min, int64_t max, struct ff_error *err)
{
	uint32_t d = 0;

	while (d < n->n_dims && strcmp(n->dim[d].name, v->key))
		d++;
	if (d == n->n_dims)
		return unknown_dim(v, n, err);
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

/* "update": "flat", which a parameter has instead of parts. */
static int read_update(const struct ff_json *op, const struct ff_graph *g, uint32_t node,
		struct ff_config *c, struct ff_error *err)
{
	static const char *const keys[] = {"name", "update", "priority", "recompute", NULL};
	const struct ff_json *update = ff_json_get(op, "update");
	int code = ff_json_only(op, keys, err);

	if (code < 0)
		return code;
	if (update->type != FF_JSON_STRING || strcmp(update->text, "flat"))
		return ff_json_fail(update, err, "expected \"flat\"");
	if (!ff_node_is_parameter(g, node))
		return ff_json_fail(update, err, "operator %s is no parameter, it is not updated",
				g->nodes[node].name);
	c->flat = true;
	return FF_OK;
}

/* "stage" and "recompute" of an operator. */
static int read_phases(const struct ff_json *op, uint32_t node, struct ff_strategy *s,
		struct ff_error *err)
{
	const struct ff_json *recomputed = ff_json_get(op, "recompute");
	int64_t stage = 0;
	int code = FF_OK;

	if (ff_json_get(op, "stage"))
		code = ff_json_int(op, "stage", 0, FF_MAX_DEVICES - 1, &stage, err);
	if (code < 0)
		return code;
	if (recomputed && recomputed->type != FF_JSON_BOOL)
		return ff_json_fail(recomputed, err, "expected true or false");
	s->stage[node] = (uint16_t)stage;
	s->recompute[node] = recomputed && recomputed->number > 0;
	return FF_OK;
}

/* Of a kind of buckets; 0 where nothing is said. */
static int read_bucket(
		const struct ff_json *root, const char *key, int64_t *ret, struct ff_error *err)
{
	*ret = 0;
	return ff_json_get(root, key) ? ff_json_int(root, key, 1, FF_MOST_BUCKET_BYTES, ret, err)
				      : FF_OK;
}

/* How many stages the same devices hold in turn. */
static int read_chunks(const struct ff_json *root, struct ff_strategy *s, struct ff_error *err)
{
	const struct ff_json *chunks = ff_json_get(root, "chunks");
	int64_t n = s->rule == FF_ORDER_INTERLEAVED ? 2 : 1;
	int code = FF_OK;

	if (chunks && s->rule != FF_ORDER_INTERLEAVED)
		return ff_json_fail(chunks, err, "expected the order \"interleaved\" beside it");
	if (chunks)
		code = ff_json_int(root, "chunks", 2, FF_MOST_CHUNKS, &n, err);
	s->chunks = (uint32_t)n;
	return code;
}

int ff_strategy_read_ticks(const struct ff_json *root, struct ff_strategy *s, struct ff_error *err)
{
	const struct ff_json *list = ff_json_get(root, "ticks");
	bool right = !list || (list->type == FF_JSON_ARRAY && list->n == FF_STAGE_PASSES);

	for (uint32_t i = 0; list && right && i < list->n; i++) {
		double n = list->child[i].number;

		right = list->child[i].type == FF_JSON_NUMBER && n >= 1 && n <= FF_MOST_TICKS &&
			n == (uint8_t)n;
		if (right)
			s->ticks[i] = (uint8_t)n;
	}
	return right ? FF_OK
		     : ff_json_fail(list, err, "expected three integers from 1 to %d",
				       FF_MOST_TICKS);
}

int ff_strategy_read_order(
		const struct ff_json *root, enum ff_order_rule *ret, struct ff_error *err)
{
	const struct ff_json *rule = ff_json_get(root, "order");

	if (rule && (rule->type != FF_JSON_STRING || !ff_order_find(rule->text, ret)))
		return ff_json_fail(rule, err,
				"expected \"gpipe\", \"1f1b\", \"interleaved\", \"zb-h1\" or "
				"\"zb-v\"");
	return FF_OK;
}

/* How many micro-batches, and in which order they go through the stages. */
static int read_micro(const struct ff_json *root, struct ff_strategy *s, struct ff_error *err)
{
	int64_t n = 1;
	int code = FF_OK;

	if (ff_json_get(root, "micro_batches"))
		code = ff_json_int(root, "micro_batches", 1, FF_MAX_MICRO_BATCHES, &n, err);
	if (code < 0)
		return code;
	s->micro_batches = (uint32_t)n;
	code = ff_strategy_read_ticks(root, s, err);
	if (code < 0)
		return code;
	code = ff_strategy_read_order(root, &s->rule, err);
	return code < 0 ? code : read_chunks(root, s, err);
}

static bool has_config(const struct ff_graph *g, uint32_t node)
{
	return !ff_node_is_source(g, node) && !ff_node_is_prelude(g, node);
}

static int unknown_operator(const struct ff_json *op, const struct ff_graph *g, const char *name,
		struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (has_config(g, i))
			ff_nearest_try(&near, g->nodes[i].name);
	return ff_json_fail(op, err, "the graph has no operator called %.200s%s", name,
			ff_nearest_hint(&near));
}

int ff_strategy_check_entry(const struct ff_json *op, struct ff_error *err)
{
	static const char *const keys[] = {"name", "degrees", "replicas", "devices", "priority",
			"stage", "recompute", "update", NULL};

	return ff_json_only(op, keys, err);
}

static int read_operator(const struct ff_json *op, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *s, struct ff_error *err)
{
	struct ff_error inner;
	struct ff_config *c;
	const char *name;
	int64_t priority = 0;
	uint32_t node;
	int code;

	if (op->type != FF_JSON_OBJECT)
		return ff_json_fail(op, err, "expected an object");
	if ((code = ff_strategy_check_entry(op, err)) < 0 ||
			(code = ff_json_string(op, "name", &name, err)) < 0)
		return code;
	node = ff_graph_find(g, name);
	if (node == FF_NONE || !has_config(g, node))
		return unknown_operator(op, g, name, err);
	c = &s->config[node];
	if (c->n_parts || c->flat)
		return ff_json_fail(op, err, "operator %s stands twice", name);
	if (ff_json_get(op, "priority") && (code = ff_json_int(op, "priority", INT32_MIN, INT32_MAX,
							    &priority, err)) < 0)
		return code;
	s->priority[node] = (int32_t)priority;
	if ((code = read_phases(op, node, s, err)) < 0)
		return code;
	if (ff_json_get(op, "update"))
		return read_update(op, g, node, c, err);
	if ((code = read_degrees(op, &g->nodes[node], c, err)) < 0 ||
			(code = read_devices(op, &g->nodes[node], n_devices, a, c, err)) < 0)
		return code;
	code = ff_config_check(&g->nodes[node], c, n_devices, &inner);
	return code < 0 ? ff_json_fail(op, err, "%s", inner.text) : FF_OK;
}

int ff_strategy_read_scatter(
		const struct ff_json *root, struct ff_strategy *s, struct ff_error *err)
{
	const struct ff_json *how = ff_json_get(root, "gradients");

	if (how && (how->type != FF_JSON_STRING || strcmp(how->text, "scattered") != 0))
		return ff_json_fail(how, err, "expected \"scattered\"");
	s->scatter = how != NULL;
	return FF_OK;
}

int ff_strategy_read_shards(const struct ff_json *root, struct ff_strategy *s, struct ff_error *err)
{
	int64_t shards;
	int code;

	if (!ff_json_get(root, "shards"))
		return FF_OK;
	code = ff_json_int(root, "shards", 2, FF_MAX_DEVICES, &shards, err);
	if (code == FF_OK)
		s->shards = (uint32_t)shards;
	return code;
}

int ff_strategy_check_header(const struct ff_json *root, struct ff_error *err)
{
	static const char *const keys[] = {"format", "version", "graph", "graph_hash", "machine",
			"devices", "optimizer", "clip", "compress", "average_every", "staleness",
			"predicted_us", "predicted_tasks", "predicted_waits", "steadiness", "costs",
			"framework", "communication", "memory_bytes", "micro_batches", "order",
			"chunks", "ticks", "bucket_bytes", "shards", "data_parallel_bucket_bytes",
			"gradients", "rewrites", "operators", NULL};
	int code = ff_json_format(root, "ffsoap-strategy", FF_STRATEGY_VERSION, err);

	return code == FF_OK ? ff_json_only(root, keys, err) : code;
}

static int check_header(const struct ff_json *root, const struct ff_graph *g, struct ff_error *err)
{
	int code = ff_strategy_check_header(root, err);

	return code == FF_OK ? ff_graph_check_reference(root, "strategy", g, err) : code;
}

static int read_strategy(const struct ff_json *root, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_strategy_info *info,
		struct ff_error *err)
{
	const struct ff_json *list;
	struct ff_strategy_info in = {0};
	struct ff_strategy s;
	struct ff_graph micro;
	struct ff_error inner;
	int code;

	if ((code = check_header(root, g, err)) < 0 ||
			(code = ff_rewrites_check(root, g, a, err)) < 0 ||
			(code = ff_strategy_read_info(root, a, n_devices, &in, err)) < 0 ||
			(code = ff_json_need(root, "operators", FF_JSON_ARRAY, &list, err)) < 0 ||
			(code = ff_strategy_create(g, a, &s, err)) < 0 ||
			(code = read_micro(root, &s, err)) < 0 ||
			(code = ff_strategy_read_scatter(root, &s, err)) < 0 ||
			(code = ff_strategy_read_shards(root, &s, err)) < 0 ||
			(code = read_bucket(root, "bucket_bytes", &s.bucket_bytes, err)) < 0 ||
			(code = read_bucket(root, "data_parallel_bucket_bytes",
					 &in.data_parallel_bucket_bytes, err)) < 0)
		return code;
	if (ff_graph_micro(g, s.micro_batches, a, &micro, &inner) < 0)
		return ff_json_fail(ff_json_get(root, "micro_batches"), err, "%s", inner.text);
	for (uint32_t i = 0; i < list->n; i++)
		if ((code = read_operator(&list->child[i], &micro, in.devices, a, &s, err)) < 0)
			return code;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!s.config[i].n_parts && ff_node_needs_config(g, i))
			return ff_json_fail(list, err, "operator %s is missing", g->nodes[i].name);
	if (ff_strategy_check(&micro, &s, in.devices, &inner) < 0)
		return ff_json_fail(list, err, "%s", inner.text);
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

int ff_strategy_load_rewritten(const char *path, struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_strategy_info *info,
		struct ff_error *err)
{
	const struct ff_json *root;
	struct ff_graph made = *g;
	struct ff_arena tree;
	int code;

	ff_arena_init(&tree);
	code = ff_json_load(path, &tree, &root, err);
	if (code == FF_OK)
		code = check_header(root, g, err);
	if (code == FF_OK)
		code = ff_strategy_rewrite(root, a, &made, err);
	if (code == FF_OK)
		code = read_strategy(root, &made, n_devices, a, ret, info, err);
	ff_arena_finish(&tree);
	if (code == FF_OK)
		*g = made;
	return code;
}
