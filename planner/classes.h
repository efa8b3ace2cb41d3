/* Classes of equal operators.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CLASSES_H
#define FF_PLANNER_CLASSES_H

#include "ff/graph.h"

/* Whether two nodes are equal in all that configs, placements and prices depend on:
 * operator, attributes, shapes, access maps and which gradients are wanted. */
bool ff_nodes_alike(const struct ff_graph *g, uint32_t a, uint32_t b);
/* By node: the first one equal to it. */
int ff_classes_find(
		const struct ff_graph *g, struct ff_arena *a, uint32_t **ret, struct ff_error *err);

#endif
