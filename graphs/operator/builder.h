/* The one way in: what the parser hands the builder beside ff/graph.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERATOR_BUILDER_H
#define FF_OPERATOR_BUILDER_H

#include "ff/builder.h"

/* Complaints about the whole graph name `root`'s file. */
void ff_builder_set_place(struct ff_builder *b, const struct ff_json *root);
/* ff_builder_add_tied whose complaints name `place`, which may be NULL and must
 * live until ff_builder_finish. */
uint32_t ff_builder_add_at(struct ff_builder *b, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in,
		const char *const *params, const struct ff_json *place);

/* What ff_builder_finish returns, without checks of what belongs to a whole graph: its loss,
 * outputs that nobody reads, one batch for all inputs.  For shapes, while it grows. */
int ff_builder_draft(struct ff_builder *b, struct ff_graph *ret, struct ff_error *err);

#endif
