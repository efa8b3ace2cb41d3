/* What cutting an operator costs: of one node, along each of its dims.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_OPERATOR_CUTS_H
#define FF_OPERATOR_CUTS_H

#include "ff/graph.h"

struct ff_cut {
	enum ff_label label;
	const char *name;
	bool halo;     /* two parts read some of the same elements, and others of their own */
	bool carries;  /* a part begins with what the one before it leaves: they run in turn */
	bool exchange; /* parts exchange results before they can go on: the prelude's */
};

struct ff_cuts {
	uint32_t n;
	struct ff_cut cut[FF_MAX_DIMS];
	uint32_t whole; /* bits: axes of the first input that every part has whole */
};

/* Regions come from the access maps of `node`, halved along each dim in turn. */
void ff_cuts_find(const struct ff_graph *g, uint32_t node, struct ff_cuts *ret);

#endif
