/* Operators that no other operator can overlap.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ALONE_H
#define FF_ALONE_H

#include "ff/graph.h"

/* ret[node]: whether the node is computed, and every other computed node precedes or follows it in
 * the dependency order.  If such a node has a single part, then in a step of one micro-batch no
 * other part can run at the same time.  Memory from `a`. */
int ff_alone_find(const struct ff_graph *g, struct ff_arena *a, bool **ret, struct ff_error *err);

#endif
