/* Random strategies and machines.  SPDX-License-Identifier: Apache-2.0 */
#include "random_graph.h"

/* A random walk up from no split at all: reaches every legal degree vector. */
static void random_degrees(struct ff_random *r, const struct ff_node *n, uint32_t n_devices,
		struct ff_config *c)
{
	for (uint32_t tries = ff_random_below(r, 6); tries > 0; tries--) {
		uint32_t d = ff_random_below(r, n->n_dims), most;
		uint32_t others = c->n_parts / c->degree[d];

		most = n_devices / others;
		if (most > (uint32_t)n->dim[d].extent)
			most = (uint32_t)n->dim[d].extent;
		c->degree[d] = (uint16_t)(1 + ff_random_below(r, most));
		c->n_parts = others * c->degree[d];
	}
}

/* One dim alone takes all parts, as people split layers. */
static void one_degree(struct ff_random *r, const struct ff_node *n, uint32_t n_devices,
		struct ff_config *c)
{
	uint32_t d = ff_random_below(r, n->n_dims), extent;

	/* preferably one of weights: those of neighbours make collectives */
	for (int tries = 0; tries < 3 && (n->dim[d].label == FF_DIM_SAMPLE ||
							 n->dim[d].label == FF_DIM_ATTRIBUTE);
			tries++)
		d = ff_random_below(r, n->n_dims);
	extent = (uint32_t)n->dim[d].extent;
	c->n_parts = extent < n_devices ? extent : n_devices;
	c->degree[d] = (uint16_t)c->n_parts;
}

/* Two or three of each part, where there is room. */
static void random_replicas(struct ff_random *r, uint32_t n_devices, struct ff_config *c)
{
	uint32_t replicas = 2 + ff_random_below(r, 2);

	if (c->n_parts * replicas > n_devices)
		return;
	c->replicas = (uint16_t)replicas;
	c->n_parts *= replicas;
}

/* Dims (and replicas, the last) in any order of strides, with gaps or without,
 * from any device; false when there is no room. */
static bool random_view(struct ff_random *r, const struct ff_node *n, uint32_t n_devices,
		struct ff_config *c)
{
	uint32_t order[FF_MAX_DIMS + 1], step = 1 + ff_random_below(r, 2), reach = 0;

	for (uint32_t i = 0; i <= n->n_dims; i++) {
		uint32_t k = ff_random_below(r, i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	for (uint32_t i = 0; i <= n->n_dims; i++) {
		uint32_t d = order[i], degree = d < n->n_dims ? c->degree[d] : c->replicas;

		*(d < n->n_dims ? &c->stride[d] : &c->replica_stride) = (uint16_t)step;
		reach += (degree - 1) * step;
		step *= degree;
	}
	if (reach >= n_devices)
		return false;
	c->start = (uint16_t)ff_random_below(r, n_devices - reach);
	return true;
}

/* Half of the time in order, so that neighbours meet on the same devices. */
static const uint16_t *random_devices(struct ff_random *r, uint32_t n_devices, struct ff_arena *a)
{
	uint16_t *list = ff_arena_array(a, n_devices, sizeof(*list));
	bool ordered = ff_random_below(r, 2);

	for (uint32_t i = 0; list && i < n_devices; i++) {
		uint32_t k = ordered ? i : ff_random_below(r, i + 1);

		list[i] = list[k];
		list[k] = (uint16_t)i;
	}
	return list;
}

/* A parameter's shards by their first axis, on some devices or all; on one
 * device; on several alike; anything. */
static void random_shards(struct ff_random *r, const struct ff_node *n, uint32_t n_devices,
		struct ff_config *c)
{
	uint32_t most = (uint32_t)n->dim[0].extent < n_devices ? (uint32_t)n->dim[0].extent
							       : n_devices;

	switch (ff_random_below(r, 4)) {
	case 0:
		c->n_parts = ff_random_below(r, 2) ? most : 1 + ff_random_below(r, most);
		c->degree[0] = (uint16_t)c->n_parts;
		break;
	case 1:
		break;
	case 2:
		c->n_parts = 1 + ff_random_below(r, n_devices);
		c->replicas = (uint16_t)c->n_parts;
		break;
	default:
		random_degrees(r, n, n_devices, c);
		random_replicas(r, n_devices, c);
	}
}

int random_config(struct ff_random *r, const struct ff_graph *g, uint32_t node, uint32_t n_devices,
		struct ff_arena *a, struct ff_config *ret, struct ff_error *err)
{
	const struct ff_node *n = &g->nodes[node];
	struct ff_config c = {.n_parts = 1, .replicas = 1};

	for (uint32_t i = 0; i < FF_MAX_DIMS; i++)
		c.degree[i] = 1;
	if (ff_node_is_source(g, node) || ff_node_is_prelude(g, node) ||
			(ff_node_is_parameter(g, node) && ff_random_below(r, 3) == 0))
		c.n_parts = 0;
	else if (ff_node_is_parameter(g, node))
		random_shards(r, n, n_devices, &c);
	else
		random_degrees(r, n, n_devices, &c);
	c.flat = ff_node_is_parameter(g, node) && !c.n_parts && ff_random_below(r, 2);
	if (ff_node_needs_config(g, node) && ff_random_below(r, 4) == 0)
		random_replicas(r, n_devices, &c);
	if (c.n_parts && (ff_random_below(r, 2) || !random_view(r, n, n_devices, &c))) {
		c.list = random_devices(r, n_devices, a);
		if (!c.list)
			return ff_fail_memory(err);
	}
	*ret = c;
	return FF_OK;
}

void random_alike(struct ff_random *r, const struct ff_graph *g, uint32_t node, uint32_t n_devices,
		const struct ff_config *config, struct ff_config *ret)
{
	const struct ff_node *n = &g->nodes[node];
	uint32_t seen = 0;

	if (!ff_node_is_computed(g, node) || ff_node_is_prelude(g, node) || ff_random_below(r, 3))
		return;
	for (uint32_t k = n->in; k < n->in + n->n_in; k++) {
		const struct ff_value *v = &g->values[g->edges[k].value];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t other = ff_value_reader(g, v, u);
			struct ff_error err = {0};

			if (other != node && config[other].n_parts &&
					g->nodes[other].n_dims == n->n_dims &&
					ff_config_check(n, &config[other], n_devices, &err) ==
							FF_OK &&
					!ff_random_below(r, ++seen))
				*ret = config[other];
		}
	}
}

/* Each node behind all that it reads, now and then in the stage after. */
static void random_stages(struct ff_random *r, const struct ff_graph *g, struct ff_strategy *s)
{
	for (uint32_t e = 0; e < g->n_edges; e++) {
		uint32_t from = ff_edge_source(g, e), to = g->edges[e].node;

		if (ff_node_is_computed(g, from) && s->stage[to] < s->stage[from])
			s->stage[to] = s->stage[from];
		if (e + 1 == g->nodes[to].in + g->nodes[to].n_in && ff_random_below(r, 3) == 0)
			s->stage[to]++;
	}
}

int random_phases(struct ff_random *r, const struct ff_graph *g, struct ff_arena *a,
		struct ff_strategy *s, struct ff_graph *micro, struct ff_error *err)
{
	uint32_t recomputed = ff_random_below(r, 3); /* of none, of some, of most */

	if (ff_random_below(r, 2))
		s->micro_batches = 1 + ff_random_below(r, (uint32_t)g->batch);
	while ((uint32_t)g->batch % s->micro_batches)
		s->micro_batches--;
	s->rule = ff_random_below(r, 2) ? FF_ORDER_1F1B : FF_ORDER_GPIPE;
	if (ff_random_below(r, 2))
		random_stages(r, g, s);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		s->recompute[i] = !ff_node_is_loss(g, i) && !ff_node_is_source(g, i) &&
				  ff_random_below(r, 4) < 2 * recomputed - (recomputed == 2);
	/* some operators need all samples at once */
	if (ff_graph_micro(g, s->micro_batches, a, micro, err) == FF_OK)
		return FF_OK;
	s->micro_batches = 1;
	return ff_graph_micro(g, 1, a, micro, err);
}

void random_order(struct ff_random *r, struct ff_strategy *s)
{
	s->rule = (enum ff_order_rule)ff_random_below(r, FF_ORDER_COUNT);
	s->chunks = s->rule == FF_ORDER_INTERLEAVED ? 2 + ff_random_below(r, 2) : 1;
	for (int k = 0; k < FF_STAGE_PASSES && s->rule != FF_ORDER_GPIPE; k++)
		s->ticks[k] = (uint8_t)(1 + ff_random_below(r, 4));
}

/* By one axis over the devices of the first reader, now and then with copies. */
static void random_cut(struct ff_random *r, const struct ff_graph *g, uint32_t param,
		struct ff_arena *a, struct ff_strategy *s)
{
	const struct ff_node *n = &g->nodes[param];
	uint32_t node = ff_node_leader(g, g->edges[g->uses[g->values[n->out].first_use]].node);
	const struct ff_config *reader = &s->config[node];
	uint32_t axis = ff_random_below(r, n->n_dims);
	struct ff_config c = {.n_parts = reader->n_parts, .replicas = 1};
	uint16_t *list = ff_arena_array(a, reader->n_parts, sizeof(*list));
	uint32_t cut = reader->n_parts;

	while (ff_random_below(r, 2) && cut > 1)
		for (cut--; reader->n_parts % cut;)
			cut--;
	if (!list || reader->n_parts < 2 || n->dim[axis].extent < (int32_t)cut)
		return;
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c.degree[d] = 1;
	c.degree[axis] = (uint16_t)cut;
	c.replicas = (uint16_t)(reader->n_parts / cut);
	ff_config_devices(&g->nodes[node], reader, list);
	c.list = list;
	s->config[param] = c;
}

void random_scattered(struct ff_random *r, const struct ff_graph *g, struct ff_arena *a,
		struct ff_strategy *s)
{
	s->scatter = ff_random_below(r, 2);
	s->shards = ff_random_below(r, 2) ? 2 + ff_random_below(r, 2) : 0;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i) && ff_random_below(r, 4) == 0)
			random_cut(r, g, i, a, s);
}

int random_strategy(struct ff_random *r, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_graph *micro,
		struct ff_error *err)
{
	bool priorities = ff_random_below(r, 3) == 0, plain = ff_random_below(r, 4) == 0;
	bool follow = ff_random_below(r, 2);
	int code = ff_strategy_single(g, 0, a, ret, err);

	if (code == FF_OK && micro) {
		code = random_phases(r, g, a, ret, micro, err);
		g = micro;
	}
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		struct ff_config *c = &ret->config[i];

		if (ff_node_is_parameter(g, i) && follow) {
			c->flat = ff_random_below(r, 3) == 0;
			continue;
		}
		if (plain && c->n_parts) {
			one_degree(r, &g->nodes[i], n_devices, c);
			c->list = random_devices(r, n_devices, a);
			code = c->list ? FF_OK : ff_fail_memory(err);
		} else {
			code = random_config(r, g, i, n_devices, a, c, err);
		}
		random_alike(r, g, i, n_devices, ret->config, c);
		if (priorities)
			ret->priority[i] = (int32_t)ff_random_below(r, 5) - 2;
	}
	return code;
}

int random_machine(struct ff_random *r, uint32_t n_devices, struct ff_arena *a,
		struct ff_machine *ret, struct ff_error *err)
{
	struct ff_machine m = {.name = "random", .n_devices = n_devices, .n_kinds = 1};
	uint32_t half = n_devices / 2, lanes;

	m.n_nodes = n_devices > 1 ? 1 + ff_random_below(r, 2) : 1;
	lanes = ff_random_below(r, 4);
	m.overlap = lanes > 1;
	m.message_lane = lanes == 3;
	m.kinds = ff_arena_alloc(a, sizeof(*m.kinds));
	m.nodes = ff_arena_array(a, m.n_nodes, sizeof(*m.nodes));
	m.node_of = ff_arena_array(a, n_devices, sizeof(*m.node_of));
	if (!m.kinds || !m.nodes || !m.node_of)
		return ff_fail_memory(err);
	*m.kinds = (struct ff_device_kind){"cpu", 1e11, 1e10, (int64_t)1 << 32};
	for (uint32_t i = 0; i < m.n_nodes; i++)
		m.nodes[i] = (struct ff_machine_node){
				.first = i ? half : 0,
				.count = m.n_nodes == 1 ? n_devices
					 : i            ? n_devices - half
							: half,
				.inside = {0.01, 1e4, ff_random_below(r, 2)},
				.network = {5, 1e3, true},
		};
	for (uint32_t i = 0; i < n_devices; i++)
		m.node_of[i] = m.n_nodes == 2 && i >= half;
	ff_machine_number_cards(&m);
	*ret = m;
	return FF_OK;
}
