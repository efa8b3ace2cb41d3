/* Layers: operators that stand alike in repeated blocks, named together.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_LAYERS_H
#define FF_PLANNER_LAYERS_H

#include "ff/graph.h"

struct ff_layer {
	const char *name; /* "block0-47.mlp.fc1"; of one operator its own */
	uint32_t n;       /* operators */
};

struct ff_layers {
	uint32_t n;
	struct ff_layer *layer;
	/* By node: an operator's own, a prelude's that of the node behind it; a source's or a
	 * parameter's FF_NONE. */
	uint32_t *of;
	uint32_t n_blocks;  /* 0: nothing is repeated */
	const char *blocks; /* "block0-47"; NULL */
	uint32_t *block;    /* by layer: whether it is of them */
	uint32_t n_of_blocks;
};

/* All memory from `a`. */
int ff_layers_find(const struct ff_graph *g, struct ff_arena *a, struct ff_layers *ret,
		struct ff_error *err);

#endif
