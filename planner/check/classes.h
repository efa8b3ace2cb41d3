/* Least bytes between classes of degree vectors (dims.h), for as many devices that pairs of vectors
 * are too many to look at.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_CLASSES_H
#define FF_CHECK_CLASSES_H

#include "kinds.h"

/* What one pair of degree vectors hands over: data forward, and their gradients back. */
struct ff_handed {
	double all; /* bytes that all devices receive, both ways */
	/* How long the first part waits for what it receives, and every part at least. */
	double first_us, least_us, back_first_us, back_least_us;
	double added_us; /* until gradients of several readers are added up, at least */
};

/* What of one value parts have, places by channels, of all vectors of a class. */
struct ff_class_sizes;

/* The classes at both ends of an edge; pairs of them are worked out when they are asked for, as
 * there are many. */
struct ff_class_pairs {
	const struct ff_class_sizes *from, *to; /* by class */
	const struct ff_least_wait *wait;
	double element_bytes;
	bool back, adds;
};

/* Whether ff_class_pairs_find knows this edge, over which a chain may pass. */
bool ff_class_pairs_may(const struct ff_graph *g, uint32_t edge);
/* Memory from `a`.  `adds`: gradients of others, too, are brought to the edge's source. */
int ff_class_pairs_find(struct ff_kinds *k, uint32_t edge, bool adds, struct ff_arena *scratch,
		struct ff_arena *a, struct ff_class_pairs *ret, struct ff_error *err);
/* What parts receive at least of what is handed over, of any vectors of two classes; `all` says
 * nothing. */
struct ff_handed ff_class_pairs_handed(const struct ff_class_pairs *p, uint32_t from, uint32_t to);

#endif
