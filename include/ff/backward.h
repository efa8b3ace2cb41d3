/* What backward visits and reads, and which gradients it returns.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_BACKWARD_H
#define FF_BACKWARD_H

#include "ff/graph.h"

/* Whether backward visits `node`. */
static inline bool ff_node_needs_grad(const struct ff_graph *g, uint32_t node)
{
	return g->values[g->nodes[node].out].needs_grad;
}
/* Whether the reader at `edge` is a prelude that backward visits.  Its node reads the same value,
 * and leaves the whole gradient of it to the prelude. */
static inline bool ff_edge_is_left(const struct ff_graph *g, uint32_t edge)
{
	return ff_node_is_prelude(g, g->edges[edge].node) &&
	       ff_node_needs_grad(g, g->edges[edge].node);
}
/* Whether that prelude computes in place: it turns the gradient of the node's first output into the
 * gradient at `edge`, the prelude's first input. */
static inline bool ff_edge_is_in_place(const struct ff_graph *g, uint32_t edge)
{
	return g->edges[edge].slot == 0 && ff_edge_is_left(g, edge);
}
/* Whether backward visits edge `a` before edge `b`.  It visits nodes in reverse issue order
 * (`position[node]`), and the inputs of a node in their order. */
static inline bool ff_edge_is_visited_before(
		const struct ff_graph *g, const uint32_t *position, uint32_t a, uint32_t b)
{
	uint32_t x = g->edges[a].node, y = g->edges[b].node;

	return x == y ? a < b : position[x] > position[y];
}
/* Whether backward computes a gradient at `edge`. */
static inline bool ff_edge_needs_grad(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[edge];

	return g->values[e->value].needs_grad && ff_node_needs_grad(g, e->node) &&
	       (e->shared == FF_NONE || !ff_edge_is_left(g, e->shared));
}
/* The edge at which the value moved over `edge` is read last: itself, or, if its reader is a
 * prelude that backward does not visit, the same input of the prelude's node. */
static inline uint32_t ff_edge_last(const struct ff_graph *g, uint32_t edge)
{
	uint32_t node = g->edges[edge].node, leader = ff_node_leader(g, node);

	return leader == node || ff_node_needs_grad(g, node)
			       ? edge
			       : g->nodes[leader].in + g->edges[edge].slot;
}
/* The prelude that overwrites the gradient returned over `edge` once it has been sent on; FF_NONE:
 * none does. */
static inline uint32_t ff_edge_replaced_by(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];
	uint32_t prelude = ff_node_prelude(g, v->producer);

	return !v->port && prelude != FF_NONE && ff_node_needs_grad(g, prelude) ? prelude : FF_NONE;
}
/* Whether backward reads the value at `edge`. */
static inline bool ff_edge_read_backward(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[ff_edge_last(g, edge)];

	return ff_node_needs_grad(g, e->node) &&
	       (e->slot >= g->nodes[e->node].n_data ||
			       (ff_op_flags_of(g, e->node) & FF_OP_BACKWARD_IN));
}
/* Whether backward of `node` reads its own outputs. */
static inline bool ff_node_reads_own(const struct ff_graph *g, uint32_t node)
{
	return ff_node_needs_grad(g, node) &&
	       (g->nodes[node].n_saved > g->nodes[node].n_kept ||
			       (ff_op_flags_of(g, node) & FF_OP_BACKWARD_OUT));
}
/* The two nodes of an edge, and frequently used facts about them. */
struct ff_edge_ends {
	uint32_t from, to;
	uint32_t value;
	uint32_t prelude;         /* ff_edge_replaced_by */
	bool computed, parameter; /* kind of `from` */
};
static inline struct ff_edge_ends ff_edge_ends(const struct ff_graph *g, uint32_t edge)
{
	uint32_t from = ff_edge_source(g, edge);

	return (struct ff_edge_ends){.from = from,
			.to = g->edges[edge].node,
			.value = g->edges[edge].value,
			.prelude = ff_edge_replaced_by(g, edge),
			.computed = ff_node_is_computed(g, from),
			.parameter = ff_node_is_parameter(g, from)};
}

#endif
