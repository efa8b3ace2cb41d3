/* Building an operator graph: by whoever reads a file, and in code.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUILDER_H
#define FF_BUILDER_H

#include "ff/graph.h"

/* Building in code (zoo, importers, tests).  Node indices are returned through
 * `ret`; the first error sticks and every later call returns it, so a builder
 * may be checked once, at the end. */
struct ff_builder;
int ff_builder_create(const char *name, struct ff_arena *a, struct ff_builder **ret,
		struct ff_error *err);
/* What the graph computes in, before ff_builder_finish; float32 where nothing is said. */
void ff_builder_set_dtype(struct ff_builder *b, enum ff_dtype dtype);
/* `attrs` may be NULL for operators without.  `in` are nodes, whose first output
 * is meant, or FF_PORT(node, output).  Parameters are made beside the node, as
 * nodes called "<name>.weight" and so on, and so is its prelude. */
uint32_t ff_builder_add(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in);
/* ff_builder_add with names of the node's parameters (FF_MAX_PARAMS; NULL: "<name>.weight" and so
 * on): nodes that name the same parameter share it. */
uint32_t ff_builder_add_tied(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in,
		const char *const *params);
#define FF_PORT(node, output) ((uint32_t)(node) | (uint32_t)(output) << 20)
int ff_builder_finish(struct ff_builder *b, struct ff_graph *ret, struct ff_error *err);

#endif
