/* Operator graph: what is computed, never where.  Immutable once parsed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPH_H
#define FF_GRAPH_H

#include "ff/arena.h"
#include "ff/hash.h"
#include "ff/json.h"
#include "ff/node.h"

#define FF_MAX_LOSSES 8
#define FF_MAX_NODES 1000000 /* below 2^20: FF_PORT */

struct ff_names;
struct ff_rewritten; /* ff/rewrite.h */

struct ff_graph {
	const char *name;
	/* The type of activations, of their gradients, and of parameters as operators read them:
	 * float32 or bfloat16.  Sums, updated weights and their gradients are always float32. */
	enum ff_dtype dtype;
	uint32_t n_nodes, n_values, n_edges;
	struct ff_node *nodes; /* topological: every input comes from an earlier node */
	struct ff_value *values;
	struct ff_edge *edges;
	uint32_t *uses;
	/* The nodes with FF_OP_LOSS, at least one, ascending; none has a reader.  Training
	 * minimises their sum, weighted by their attribute `weight`. */
	uint32_t n_losses, loss[FF_MAX_LOSSES];
	int32_t batch; /* extent of axis 0 of every input */
	uint64_t hash; /* FNV-1a of the canonical JSON, before rewriting; strategies carry it */
	const struct ff_rewritten *rewritten; /* NULL: the graph is as in its file */
	const struct ff_names *names;         /* for ff_graph_find */
};

/* Index of the node called `name`, or FF_NONE. */
uint32_t ff_graph_find(const struct ff_graph *g, const char *name);
/* The edge at which `v` is read: its use number `u`. */
static inline uint32_t ff_value_use(const struct ff_graph *g, const struct ff_value *v, uint32_t u)
{
	return g->uses[v->first_use + u];
}
/* The node that reads it there. */
static inline uint32_t ff_value_reader(
		const struct ff_graph *g, const struct ff_value *v, uint32_t u)
{
	return g->edges[ff_value_use(g, v, u)].node;
}
/* The node whose value arrives at `edge`. */
static inline uint32_t ff_edge_source(const struct ff_graph *g, uint32_t edge)
{
	return g->values[g->edges[edge].value].producer;
}
/* Whether the value at `edge` is carried: a part reads what another part of the same node wrote. */
static inline bool ff_edge_is_carried(const struct ff_graph *g, uint32_t edge)
{
	return ff_edge_source(g, edge) == g->edges[edge].node;
}
/* How many outputs of `n` other nodes may read. */
static inline uint32_t ff_node_outputs(const struct ff_node *n)
{
	return n->n_out - n->n_saved - n->n_carried;
}
/* How many inputs of `n` a file names: neither parameters nor what a prelude or a part passes on.
 */
static inline uint32_t ff_node_inputs(const struct ff_node *n)
{
	return n->n_data - n->n_prelude - n->n_carried;
}
static inline uint32_t ff_op_flags_of(const struct ff_graph *g, uint32_t node)
{
	return ff_op_row(g->nodes[node].op)->flags;
}
static inline bool ff_node_is_source(const struct ff_graph *g, uint32_t node)
{
	return ff_op_flags_of(g, node) & FF_OP_SOURCE;
}
/* The input number `place`, from 0, among the first `n` nodes; FF_NONE: there is none. */
static inline uint32_t ff_graph_source(const struct ff_graph *g, uint32_t n, uint32_t place)
{
	for (uint32_t i = 0; i < n; i++)
		if (ff_node_is_source(g, i) && !place--)
			return i;
	return FF_NONE;
}
static inline bool ff_node_is_parameter(const struct ff_graph *g, uint32_t node)
{
	return ff_op_flags_of(g, node) & FF_OP_UPDATE;
}
static inline bool ff_node_is_loss(const struct ff_graph *g, uint32_t node)
{
	return ff_op_flags_of(g, node) & FF_OP_LOSS;
}
/* Neither an input nor a parameter: it has forward and backward kernels. */
static inline bool ff_node_is_computed(const struct ff_graph *g, uint32_t node)
{
	return !(ff_op_flags_of(g, node) & (FF_OP_SOURCE | FF_OP_UPDATE));
}
static inline bool ff_node_is_prelude(const struct ff_graph *g, uint32_t node)
{
	return ff_op_flags_of(g, node) & FF_OP_PRELUDE;
}
/* The node whose config `node` follows: its own, or that of the node it is the prelude of. */
static inline uint32_t ff_node_leader(const struct ff_graph *g, uint32_t node)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];

	return ff_node_is_prelude(g, node) ? ff_value_reader(g, v, 0) : node;
}
/* The prelude of `node`, or FF_NONE. */
static inline uint32_t ff_node_prelude(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];

	return n->n_prelude ? ff_edge_source(g, n->in + n->n_data - 1) : FF_NONE;
}
/* Whether a strategy must have a config for it: it is computed, and no prelude. */
static inline bool ff_node_needs_config(const struct ff_graph *g, uint32_t node)
{
	return ff_node_is_computed(g, node) && !ff_node_is_prelude(g, node);
}
/* Whether the value at `edge` exists before the step: an input or a parameter. */
static inline bool ff_edge_is_brought(const struct ff_graph *g, uint32_t edge)
{
	return !ff_node_is_computed(g, ff_edge_source(g, edge));
}
/* Parameter number `k` of `node`, if `node` is its first reader (it may be tied); else FF_NONE. */
static inline uint32_t ff_node_own_parameter(const struct ff_graph *g, uint32_t node, uint32_t k)
{
	const struct ff_node *n = &g->nodes[node];
	const struct ff_value *v = &g->values[g->edges[n->in + n->n_data + k].value];

	return ff_value_reader(g, v, 0) == node ? v->producer : FF_NONE;
}
/* Whether value `v` is state that its node keeps from step to step (running statistics). */
static inline bool ff_value_is_kept(const struct ff_graph *g, uint32_t v)
{
	const struct ff_node *n = &g->nodes[g->values[v].producer];

	return g->values[v].port + n->n_kept >= n->n_out;
}
/* The region of `operand` that the iteration box `box` of `node` touches. */
void ff_operand_region(const struct ff_node *node, const struct ff_operand *operand,
		const struct ff_region *box, struct ff_region *ret);
/* Called when all rows have derived their nodes: the gradient of a table with several readers is
 * dense, so these readers get `sparse_rows` 0. */
void ff_graph_limit_sparse(struct ff_graph *g);
/* The number of trained elements of all parameters. */
int64_t ff_graph_parameters(const struct ff_graph *g);

#endif
