/* Proposals beyond the split of operators: where parameters are updated, and
 * operators computed several times over.  SPDX-License-Identifier: Apache-2.0 */
#include "extras.h"

#define ROUGH_SLACK 8  /* what a trade leaves over, at most: a part of so many */
#define FINE_SLACK 64  /* or so */
#define TRADE_TRIES 64 /* at finding who takes part */

void ff_param_follow(struct ff_config *ret)
{
	*ret = (struct ff_config){.replicas = 1};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		ret->degree[d] = 1;
}

void ff_param_cut(const struct ff_graph *g, uint32_t node, const struct ff_progression *on,
		struct ff_config *ret)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];
	uint32_t axis = 0, n;

	for (uint32_t i = 1; i < v->rank; i++)
		axis = v->shape[i] > v->shape[axis] ? i : axis;
	n = (uint32_t)v->shape[axis] < on->n ? (uint32_t)v->shape[axis] : on->n;
	ff_param_follow(ret);
	ret->n_parts = n;
	ret->start = (uint16_t)on->start;
	ret->degree[axis] = (uint16_t)n;
	ret->stride[axis] = n > 1 ? (uint16_t)on->step : 0;
}

void ff_param_flat(struct ff_config *ret)
{
	ff_param_follow(ret);
	ret->flat = true;
}

void ff_params_zero(const struct ff_space *space, const struct ff_graph *g, uint32_t stage,
		struct ff_strategy *s)
{
	if (!(space->what & FF_SPACE_UPDATES))
		return;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (!ff_node_is_parameter(g, i))
			continue;
		if (stage)
			ff_param_flat(&s->config[i]);
		else
			ff_param_follow(&s->config[i]);
		s->scatter = stage == 2;
		s->recompute[i] = stage == 3 && space->what & FF_SPACE_RECOMPUTE;
	}
}

static void set_update(
		struct ff_proposer *p, uint32_t param, enum ff_update_proposal how, uint32_t server)
{
	const struct ff_graph *g = p->graph;
	const struct ff_value *v = &g->values[g->nodes[param].out];
	uint32_t reader = g->edges[g->uses[v->first_use]].node;
	struct ff_progression on =
			ff_config_progression(&g->nodes[reader], ff_proposer_config(p, reader));
	struct ff_config c;

	if (on.start + (on.n - 1) * on.step >= p->space->n_devices)
		how = FF_UPDATE_FOLLOW; /* a list written by hand */
	if (how == FF_UPDATE_SERVED)
		on = (struct ff_progression){on.start + server % on.n * on.step, on.step, 1};
	if (how == FF_UPDATE_FOLLOW)
		ff_param_follow(&c);
	else if (how == FF_UPDATE_FLAT)
		ff_param_flat(&c);
	else
		ff_param_cut(g, param, &on, &c);
	ff_transaction_set(p->t, param, &c);
}

void ff_proposer_update(
		struct ff_proposer *p, uint32_t node, enum ff_update_proposal how, uint32_t server)
{
	const struct ff_node *n = &p->graph->nodes[node];

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		set_update(p, ff_edge_source(p->graph, k), how, server);
}

/* The parameters of one operator, of some in a row, of all equal to it, or of all. */
void ff_propose_updates(struct ff_proposer *p)
{
	uint32_t node = p->reader[ff_random_below(&p->random, p->n_readers)];
	enum ff_update_proposal how =
			(enum ff_update_proposal)ff_random_below(&p->random, FF_UPDATE_PROPOSALS);
	uint32_t server = ff_random_u32(&p->random), reach = ff_random_below(&p->random, 4);
	uint32_t first = ff_random_below(&p->random, p->n_readers);
	uint32_t end = first + 1 + ff_random_below(&p->random, p->n_readers - first);

	if (reach == 0)
		ff_proposer_update(p, node, how, server);
	for (uint32_t i = 0; i < p->n_readers && reach > 0; i++) {
		bool in_row = i >= first && i < end;
		bool equal = p->class[p->reader[i]] == p->class[node];

		if (reach == 3 || (reach == 1 && in_row) || (reach == 2 && equal))
			ff_proposer_update(p, p->reader[i], how, server + i);
	}
}

static bool follows(const struct ff_proposer *p, uint32_t reader)
{
	const struct ff_node *n = &p->graph->nodes[p->reader[reader]];

	return p->base->config[ff_edge_source(p->graph, n->in + n->n_data)].n_parts == 0;
}

/* Gradients of what follows are all-reduced together once there are enough of them
 * (ff/block.h), and what is moved then has to wait.  So who leaves them is replaced, by
 * others of about as many bytes, and who joins them replaces others: when they are
 * enough stays as it was. */
void ff_propose_trade(struct ff_proposer *p)
{
	uint32_t first = ff_random_below(&p->random, p->n_readers), server;
	bool leaves = follows(p, first);
	enum ff_update_proposal out =
			ff_random_below(&p->random, 4) ? FF_UPDATE_SHARDED : FF_UPDATE_SERVED;
	int64_t left = p->reader_bytes[first];
	int64_t slack = left / (ff_random_below(&p->random, 2) ? FINE_SLACK : ROUGH_SLACK);

	server = ff_random_u32(&p->random);
	ff_proposer_update(p, p->reader[first], leaves ? out : FF_UPDATE_FOLLOW, server);
	for (uint32_t i = 0; i < TRADE_TRIES && left > slack; i++) {
		uint32_t other = ff_random_below(&p->random, p->n_readers);
		const struct ff_node *n = &p->graph->nodes[p->reader[other]];

		if (follows(p, other) == leaves || p->reader_bytes[other] > left + slack ||
				p->t->at[ff_edge_source(p->graph, n->in + n->n_data)])
			continue;
		ff_proposer_update(p, p->reader[other], leaves ? FF_UPDATE_FOLLOW : out,
				server + other);
		left -= p->reader_bytes[other];
	}
}

/* The same cells, each on its first device alone.  Those that replicas stood between would have
 * gaps there, which no view has: they close up. */
static void drop_replicas(const struct ff_node *n, struct ff_config *c)
{
	const uint32_t cells = ff_config_cells(c), replicas = c->replicas;
	struct ff_progression on;
	uint32_t last = 0;

	c->n_parts = cells;
	c->replicas = 1;
	on = ff_config_progression(n, c);
	for (uint32_t d = 0; d < n->n_dims; d++)
		last += (c->degree[d] - 1u) * c->stride[d];
	for (uint32_t d = 0; d < n->n_dims && last > (cells - 1) * on.step; d++)
		if (c->stride[d] > c->replica_stride)
			c->stride[d] = (uint16_t)(c->stride[d] / replicas);
	c->replica_stride = 0;
}

/* The same cells on more devices, or on one each again. */
void ff_propose_replicas(struct ff_proposer *p)
{
	uint32_t node = p->node[ff_random_below(&p->random, p->n_nodes)];
	struct ff_config c = *ff_proposer_config(p, node);
	uint32_t cells = ff_config_cells(&c), most = p->space->n_devices / cells, last;
	bool replicated = c.replicas > 1;
	struct ff_progression on;

	if (c.list || (!replicated && most < 2))
		return;
	drop_replicas(&p->graph->nodes[node], &c);
	if (replicated && (most < 2 || ff_random_below(&p->random, 2))) {
		ff_transaction_set(p->t, node, &c);
		return;
	}
	/* behind the cells, which stand `step` apart: so no two meet */
	on = ff_config_progression(&p->graph->nodes[node], &c);
	c.replicas = (uint16_t)(ff_random_below(&p->random, 2) ? most : 2);
	c.n_parts = cells * c.replicas;
	last = (c.n_parts - 1) * on.step;
	if (c.start + last >= p->space->n_devices)
		c.start = 0;
	if (last >= p->space->n_devices)
		return;
	c.replica_stride = (uint16_t)(cells * on.step);
	ff_transaction_set(p->t, node, &c);
}

int ff_proposer_find_readers(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_graph *g = p->graph;

	p->reader = ff_arena_array(a, g->n_nodes, sizeof(*p->reader));
	p->reader_bytes = ff_arena_array(a, g->n_nodes, sizeof(*p->reader_bytes));
	if (!p->reader || !p->reader_bytes)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
			p->reader_bytes[p->n_readers] +=
					ff_value_bytes(&g->values[g->edges[k].value]);
		if (n->n_in > n->n_data)
			p->reader[p->n_readers++] = i;
	}
	return FF_OK;
}
