/* What backward visits and brings back.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BACKWARD_H
#define FF_BACKWARD_H

#include "ff/graph.h"

/* Whether backward visits `node`. */
static inline bool ff_node_needs_grad(const struct ff_graph *g, uint32_t node)
{
	return g->values[g->nodes[node].out].needs_grad;
}
/* Whether a prelude that backward visits reads at `edge`.  Behind it the node reads the same,
 * and leaves that gradient to it. */
static inline bool ff_edge_is_left(const struct ff_graph *g, uint32_t edge)
{
	return ff_node_is_prelude(g, g->edges[edge].node) &&
	       ff_node_needs_grad(g, g->edges[edge].node);
}
/* Whether it does so in the place of the gradient of the node's first output: there the
 * prelude finds that one, and makes of it the one that goes back over `edge`, its first. */
static inline bool ff_edge_is_in_place(const struct ff_graph *g, uint32_t edge)
{
	return g->edges[edge].slot == 0 && ff_edge_is_left(g, edge);
}
/* Whether backward comes to edge `a` before it comes to `b`, when the forward pass issues nodes at
 * `position[node]`: nodes from the last to the first, the inputs of one in their order. */
static inline bool ff_edge_is_visited_before(
		const struct ff_graph *g, const uint32_t *position, uint32_t a, uint32_t b)
{
	uint32_t x = g->edges[a].node, y = g->edges[b].node;

	return x == y ? a < b : position[x] > position[y];
}
/* Whether backward brings a gradient back over `edge`. */
static inline bool ff_edge_needs_grad(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[edge];

	return g->values[e->value].needs_grad && ff_node_needs_grad(g, e->node) &&
	       (e->shared == FF_NONE || !ff_edge_is_left(g, e->shared));
}

#endif
