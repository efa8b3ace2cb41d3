/* Operator graph: what is computed, never where.  Immutable once parsed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPH_H
#define FF_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/hash.h"
#include "ff/json.h"
#include "ff/op.h"
#include "ff/shape.h"

#define FF_MAX_INPUTS 130    /* of a node, its parameters among them */
#define FF_MAX_OUTPUTS 32    /* what it saves among them */
#define FF_MAX_LOSSES 8      /* of a graph */
#define FF_MAX_NODES 1000000 /* below 2^20: FF_PORT */

enum ff_value_kind {
	FF_VALUE_INPUT,      /* of the data set */
	FF_VALUE_PARAMETER,  /* trained; its producer is the node that updates it */
	FF_VALUE_ACTIVATION, /* computed forward */
	FF_VALUE_SAVED,      /* written forward, read backward by the same part; never moves */
};

/* A tensor: shape in elements, axis 0 first. */
struct ff_value {
	enum ff_value_kind kind;
	enum ff_dtype dtype;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	uint8_t order[FF_MAX_RANK]; /* axes as they lie in memory, outermost first */
	uint32_t producer, port;    /* node, and which of its outputs */
	uint32_t first_use, n_uses; /* slice of ff_graph.uses: edge ids, ascending */
	bool needs_grad;            /* some parameter lies upstream */
	int64_t fan_in; /* PARAMETER, and what is kept: for initialisation; 0: starts at zero */
};
/* A fan-in of what starts at one. */
#define FF_FAN_ONE (-1)

/* Elements of a value. */
static inline int64_t ff_value_volume(const struct ff_value *v)
{
	return ff_shape_volume(v->rank, v->shape);
}

struct ff_node {
	enum ff_op op;
	const char *name; /* unique; the key used in strategy JSON */
	union ff_attrs attrs;
	uint32_t in, n_in;   /* edges in .. in + n_in - 1, slot = edge - in */
	uint32_t n_data;     /* the first slots are data, the rest its parameters */
	uint32_t n_prelude;  /* the last of the data are what its prelude writes */
	uint32_t out, n_out; /* values written, consecutive */
	uint32_t n_saved;    /* the last of them, which it keeps to itself */
	/* The outputs before those are carried: a part leaves them to the part behind it along
	 * `carried_dim`, which reads them as the last of its data (docs/schedule.md).  A node that
	 * carries has no prelude. */
	uint32_t n_carried;
	/* The last of the saved values, float32, are kept from step to step: backward changes them,
	 * passes without training read them.  Parts that have the same elements change them alike,
	 * or (kept_apart) in every micro-batch by their own samples: then the mean over all counts.
	 */
	uint32_t n_kept;

	/* derived by the operator's row */
	uint32_t n_dims;
	struct ff_dim dim[FF_MAX_DIMS];
	struct ff_operand *in_map;  /* n_in */
	struct ff_operand *out_map; /* n_out; R dims do not occur in it */
	uint32_t carried_dim;       /* along which something is carried, towards its end */
	bool carried_down;          /* or (true) towards its start */
	bool kept_apart;            /* see n_kept */
	int64_t flops_forward;      /* whole operator: multiply and add count as two */
	int64_t flops_backward;     /* all gradients */
	/* Of an embedding: rows that it looks up, all samples together, whose gradients alone it
	 * makes; 0: it makes those of all rows, as where others read its table, too, or in
	 * micro-batches.  0 of other operators. */
	int64_t sparse_rows;
};

/* One use of a value: input `slot` of `node`. */
struct ff_edge {
	uint32_t value, node, slot;
	uint32_t shared; /* the edge at which the node's prelude reads just what its parts read
			  * here, so that it is moved once; FF_NONE */
};

struct ff_names;
struct ff_rewritten; /* ff/rewrite.h */

struct ff_graph {
	const char *name;
	/* What it computes in: float32 or bfloat16.  Activations, their gradients and
	 * parameters as they are read are stored as that; sums are float32, and so are the
	 * weights that are updated and their gradients. */
	enum ff_dtype dtype;
	uint32_t n_nodes, n_values, n_edges;
	struct ff_node *nodes; /* topological: every input comes from an earlier node */
	struct ff_value *values;
	struct ff_edge *edges;
	uint32_t *uses;
	/* The nodes with FF_OP_LOSS, at least one, ascending.  Each is the last of its chain; what
	 * is trained is the sum of all, each by its weight. */
	uint32_t n_losses, loss[FF_MAX_LOSSES];
	int32_t batch; /* extent of axis 0 of every input */
	uint64_t hash; /* FNV-1a of the canonical JSON; strategies carry it.  Rewritten: of the
			* graph before */
	const struct ff_rewritten *rewritten; /* NULL: it is as its file has it */
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
/* Whether a node reads there what it has written itself, in another part. */
static inline bool ff_edge_is_carried(const struct ff_graph *g, uint32_t edge)
{
	return ff_edge_source(g, edge) == g->edges[edge].node;
}
/* Outputs of `n` that others read; inputs that a file names. */
static inline uint32_t ff_node_outputs(const struct ff_node *n)
{
	return n->n_out - n->n_saved - n->n_carried;
}
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
/* Among the first `n` nodes the input that has `place` inputs before it; FF_NONE: there is none. */
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
/* The node whose config `node` has: itself, or the one that it is the prelude of. */
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
/* A strategy must say how it is split: computed, and no prelude. */
static inline bool ff_node_needs_config(const struct ff_graph *g, uint32_t node)
{
	return ff_node_is_computed(g, node) && !ff_node_is_prelude(g, node);
}
/* What arrives at `edge` is there from the start. */
static inline bool ff_edge_is_brought(const struct ff_graph *g, uint32_t edge)
{
	return !ff_node_is_computed(g, ff_edge_source(g, edge));
}
/* Whether value `v` is what its node keeps from step to step. */
static inline bool ff_value_is_kept(const struct ff_graph *g, uint32_t v)
{
	const struct ff_node *n = &g->nodes[g->values[v].producer];

	return g->values[v].port + n->n_kept >= n->n_out;
}
/* Elements of `operand` that the iteration box `box` of `node` touches. */
void ff_operand_region(const struct ff_node *node, const struct ff_operand *operand,
		const struct ff_region *box, struct ff_region *ret);
/* Once rows have derived everything: a gradient that several uses of a table add to is dense, so
 * the nodes that read such tables get `sparse_rows` 0. */
void ff_graph_limit_sparse(struct ff_graph *g);
/* Trained elements, all parameters together. */
int64_t ff_graph_parameters(const struct ff_graph *g);

#endif
