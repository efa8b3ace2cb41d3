/* Layers: what a proposal changes in one block of a network is changed in others as well.  That one
 * of 48 equal layers is better off otherwise is seldom so, and 48 steps to where all are, each
 * better than the one before, are seldom there.  SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include "space/repeats.h"

/* `a`, `b` and their parameters are in the same place of two blocks, one behind the other. */
static void link(struct ff_proposer *p, uint32_t a, uint32_t b)
{
	const struct ff_node *n = &p->graph->nodes[a];

	p->next_layer[a] = b;
	for (uint32_t k = 0; k < n->n_in - n->n_data; k++) {
		uint32_t own = ff_node_own_parameter(p->graph, a, k),
			 other = ff_node_own_parameter(p->graph, b, k);

		if (own != FF_NONE && other != FF_NONE)
			p->next_layer[own] = other;
	}
}

/* The operators of each block in a row: `row` has room for all, *n is how many a block has; 0: not
 * all have as many. */
static void list_blocks(
		const struct ff_graph *g, const struct ff_repeats *r, uint32_t *row, uint32_t *n)
{
	uint32_t block = 0, count = 0, all = 0;

	*n = 0;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		if (!ff_node_needs_config(g, i) || r->block[i] == FF_NONE)
			continue;
		if (r->block[i] != block) {
			*n = block == 0 ? count : *n;
			if (r->block[i] != block + 1 || count != *n)
				break;
			block++;
			count = 0;
		}
		row[all++] = i;
		count++;
	}
	if (block + 1 != r->n_blocks || count != *n)
		*n = 0;
}

int ff_proposer_find_layers(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err)
{
	struct ff_repeats repeats;
	uint32_t n = 0, needed = 0;
	int code = ff_repeats_find(p->graph, NULL, 1, a, &repeats, err);

	p->next_layer = ff_arena_array(a, p->graph->n_nodes, sizeof(*p->next_layer));
	if (code == FF_OK && !p->next_layer)
		code = ff_fail_memory(err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < p->graph->n_nodes; i++) {
		p->next_layer[i] = FF_NONE;
		needed += ff_node_needs_config(p->graph, i);
	}
	if (repeats.n_blocks > 1)
		list_blocks(p->graph, &repeats, p->stack.node, &n);
	p->n_layers = 2 * n * repeats.n_blocks >= needed ? repeats.n_blocks : 0;
	for (uint32_t i = 0; n && i < n * p->n_layers; i++)
		link(p, p->stack.node[i], p->stack.node[(i + n) % (n * p->n_layers)]);
	p->n_layers = n ? p->n_layers : 0;
	return FF_OK;
}

/* Whether all parts of a config on a view that begins at `start` have a device. */
static bool has_devices(const struct ff_proposer *p, const struct ff_node *n,
		const struct ff_config *c, uint32_t start)
{
	uint32_t last = start + (c->replicas - 1u) * c->replica_stride;

	for (uint32_t d = 0; d < n->n_dims; d++)
		last += (c->degree[d] - 1u) * c->stride[d];
	return last < p->space->n_devices;
}

/* The operator whose place `node` has: parameters are where they are first read. */
static uint32_t placed_with(const struct ff_graph *g, uint32_t node)
{
	if (!ff_node_is_parameter(g, node))
		return node;
	return g->edges[g->uses[g->values[g->nodes[node].out].first_use]].node;
}

/* Where `c` of `node` begins as config of `other`: in another stage it is on that one's devices.
 * False: there is no saying. */
static bool carry(const struct ff_proposer *p, uint32_t node, uint32_t other,
		const struct ff_config *c, uint16_t *start)
{
	const struct ff_strategy *s = p->base;
	uint32_t at = placed_with(p->graph, node), to = placed_with(p->graph, other);
	int32_t moved;

	*start = c->start;
	if (!c->n_parts || s->stage[at] == s->stage[to])
		return true;
	moved = (int32_t)c->start + s->config[to].start - s->config[at].start;
	if (c->list || moved < 0)
		return false;
	*start = (uint16_t)moved;
	return has_devices(p, &p->graph->nodes[other], c, *start);
}

/* Each reach by how often one of it helped lately, as kinds are drawn. */
static uint32_t draw_reach(struct ff_proposer *p)
{
	double weight[FF_REACHES], sum = 0, at;
	uint32_t reach = 0;

	if (ff_random_below(&p->random, FF_PRESET_EVERY) == 0)
		return ff_random_below(&p->random, FF_REACHES);
	for (uint32_t i = 0; i < FF_REACHES; i++)
		sum += weight[i] = ff_kind_helps(&p->reached[i]);
	at = ff_random_unit(&p->random) * sum;
	for (; reach + 1 < FF_REACHES && at >= weight[reach]; reach++)
		at -= weight[reach];
	return reach;
}

/* The same in the next `most` blocks. */
static void reach(struct ff_proposer *p, uint32_t most)
{
	uint32_t end = p->t->n;
	uint16_t start;

	for (uint32_t i = 0; i < end; i++) {
		struct ff_change change = p->t->change[i];
		uint32_t other = p->next_layer[change.node];

		for (uint32_t k = 0; other != FF_NONE && k < most; k++) {
			if (other != change.node &&
					carry(p, change.node, other, &change.config, &start))
				ff_transaction_set(p->t, other, &change.config)->start = start;
			other = p->next_layer[other];
		}
	}
}

void ff_propose_layers(struct ff_proposer *p)
{
	p->reach = p->n_layers ? draw_reach(p) : FF_REACH_ONE;
	if (p->reach == FF_REACH_ALL)
		reach(p, p->n_layers - 1);
	if (p->reach == FF_REACH_SOME)
		reach(p, 1 + ff_random_below(&p->random, p->n_layers - 1));
}

void ff_propose_all_layers(struct ff_proposer *p)
{
	if (p->n_layers)
		reach(p, p->n_layers - 1);
}
