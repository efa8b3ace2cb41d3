/* What devices must receive from others, whatever the views: by the degrees of operators that hand
 * something on, and of those whose parts share parameters.  docs/simulator.md derives it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_RECEIVED_H
#define FF_CHECK_RECEIVED_H

#include "classes.h"

/* Of one node, by the number of its degree vector, as ff_config_next_degrees has them, or of its
 * class: bytes of all devices together. */
struct ff_received {
	uint32_t from;      /* an earlier node; FF_NONE: nothing is counted of what it reads */
	uint32_t edge;      /* over which it reads that, or its prelude does */
	uint32_t n, n_from; /* degree vectors of either */
	const struct ff_handed *handed; /* [that of `from`][its own]; NULL: by classes */
	struct ff_class_pairs pairs;    /* of those */
	const double *params; /* [its own]: gradients of parameters, and their new weights; NULL:
			       * they do not count */
};

/* By node; memory from `a`.  Of each value one reader counts, of each node one value that it reads,
 * so the nodes form trees.  Where `k` is stopped meanwhile it is not whole. */
int ff_received_find(struct ff_kinds *k, struct ff_arena *a, struct ff_received **ret,
		struct ff_error *err);
/* What is handed from a number of r->from to one of its reader. */
struct ff_handed ff_received_handed(const struct ff_received *r, uint32_t from, uint32_t own);

#endif
