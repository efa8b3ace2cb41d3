/* Plans carried over.  SPDX-License-Identifier: Apache-2.0 */
#include "resume.h"

#include <stdio.h>
#include <string.h>

#include "ff/micro.h"
#include "ff/strategy_file.h"
#include "propose/extras.h"
#include "space/carry_config.h"
#include "space/limits.h"

struct carry {
	const struct ff_graph *g; /* of one micro-batch */
	struct ff_arena *a;
	struct ff_strategy s;
	struct ff_resumed told;
};

/* ---- what the file says ---- */

/* A number of `v` from `min` to `max`; else `preset`. */
static int64_t number(
		const struct ff_json *v, const char *key, int64_t min, int64_t max, int64_t preset)
{
	struct ff_error why;
	int64_t n;

	if (!ff_json_get(v, key) || ff_json_int(v, key, min, max, &n, &why) < 0)
		return preset;
	return n;
}

/* Split by sample, where its input is or, without one, everywhere. */
static void place_by_sample(struct carry *x, uint32_t node)
{
	const struct ff_graph *g = x->g;
	const struct ff_node *n = &g->nodes[node];
	uint32_t devices = x->told.devices[1], first = 0;

	for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
		uint32_t from = ff_node_leader(g, ff_edge_source(g, k));

		if (from >= node || !ff_node_needs_config(g, from))
			continue;
		devices = x->s.config[from].n_parts;
		first = x->s.config[from].start;
		break;
	}
	if (first + devices > x->told.devices[1])
		first = 0;
	ff_carry_samples(n, first, devices, &x->s.config[node]);
}

/* ---- operators ---- */

static void carry_parameter(struct carry *x, uint32_t node, const struct ff_json *op)
{
	struct ff_config *c = &x->s.config[node], there;
	const struct ff_node *n = &x->g->nodes[node];

	ff_param_follow(c);
	c->flat = ff_json_get(op, "update") != NULL;
	if (c->flat || !ff_carry_read(op, n, x->a, &there))
		return;
	ff_carry_parameter(&there, n, x->told.devices[0], x->told.devices[1], c);
}

static void carry_operator(struct carry *x, const struct ff_json *op)
{
	const struct ff_json *recomputed = ff_json_get(op, "recompute"),
			     *name = ff_json_get(op, "name");
	uint32_t node = name && name->type == FF_JSON_STRING ? ff_graph_find(x->g, name->text)
							     : FF_NONE;
	enum ff_carried carried = FF_CARRIED_NOT;
	struct ff_config there;

	if (node == FF_NONE || ff_node_is_prelude(x->g, node)) {
		x->told.unknown++;
		return;
	}
	x->s.stage[node] = (uint16_t)number(op, "stage", 0, FF_MAX_DEVICES - 1, 0);
	x->s.priority[node] = (int32_t)number(op, "priority", INT32_MIN, INT32_MAX, 0);
	x->s.recompute[node] =
			recomputed && recomputed->type == FF_JSON_BOOL && recomputed->number > 0;
	if (ff_node_is_parameter(x->g, node)) {
		carry_parameter(x, node, op);
		return;
	}
	if (!ff_node_needs_config(x->g, node))
		return;
	if (ff_carry_read(op, &x->g->nodes[node], x->a, &there))
		carried = ff_carry_config(&there, &x->g->nodes[node], x->told.devices[0],
				x->told.devices[1], &x->s.config[node]);
	x->told.unfit += carried == FF_CARRIED_NOT;
	x->told.less += carried == FF_CARRIED_LESS;
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
	struct ff_error why;

	t->micro[0] = (uint32_t)number(root, "micro_batches", 1, FF_MAX_MICRO_BATCHES, 1);
	x->s.micro_batches = t->micro[1];
	if (rule && rule->type == FF_JSON_STRING)
		ff_order_find(rule->text, &x->s.rule);
	if (x->s.rule == FF_ORDER_INTERLEAVED)
		x->s.chunks = (uint32_t)number(root, "chunks", 2, FF_MOST_CHUNKS, 2);
	x->s.bucket_bytes = number(root, "bucket_bytes", 1, FF_MOST_BUCKET_BYTES, 0);
	x->s.scatter = ff_json_get(root, "gradients") != NULL;
	x->s.shards = (uint32_t)number(root, "shards", 2, FF_MAX_DEVICES, 0);
	if (ff_strategy_read_ticks(root, &x->s, &why) < 0)
		memset(x->s.ticks, 0, sizeof(x->s.ticks));
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
	x->g = NULL; /* it lives here alone */
	return ff_strategy_check(&micro, &x->s, x->told.devices[1], err);
}

/* Whether a plan may be in so many micro-batches, though the search proposes no such number. */
static bool may_begin_in(const struct ff_space *s, uint32_t micro, bool any_micro)
{
	return any_micro && s->n_micro > 1 &&
	       (!s->limits.max_micro || micro <= s->limits.max_micro);
}

/* In as many micro-batches as there, or fewer. */
static int carry_best(struct carry *x, const struct ff_json *root, const struct ff_space *s,
		const struct ff_graph *g, bool any_micro, struct ff_error *err)
{
	struct carry best = {0};
	uint32_t fewest = UINT32_MAX; /* whose splits do not fit as they are */
	uint32_t most = (uint32_t)number(root, "micro_batches", 1, FF_MAX_MICRO_BATCHES, 1);
	int code = FF_OK;

	for (uint32_t i = s->n_micro + 1; i-- > 0 && code == FF_OK && fewest;) {
		struct carry now = {.a = x->a, .told.devices[1] = s->n_devices};

		now.told.micro[1] = i == s->n_micro ? most : s->micro[i];
		if (i == s->n_micro ? !may_begin_in(s, most, any_micro) : s->micro[i] > most)
			continue;
		code = carry(&now, root, g, err);
		if (code == FF_OK && now.told.unfit + now.told.less < fewest) {
			best = now;
			fewest = now.told.unfit + now.told.less;
		}
		if (code == FF_E_INPUT && i) /* this batch is not cut in so many */
			code = FF_OK;
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
		bool any_micro, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_resumed *told, struct ff_error *err)
{
	struct carry x = {.a = a};
	const struct ff_json *root;
	struct ff_arena tree;
	int code;

	ff_arena_init(&tree);
	code = ff_json_load(path, &tree, &root, err);
	if (code == FF_OK)
		code = carry_best(&x, root, s, g, any_micro, err);
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
				"are split by sample",
				c->unnamed, c->unfit);
	if (c->less && (size_t)n < size)
		n += snprintf(text + n, size - (size_t)n, "; %u are cut less often", c->less);
	if (c->unknown && (size_t)n < size)
		n += snprintf(text + n, size - (size_t)n, "; %u of its operators are not here",
				c->unknown);
	if (c->micro[0] != c->micro[1] && (size_t)n < size)
		snprintf(text + n, size - (size_t)n, "; %u micro-batches are %u", c->micro[0],
				c->micro[1]);
}
