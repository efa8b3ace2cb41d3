/* Operators that nothing can run beside.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ALONE_H
#define FF_ALONE_H

#include "ff/graph.h"

/* By node, in memory from `a`: whether it is computed and every other computed node comes before
 * or behind it, by what they read.  While such a node's only part runs, forward or backward, in
 * a step of one micro-batch, no other part of any operator can. */
int ff_alone_find(const struct ff_graph *g, struct ff_arena *a, bool **ret, struct ff_error *err);

#endif
