/* Tensor parallelism as people write it: chains of products, the first split by output feature, the
 * last by what it sums over (Shoeybi et al., "Megatron-LM", 2019), found from access maps.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_TENSOR_H
#define FF_PLANNER_TENSOR_H

#include "ff/graph.h"

struct ff_tensor {
	uint32_t *dim;      /* by node: what is split; FF_NONE: nothing, it is outside of chains */
	uint32_t n_rows;    /* products at the ends of chains, whose sums are exchanged */
	int32_t divisor;    /* degrees that divide this split heads and features evenly; 0: any */
	uint32_t narrowest; /* the node that says so */
};

/* Finds the chains of `g` that are to be split into `degree` parts; memory from `a`. */
int ff_tensor_find(const struct ff_graph *g, uint32_t degree, struct ff_arena *a,
		struct ff_tensor *ret, struct ff_error *err);

/* Groups of channels that are multiplied each by itself, experts among them: by node the dim that
 * is split between groups, FF_NONE elsewhere, and *groups, 0: there are none. */
int ff_experts_find(const struct ff_graph *g, struct ff_arena *a, uint32_t **dim, int32_t *groups,
		struct ff_error *err);

/* Places of a sequence, [samples, places, ...], that all products with any have: those of the
 * blocks that a network repeats, or of all of it if it repeats none. */
struct ff_sequence {
	uint32_t *dim;  /* by node: that of the places; FF_NONE: it has none */
	int32_t places; /* 0: there are none, or several numbers of them */
};

/* `block` as in repeats.h, NULL: nothing is repeated.  Memory from `a`. */
int ff_sequence_find(const struct ff_graph *g, const uint32_t *block, struct ff_arena *a,
		struct ff_sequence *ret, struct ff_error *err);

#endif
