/* Sharing: what several operators read alike is moved once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SHARING_H
#define FF_SHARING_H

#include "ff/block.h"
#include "ff/program.h"

/* The edge whose moves forward, and in recomputation, bring what is read at `edge`, too: of all
 * uses of its value that read, part by part, the same elements on the same devices the one that is
 * issued first.  FF_NONE: it has its own moves.
 *
 * A value that is made again for backward is moved again only to those who read it there; they
 * share among themselves, as do those who do not.  Parameters that are brought again are not
 * shared: who marks one wants it gone between its readers.
 *
 * `position` and `block` are by node, blocks of inputs may be NULL. */
uint32_t ff_edge_taken_from(const struct ff_graph *g, const struct ff_program *p,
		const uint32_t *position, const struct ff_node_block *const *block, uint32_t edge);

#endif
