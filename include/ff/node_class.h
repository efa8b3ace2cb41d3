/* Classes of equal nodes: a deep network has few.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_NODE_CLASS_H
#define FF_NODE_CLASS_H

#include "ff/graph.h"

/* Whether two nodes are equal in all that configs, placements and prices depend on:
 * operator, attributes that change kernels, shapes, access maps, which gradients are
 * wanted. */
bool ff_nodes_alike(const struct ff_graph *g, uint32_t a, uint32_t b);
/* Classes of equal nodes: by node the first one equal to it, in memory from `a`. */
int ff_classes_find(
		const struct ff_graph *g, struct ff_arena *a, uint32_t **ret, struct ff_error *err);

#endif
