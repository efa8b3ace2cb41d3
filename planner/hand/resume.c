/* Plans carried over.  SPDX-License-Identifier: Apache-2.0 */
#include "resume.h"

#include <stdio.h>
#include <string.h>

#include "ff/micro.h"
#include "propose/extras.h"
#include "space/limits.h"

struct carry {
	const struct ff_graph *g; /* of one micro-batch */
	struct ff_arena *a;
	struct ff_strategy s;
	struct ff_resumed told;
	/* devices here for each there, as a fraction of which one is 1; 0: neither divides */
	uint32_t times, part;
};

/* ---- what the file says ---- */

/* A number of `v` from `min` to `max`; else `preset`. */
static uint32_t number(const struct ff_json *v, const char *key, uint32_t min, uint32_t max,
		uint32_t preset)
{
	struct ff_error why;
	int64_t n;

	if (!ff_json_get(v, key) || ff_json_int(v, key, min, max, &n, &why) < 0)
		return preset;
	return (uint32_t)n;
}

static bool read_degrees(const struct ff_json *op, const struct ff_node *n, struct ff_config *c)
{
	const struct ff_json *degrees = ff_json_get(op, "degrees");

	*c = (struct ff_config){.n_parts = 1};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c->degree[d] = 1;
	if (!degrees || degrees->type != FF_JSON_OBJECT)
		return false;
	for (uint32_t i = 0; i < degrees->n; i++) {
		uint32_t d = 0,
			 degree = number(degrees, degrees->child[i].key, 1, FF_MAX_DEVICES, 0);

		while (d < n->n_dims && strcmp(n->dim[d].name, degrees->child[i].key) != 0)
			d++;
		if (d == n->n_dims || degree == 0)
			return false;
		c->degree[d] = (uint16_t)degree;
		c->n_parts *= degree;
	}
	c->replicas = (uint16_t)number(op, "replicas", 1, FF_MAX_DEVICES, 1);
	c->n_parts *= c->replicas;
	return c->n_parts <= FF_MAX_DEVICES;
}

/* A list of devices, as the view that it is; false: it is none. */
static bool read_list(const struct ff_json *list, struct ff_config *c)
{
	uint32_t step = 1;

	if (list->n != c->n_parts)
		return false;
	c->start = (uint16_t)list->child[0].number;
	for (uint32_t d = FF_MAX_DIMS; d-- > 0; step *= c->degree[d])
		if (c->degree[d] > 1)
			c->stride[d] = (uint16_t)(list->child[step].number - list->child[0].number);
	if (c->replicas > 1)
		c->replica_stride = (uint16_t)(list->child[step].number - list->child[0].number);
	for (uint32_t p = 0; p < list->n; p++) {
		uint32_t rest = p, at = c->start;

		for (uint32_t d = FF_MAX_DIMS; d-- > 0; rest /= c->degree[d])
			at += rest % c->degree[d] * c->stride[d];
		at += rest * c->replica_stride;
		if (list->child[p].number != at)
			return false;
	}
	return true;
}

/* Other devices are named one by one, which means something where there are as many. */
static bool copy_list(struct carry *x, const struct ff_json *list, struct ff_config *c)
{
	uint16_t *device = ff_arena_array(x->a, c->n_parts, sizeof(*device));

	if (!device || x->times != x->part || list->n != c->n_parts)
		return false;
	for (uint32_t i = 0; i < list->n; i++)
		device[i] = (uint16_t)list->child[i].number;
	c->list = device;
	return true;
}

static bool read_devices(struct carry *x, const struct ff_json *op, const struct ff_node *n,
		struct ff_config *c)
{
	const struct ff_json *devices = ff_json_get(op, "devices"), *strides;

	if (devices && devices->type == FF_JSON_ARRAY)
		return read_list(devices, c) || copy_list(x, devices, c);
	if (!devices || devices->type != FF_JSON_OBJECT)
		return false;
	strides = ff_json_get(devices, "strides");
	c->start = (uint16_t)number(devices, "start", 0, FF_MAX_DEVICES - 1, 0);
	c->replica_stride = (uint16_t)number(devices, "replica_stride", 0, FF_MAX_DEVICES - 1, 0);
	for (uint32_t d = 0; d < n->n_dims && strides; d++)
		c->stride[d] = (uint16_t)number(strides, n->dim[d].name, 0, FF_MAX_DEVICES - 1, 0);
	return true;
}

/* ---- to other devices ---- */

static uint32_t sample_dim(const struct ff_node *n)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_SAMPLE)
			return d;
	return FF_NONE;
}

/* What lies further apart than shares of the samples moves with the number of these. */
static bool scale_strides(const struct carry *x, uint32_t beyond, struct ff_config *c)
{
	uint16_t *stride[FF_MAX_DIMS + 1];

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		stride[d] = &c->stride[d];
	stride[FF_MAX_DIMS] = &c->replica_stride;
	for (uint32_t i = 0; i <= FF_MAX_DIMS; i++) {
		if (*stride[i] <= beyond)
			continue;
		if (*stride[i] * x->times % x->part)
			return false;
		*stride[i] = (uint16_t)(*stride[i] * x->times / x->part);
	}
	return true;
}

/* Whether `c` has a place on the devices that are here. */
static bool scale(const struct carry *x, const struct ff_node *n, struct ff_config *c)
{
	uint32_t s = sample_dim(n), degree, whole = c->n_parts;

	if (x->times == x->part)
		return true;
	if (!x->times || c->start * x->times % x->part)
		return false;
	c->start = (uint16_t)(c->start * x->times / x->part);
	if (s == FF_NONE || (c->degree[s] == 1 && c->replicas > 1)) {
		/* the same on all devices */
		degree = c->replicas * x->times / x->part;
		if (c->replicas == 1)
			return true;
		if (degree == 0 || c->replicas * x->times % x->part ||
				!scale_strides(x, c->replica_stride, c))
			return false;
		c->n_parts = c->n_parts / c->replicas * degree;
		c->replicas = (uint16_t)degree;
		c->replica_stride = degree > 1 ? c->replica_stride : 0;
		return true;
	}
	if (c->degree[s] == 1 && (whole == 1 || x->part > 1))
		return true;
	degree = c->degree[s] * x->times / x->part;
	if (degree == 0 || c->degree[s] * x->times % x->part ||
			!scale_strides(x, c->degree[s] > 1 ? c->stride[s] : UINT16_MAX, c))
		return false;
	if (c->degree[s] == 1)
		c->stride[s] = (uint16_t)whole;
	c->n_parts = c->n_parts / c->degree[s] * degree;
	c->degree[s] = (uint16_t)degree;
	c->stride[s] = degree > 1 ? c->stride[s] : 0;
	return true;
}

/* Split by sample, where its input is or, without one, everywhere. */
static void place_by_sample(struct carry *x, uint32_t node)
{
	const struct ff_graph *g = x->g;
	const struct ff_node *n = &g->nodes[node];
	struct ff_config c = {.n_parts = 1, .replicas = 1};
	uint32_t devices = x->told.devices[1], s = sample_dim(n), extent;

	for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
		uint32_t from = ff_node_leader(g, ff_edge_source(g, k));

		if (from >= node || !ff_node_needs_config(g, from))
			continue;
		devices = x->s.config[from].n_parts;
		c.start = x->s.config[from].start;
		break;
	}
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c.degree[d] = 1;
	if (s != FF_NONE) {
		extent = (uint32_t)n->dim[s].extent;
		c.n_parts = devices < extent ? devices : extent;
		if (c.start + c.n_parts > x->told.devices[1])
			c.start = 0;
		c.degree[s] = (uint16_t)c.n_parts;
		c.stride[s] = c.n_parts > 1;
	}
	x->s.config[node] = c;
}

/* ---- operators ---- */

static void carry_parameter(struct carry *x, uint32_t node, const struct ff_json *op)
{
	struct ff_config *c = &x->s.config[node];
	struct ff_error why;

	ff_param_follow(c);
	c->flat = ff_json_get(op, "update") != NULL;
	if (c->flat || !read_degrees(op, &x->g->nodes[node], c) ||
			!read_devices(x, op, &x->g->nodes[node], c))
		return;
	if (x->times == x->part &&
			ff_config_check(&x->g->nodes[node], c, x->told.devices[1], &why) == FF_OK)
		return;
	ff_param_follow(c);
	c->flat = true; /* it was cut, and is so among those that are here */
}

static void carry_operator(struct carry *x, const struct ff_json *op)
{
	const struct ff_json *again = ff_json_get(op, "recompute"), *name = ff_json_get(op, "name");
	uint32_t node = name && name->type == FF_JSON_STRING ? ff_graph_find(x->g, name->text)
							     : FF_NONE;
	struct ff_config c;
	struct ff_error why;

	if (node == FF_NONE || ff_node_is_prelude(x->g, node)) {
		x->told.unknown++;
		return;
	}
	x->s.stage[node] = (uint16_t)number(op, "stage", 0, FF_MAX_DEVICES - 1, 0);
	x->s.recompute[node] = again && again->type == FF_JSON_BOOL && again->number > 0;
	if (ff_node_is_parameter(x->g, node)) {
		carry_parameter(x, node, op);
		return;
	}
	if (!ff_node_needs_config(x->g, node))
		return;
	if (read_degrees(op, &x->g->nodes[node], &c) &&
			read_devices(x, op, &x->g->nodes[node], &c) &&
			scale(x, &x->g->nodes[node], &c) &&
			ff_config_check(&x->g->nodes[node], &c, x->told.devices[1], &why) == FF_OK)
		x->s.config[node] = c;
	else
		x->told.unfit++;
}

/* Who has no config yet gets one, and stages ascend. */
static void fill(struct carry *x)
{
	const struct ff_graph *g = x->g;
	uint32_t missing = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		if (!ff_node_needs_config(g, i))
			continue;
		if (!x->s.config[i].n_parts) {
			missing++;
			place_by_sample(x, i);
		} else {
			x->told.kept++;
		}
		for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
			uint32_t from = ff_node_leader(g, ff_edge_source(g, k));

			if (ff_node_needs_config(g, from) && x->s.stage[from] > x->s.stage[i])
				x->s.stage[i] = x->s.stage[from];
		}
	}
	x->told.unnamed = missing - x->told.unfit;
}

/* ---- all of it ---- */

static void read_header(struct carry *x, const struct ff_json *root)
{
	const struct ff_json *rule = ff_json_get(root, "order");
	struct ff_resumed *t = &x->told;

	t->micro[0] = number(root, "micro_batches", 1, FF_MAX_MICRO_BATCHES, 1);
	x->s.micro_batches = t->micro[1];
	if (rule && rule->type == FF_JSON_STRING &&
			!strcmp(rule->text, ff_order_name(FF_ORDER_1F1B)))
		x->s.rule = FF_ORDER_1F1B;
	x->s.bucket_bytes = number(root, "bucket_bytes", 1, UINT32_MAX, 0);
	if (t->devices[1] % t->devices[0] == 0) {
		x->times = t->devices[1] / t->devices[0];
		x->part = 1;
	} else if (t->devices[0] % t->devices[1] == 0) {
		x->times = 1;
		x->part = t->devices[0] / t->devices[1];
	}
}

/* In told.micro[1] micro-batches. */
static int carry(struct carry *x, const struct ff_json *root, const struct ff_graph *g,
		struct ff_error *err)
{
	const struct ff_json *list;
	struct ff_graph micro;
	int64_t devices;
	int code;

	if ((code = ff_json_format(root, "ffsoap-strategy", FF_STRATEGY_VERSION, err)) < 0 ||
			(code = ff_json_int(root, "devices", 1, FF_MAX_DEVICES, &devices, err)) <
					0 ||
			(code = ff_json_need(root, "operators", FF_JSON_ARRAY, &list, err)) < 0 ||
			(code = ff_strategy_create(g, x->a, &x->s, err)) < 0)
		return code;
	x->told.devices[0] = (uint32_t)devices;
	read_header(x, root);
	code = ff_graph_micro(g, x->s.micro_batches, x->a, &micro, err);
	if (code < 0)
		return code;
	x->g = &micro;
	for (uint32_t i = 0; i < list->n; i++)
		carry_operator(x, &list->child[i]);
	fill(x);
	return ff_strategy_check(&micro, &x->s, x->told.devices[1], err);
}

/* In as many micro-batches as there, or fewer. */
static int carry_best(struct carry *x, const struct ff_json *root, const struct ff_space *s,
		const struct ff_graph *g, struct ff_error *err)
{
	struct carry best = {.told.unfit = UINT32_MAX};
	uint32_t most = number(root, "micro_batches", 1, FF_MAX_MICRO_BATCHES, 1);
	int code = FF_OK;

	for (uint32_t i = s->n_micro; i-- > 0 && code == FF_OK && best.told.unfit;) {
		struct carry now = {.a = x->a, .told.devices[1] = s->n_devices};

		if (s->micro[i] > most)
			continue;
		now.told.micro[1] = s->micro[i];
		code = carry(&now, root, g, err);
		if (code == FF_OK && now.told.unfit < best.told.unfit)
			best = now;
	}
	if (code < 0)
		return code;
	if (!best.told.kept)
		return ff_json_fail(root, err,
				"nothing of the plan can be carried over to graph %s on %u devices",
				g->name, s->n_devices);
	*x = best;
	return FF_OK;
}

int ff_resume_load(const char *path, const struct ff_space *s, const struct ff_graph *g,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_resumed *told,
		struct ff_error *err)
{
	struct carry x = {.a = a};
	const struct ff_json *root;
	struct ff_arena tree;
	int code;

	ff_arena_init(&tree);
	code = ff_json_load(path, &tree, &root, err);
	if (code == FF_OK)
		code = carry_best(&x, root, s, g, err);
	if (code == FF_OK)
		code = ff_space_fit_strategy(s, &x.s, false, path, err);
	ff_arena_finish(&tree);
	if (code < 0)
		return code;
	*ret = x.s;
	*told = x.told;
	return FF_OK;
}

void ff_resumed_tell(const struct ff_resumed *c, size_t size, char *text)
{
	int n = 0;

	*text = '\0';
	if (c->unnamed + c->unfit)
		n = snprintf(text, size,
				"; %u that it does not name and %u whose splits do not fit here "
				"are "
				"split by sample",
				c->unnamed, c->unfit);
	if (c->unknown && (size_t)n < size)
		n += snprintf(text + n, size - (size_t)n, "; %u of its operators are not here",
				c->unknown);
	if (c->micro[0] != c->micro[1] && (size_t)n < size)
		snprintf(text + n, size - (size_t)n, "; %u micro-batches are %u", c->micro[0],
				c->micro[1]);
}
