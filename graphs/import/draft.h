/* Nodes before they are a graph: only what the loss depends on becomes one, as what merely has a
 * shape that is asked for does not.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_DRAFT_H
#define FF_IMPORT_DRAFT_H

#include "importing.h"

/* As ff_builder_add_tied; FF_NONE without memory. */
uint32_t ff_draft_add(struct ff_import *im, enum ff_op op, const char *name,
		const union ff_attrs *attrs, const uint32_t *in, uint32_t n_in,
		const char *const *params);
/* Gives the builder what the last node depends on, and forgets weights of the rest. */
int ff_draft_build(struct ff_import *im);

#endif
