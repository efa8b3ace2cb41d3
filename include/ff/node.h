/* Values, nodes and edges: what an operator graph is made of.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_NODE_H
#define FF_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/op.h"
#include "ff/shape.h"

#define FF_MAX_INPUTS 130 /* of a node, its parameters among them */
#define FF_MAX_OUTPUTS 32 /* what it saves among them */

enum ff_value_kind {
	FF_VALUE_INPUT,      /* of the data set */
	FF_VALUE_PARAMETER,  /* trained; its producer is the node that updates it */
	FF_VALUE_ACTIVATION, /* computed in the forward pass */
	FF_VALUE_SAVED, /* written by forward, read by backward of the same part; never moves */
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
	/* For initialisation of parameters and of state kept between steps; 0: zeros. */
	int64_t fan_in;
};
/* A `fan_in` that means: ones. */
#define FF_FAN_ONE (-1)

/* Elements of a value. */
static inline int64_t ff_value_volume(const struct ff_value *v)
{
	return ff_shape_volume(v->rank, v->shape);
}
/* Its size in its element type. */
static inline int64_t ff_value_bytes(const struct ff_value *v)
{
	return ff_sat_mul(ff_dtype_bytes(v->dtype), ff_value_volume(v));
}

struct ff_node {
	enum ff_op op;
	const char *name; /* unique; the key used in strategy JSON */
	union ff_attrs attrs;
	uint32_t in, n_in; /* edges in .. in + n_in - 1, slot = edge - in */
	/* Slots: `n_data` of data, of which the last `n_prelude` are outputs of its prelude; then
	 * its parameters. */
	uint32_t n_data;
	uint32_t n_prelude;
	/* Values written, consecutive: outputs that others read, then `n_carried`, then `n_saved`.
	 */
	uint32_t out, n_out;
	uint32_t n_saved;
	/* Carried outputs: a part passes them to the next part along `carried_dim`, which reads
	 * them in the last data slots (docs/schedule.md).  A node with carried outputs has no
	 * prelude. */
	uint32_t n_carried;
	/* The last saved values, float32, are state kept from step to step, such as running
	 * statistics: backward updates them, evaluation reads them.  Parts that hold the same
	 * elements compute the same update; with `kept_apart` each updates by its own samples in
	 * every micro-batch, and the state is the mean over the parts. */
	uint32_t n_kept;

	/* derived by the operator's row */
	uint32_t n_dims;
	struct ff_dim dim[FF_MAX_DIMS];
	struct ff_operand *in_map;  /* n_in */
	struct ff_operand *out_map; /* n_out; R dims do not occur in it */
	uint32_t carried_dim;       /* the dim along which parts pass carried outputs on */
	bool carried_down;          /* from its end to its start, else from start to end */
	bool kept_apart;            /* see n_kept */
	int64_t flops_forward;      /* whole operator: multiply and add count as two */
	int64_t flops_backward;     /* all gradients */
	/* Embedding with a sparse gradient: the number of rows looked up for the whole batch.  0:
	 * the gradient is dense, because the table has other readers or there are micro-batches, or
	 * the node is no embedding. */
	int64_t sparse_rows;
};

/* The first dim with that label, or FF_NONE. */
static inline uint32_t ff_node_dim(const struct ff_node *n, enum ff_label label)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == label)
			return d;
	return FF_NONE;
}
/* The sample dim. */
static inline uint32_t ff_node_sample_dim(const struct ff_node *n)
{
	return ff_node_dim(n, FF_DIM_SAMPLE);
}

/* One use of a value: input `slot` of `node`. */
struct ff_edge {
	uint32_t value, node, slot;
	/* The edge at which the node's prelude reads the same regions, which are then moved once;
	 * or FF_NONE. */
	uint32_t shared;
};

#endif
