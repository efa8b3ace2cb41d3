/* Sections that a chain may have (check/section.h): about what it passes by.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SPACE_SECTIONS_H
#define FF_SPACE_SECTIONS_H

#include "../check/section.h"

/* Of a chain that was traced, as many as there are, each as short as can be; none where they do not
 * follow each other.  Memory from `a`. */
int ff_sections_choose(const struct ff_graph *g, struct ff_chain *c, struct ff_arena *a,
		struct ff_error *err);

#endif
