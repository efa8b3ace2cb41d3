/* An operator beside nothing but its inputs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERATOR_EXAMPLE_H
#define FF_OPERATOR_EXAMPLE_H

#include "ff/graph.h"

/* What a row says: attributes as a graph file has them, "in" the shapes of its data, "labels" of
 * those behind that are int32. */
#define FF_EXAMPLE(...) #__VA_ARGS__

/* The graph of the example that the row of `op` gives, and which node it is; it has no loss.
 * Memory from `a`.  FF_E_INPUT where the row's text is none. */
int ff_op_example(enum ff_op op, struct ff_arena *a, struct ff_graph *ret, uint32_t *node,
		struct ff_error *err);

#endif
