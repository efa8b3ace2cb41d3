/* Strategies: the ones every tool knows, and their issue order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/strategy.h"

#include <string.h>

const struct ff_order_row *ff_order_row(enum ff_order_rule rule)
{
	static const struct ff_order_row rows[FF_ORDER_COUNT] = {
			[FF_ORDER_GPIPE] = {"gpipe", 1, false},
			[FF_ORDER_1F1B] = {"1f1b", 1, false},
			[FF_ORDER_INTERLEAVED] = {"interleaved", 0, false},
			[FF_ORDER_ZB_H1] = {"zb-h1", 1, true},
			[FF_ORDER_ZB_V] = {"zb-v", 2, true}};

	return &rows[rule];
}

bool ff_order_find(const char *name, enum ff_order_rule *ret)
{
	for (int k = 0; k < FF_ORDER_COUNT; k++)
		if (!strcmp(name, ff_order_name((enum ff_order_rule)k))) {
			*ret = (enum ff_order_rule)k;
			return true;
		}
	return false;
}

int ff_strategy_create(const struct ff_graph *g, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err)
{
	struct ff_strategy s = {.n_nodes = g->n_nodes, .micro_batches = 1, .chunks = 1};

	s.config = ff_arena_array(a, g->n_nodes, sizeof(*s.config));
	s.priority = ff_arena_array(a, g->n_nodes, sizeof(*s.priority));
	s.stage = ff_arena_array(a, g->n_nodes, sizeof(*s.stage));
	s.recompute = ff_arena_array(a, g->n_nodes, sizeof(*s.recompute));
	if (!s.config || !s.priority || !s.stage || !s.recompute)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		s.config[i].replicas = 1;
		for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
			s.config[i].degree[d] = 1;
	}
	*ret = s;
	return FF_OK;
}

void ff_strategy_copy(struct ff_strategy *ret, const struct ff_strategy *s)
{
	size_t n = s->n_nodes;

	ret->micro_batches = s->micro_batches;
	ret->rule = s->rule;
	ret->chunks = s->chunks;
	memcpy(ret->ticks, s->ticks, sizeof(ret->ticks));
	ret->bucket_bytes = s->bucket_bytes;
	ret->scatter = s->scatter;
	ret->shards = s->shards;
	memcpy(ret->config, s->config, n * sizeof(*s->config));
	memcpy(ret->priority, s->priority, n * sizeof(*s->priority));
	memcpy(ret->stage, s->stage, n * sizeof(*s->stage));
	memcpy(ret->recompute, s->recompute, n * sizeof(*s->recompute));
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

/* What a stage makes goes to itself and to later ones; parameters and inputs are there
 * from the start. */
static int check_stages(const struct ff_graph *g, const struct ff_strategy *s, struct ff_error *err)
{
	for (uint32_t e = 0; e < g->n_edges; e++) {
		uint32_t from = ff_edge_source(g, e), to = g->edges[e].node;

		if (ff_node_is_computed(g, from) &&
				ff_strategy_stage(g, s, from) > ff_strategy_stage(g, s, to))
			return ff_fail(err, FF_E_INPUT,
					"operator %s is in stage %u, but %s, which reads what it "
					"makes, in stage %u",
					g->nodes[from].name, s->stage[from], g->nodes[to].name,
					s->stage[to]);
	}
	return FF_OK;
}

bool ff_strategy_settle(const struct ff_graph *g, struct ff_strategy *s)
{
	bool any = false;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		bool vain = s->recompute[i] && ff_node_is_parameter(g, i) &&
			    !s->config[i].n_parts && !s->config[i].flat;

		s->recompute[i] = s->recompute[i] && !vain;
		any = any || vain;
	}
	return any;
}

static int check_recompute(
		const struct ff_graph *g, const struct ff_strategy *s, struct ff_error *err)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (s->recompute[i] && (ff_node_is_loss(g, i) || ff_node_is_source(g, i)))
			return ff_fail(err, FF_E_INPUT, "%s cannot be computed again",
					g->nodes[i].name);
	return FF_OK;
}

int ff_strategy_check(const struct ff_graph *g, const struct ff_strategy *s, uint32_t n_devices,
		struct ff_error *err)
{
	int code = check_stages(g, s, err);

	if (code == FF_OK)
		code = check_recompute(g, s, err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		if (!s->config[i].n_parts && ff_node_needs_config(g, i))
			return ff_fail(err, FF_E_INPUT, "operator %s has no config",
					g->nodes[i].name);
		if (s->config[i].n_parts && ff_node_is_prelude(g, i))
			return ff_fail(err, FF_E_INPUT,
					"operator %s has the config of %s, not its own",
					g->nodes[i].name, g->nodes[ff_node_leader(g, i)].name);
		if (s->config[i].flat && (s->config[i].n_parts || !ff_node_is_parameter(g, i)))
			return ff_fail(err, FF_E_INPUT,
					"%s cannot be updated flat: only a parameter can that has "
					"no parts of its own",
					g->nodes[i].name);
		if (s->config[i].n_parts)
			code = ff_config_check(&g->nodes[i], &s->config[i], n_devices, err);
	}
	return code;
}

/* A binary heap of ready nodes, the next to issue on top. */
struct ready {
	const struct ff_graph *g;
	const struct ff_strategy *s;
	uint32_t *node, n;
};

static bool before(const struct ready *r, uint32_t a, uint32_t b)
{
	uint32_t stage_a = ff_strategy_stage(r->g, r->s, a),
		 stage_b = ff_strategy_stage(r->g, r->s, b);
	const int32_t *priority = r->s->priority;

	if (stage_a != stage_b)
		return stage_a < stage_b;
	return priority[a] != priority[b] ? priority[a] > priority[b] : a < b;
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
			uint32_t next = ff_value_reader(g, v, u);

			if (next != node && !--waits[next])
				ready_push(r, next);
		}
	}
}

int ff_strategy_order(const struct ff_graph *g, const struct ff_strategy *s,
		struct ff_arena *scratch, uint32_t *order, struct ff_error *err)
{
	struct ready r = {.g = g, .s = s};
	uint32_t *waits = ff_arena_array(scratch, g->n_nodes, sizeof(*waits)), n = 0;

	r.node = ff_arena_array(scratch, g->n_nodes, sizeof(*r.node));
	if (!waits || !r.node)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		waits[i] = g->nodes[i].n_in - g->nodes[i].n_carried;
	/* nobody waits for what is there from the start */
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!ff_node_is_computed(g, i)) {
			order[n++] = i;
			issued(g, i, waits, &r);
		}
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_computed(g, i) && !g->nodes[i].n_in)
			ready_push(&r, i);
	while (r.n) {
		order[n] = ready_pop(&r);
		issued(g, order[n++], waits, &r);
	}
	return FF_OK;
}
