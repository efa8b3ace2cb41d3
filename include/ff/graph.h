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

#define FF_MAX_WEIGHTS 2
#define FF_MAX_NODES 1000000
/* Caps on a whole graph, checked while it is built, so that no sum of bytes
 * over 4096 devices and no sum of FLOPs leaves 64 bits: elements that all nodes
 * read, write and train, and FLOPs of one step. */
#define FF_MAX_GRAPH_ELEMENTS ((int64_t)1 << 44)
#define FF_MAX_GRAPH_FLOPS ((int64_t)1 << 62)

/* A tensor that a node writes, shapes in elements, axis 0 first. */
struct ff_tensor {
	enum ff_dtype dtype;
	uint32_t rank;
	int32_t shape[FF_MAX_RANK];
	uint32_t producer;          /* node */
	uint32_t first_use, n_uses; /* slice of ff_graph.uses: edge ids, ascending */
	bool needs_grad;            /* some weight lies upstream */
};

/* A trained tensor of one node. */
struct ff_weight {
	const char *name; /* "weight", "bias" */
	struct ff_operand map;
	int64_t fan_in; /* for initialisation; 0: starts at zero (a bias) */
};

struct ff_node {
	enum ff_op op;
	const char *name; /* unique; the key used in strategy JSON */
	union ff_attrs attrs;
	uint32_t in, n_in; /* edges in .. in + n_in - 1, slot = edge - in */
	uint32_t out;      /* tensor written */

	/* derived by the operator's row */
	uint32_t n_dims, n_weights;
	struct ff_dim dim[FF_MAX_RANK];
	struct ff_operand *in_map; /* n_in */
	struct ff_operand out_map; /* R dims do not occur in it */
	struct ff_weight weight[FF_MAX_WEIGHTS];
	int64_t flops_forward;  /* whole operator: multiply and add count as two */
	int64_t flops_backward; /* all gradients */
};

/* One use of a tensor: input `slot` of `node`. */
struct ff_edge {
	uint32_t tensor, node, slot;
};

struct ff_names;

struct ff_graph {
	const char *name;
	uint32_t n_nodes, n_tensors, n_edges;
	struct ff_node *nodes; /* topological: every input comes from an earlier node */
	struct ff_tensor *tensors;
	struct ff_edge *edges;
	uint32_t *uses;
	uint32_t loss;                /* the one node with FF_OP_LOSS, last in its chain */
	int32_t batch;                /* extent of axis 0 of every input */
	uint64_t hash;                /* FNV-1a of the canonical JSON; strategies carry it */
	const struct ff_names *names; /* for ff_graph_find */
};

/* Parses and checks a graph.  Nodes may stand in any order in the file; they
 * are sorted (stable) so that inputs come first.  All memory comes from `a`,
 * which must outlive the graph.  On failure returns FF_E_INPUT or FF_E_NOMEM,
 * fills `err` and leaves `ret` untouched. */
int ff_graph_parse(const char *file, const char *text, size_t len, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err);
int ff_graph_load(const char *path, struct ff_arena *a, struct ff_graph *ret, struct ff_error *err);

/* Canonical JSON: what ff_graph_parse reads gives the same graph and hash. */
void ff_graph_write(const struct ff_graph *g, struct ff_out *o);

/* Building in code (zoo, importers, tests).  Node indices are returned through
 * `ret`; the first error sticks and every later call returns it, so a builder
 * may be checked once, at the end. */
struct ff_builder;
int ff_builder_create(const char *name, struct ff_arena *a, struct ff_builder **ret,
		struct ff_error *err);
/* `attrs` may be NULL for operators without.  `in` are indices of nodes. */
uint32_t ff_builder_add(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in);
/* Presets of the operator's row, to be changed by the caller. */
union ff_attrs ff_attrs_preset(enum ff_op op);
int ff_builder_finish(struct ff_builder *b, struct ff_graph *ret, struct ff_error *err);

/* Index of the node called `name`, or FF_NONE. */
uint32_t ff_graph_find(const struct ff_graph *g, const char *name);
/* The node whose tensor arrives at `edge`. */
static inline uint32_t ff_edge_source(const struct ff_graph *g, uint32_t edge)
{
	return g->tensors[g->edges[edge].tensor].producer;
}
/* Trained elements, all weights together. */
int64_t ff_graph_parameters(const struct ff_graph *g);

#endif
