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
/* As they are stored. */
static inline int64_t ff_value_bytes(const struct ff_value *v)
{
	return ff_sat_mul(ff_dtype_bytes(v->dtype), ff_value_volume(v));
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

/* The first dim with that label, or FF_NONE. */
static inline uint32_t ff_node_dim(const struct ff_node *n, enum ff_label label)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == label)
			return d;
	return FF_NONE;
}
/* That of the samples. */
static inline uint32_t ff_node_sample_dim(const struct ff_node *n)
{
	return ff_node_dim(n, FF_DIM_SAMPLE);
}

/* One use of a value: input `slot` of `node`. */
struct ff_edge {
	uint32_t value, node, slot;
	uint32_t shared; /* the edge at which the node's prelude reads just what its parts read
			  * here, so that it is moved once; FF_NONE */
};

#endif
