/* Operators that nothing can run beside.
 *
 * Nodes stand in an order in which each reads only from earlier ones.  All nodes before v lead to
 * v if each of them is read by one at v or before it: what is not read any further there is v
 * alone.  And v leads to all nodes behind it if each of those reads from one at v or behind it.
 * Both are one look at the nearest reader and at the nearest that is read.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/alone.h"

/* The nearest computed node that reads what `node` writes; n_nodes: there is none. */
static uint32_t first_reader(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	uint32_t first = g->n_nodes;

	for (uint32_t k = 0; k < n->n_out; k++) {
		const struct ff_value *v = &g->values[n->out + k];

		for (uint32_t i = 0; i < v->n_uses; i++) {
			uint32_t reader = ff_value_reader(g, v, i);

			if (reader != node)
				first = reader < first ? reader : first;
		}
	}
	return first;
}

/* One more than the nearest computed node that `node` reads from; 0: it reads from none. */
static uint32_t behind_last_read(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	uint32_t last = 0;

	for (uint32_t i = 0; i < n->n_in; i++) {
		uint32_t source = ff_edge_source(g, n->in + i);

		if (ff_node_is_computed(g, source) && source != node && source + 1 > last)
			last = source + 1;
	}
	return last;
}

int ff_alone_find(const struct ff_graph *g, struct ff_arena *a, bool **ret, struct ff_error *err)
{
	bool *alone = ff_arena_array(a, g->n_nodes, sizeof(*alone));
	uint32_t furthest = 0, nearest = g->n_nodes;

	if (!alone)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t reader;

		if (!ff_node_is_computed(g, i))
			continue;
		alone[i] = furthest <= i;
		reader = first_reader(g, i);
		furthest = reader > furthest ? reader : furthest;
	}
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		uint32_t read;

		if (!ff_node_is_computed(g, i))
			continue;
		alone[i] = alone[i] && nearest > i;
		read = behind_last_read(g, i);
		nearest = read < nearest ? read : nearest;
	}
	*ret = alone;
	return FF_OK;
}
