/* Sections of chains: stretches of which not one part after another counts, but the mean over
 * devices of all that is computed from their first operator to their last.  They must follow each
 * other, whatever the degrees: behind the last of a section comes an operator no part of which
 * begins, forward, before all of the section is computed but for some channels of its last
 * operators; backward, nothing of the section is computed before all parts of some operator behind
 * it.  Likewise in front of its first.  docs/simulator.md derives it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_SECTION_H
#define FF_CHECK_SECTION_H

#include "chain.h"

/* Marks in `member`, by node, which has room for all nodes, the operators from place `first` to
 * `last`; how many they are.  0: some may be computed before the first of these, or behind the
 * last. */
uint32_t ff_section_members(const struct ff_graph *g, const struct ff_chain *c, uint32_t first,
		uint32_t last, uint8_t *member);
/* Whether the sections of a chain that was traced follow each other so; lists their operators, and
 * says how each place counts, in memory from `a`. */
int ff_sections_find(const struct ff_graph *g, struct ff_chain *c, struct ff_arena *a, bool *ret,
		struct ff_error *err);
/* Whether what comes over the edge to place `i` is within a section. */
bool ff_section_has(const struct ff_chain *c, uint32_t i);

#endif
