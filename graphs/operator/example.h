/* An operator beside nothing but its inputs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERATOR_EXAMPLE_H
#define FF_OPERATOR_EXAMPLE_H

#include "ff/graph.h"

/* The graph of the example that the row of `op` gives, and which node it is; it has no loss.
 * Memory from `a`.  FF_E_INPUT where the row's text is none. */
int ff_op_example(enum ff_op op, struct ff_arena *a, struct ff_graph *ret, uint32_t *node,
		struct ff_error *err);

#endif
