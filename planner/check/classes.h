/* Least bytes between classes of degree vectors (dims.h), for as many devices that pairs of vectors
 * are too many to look at.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_CLASSES_H
#define FF_CHECK_CLASSES_H

#include "kinds.h"

/* Bytes that devices receive of one pair of degree vectors: of data forward, and of their gradients
 * back.  What the first part receives, and what every part does at least. */
struct ff_handed {
	double all; /* devices together, both ways */
	double first, least, back_first, back_least;
	double added_us; /* until gradients of several readers are added up, at least */
};

/* Whether ff_classes_hand knows this edge, over which a chain may pass. */
bool ff_classes_may_hand(const struct ff_graph *g, uint32_t edge);
/* What parts receive at least of what is handed over `edge`, of any vectors of two classes: [that
 * of its source][that of its reader]; `all` says nothing.  `adds`: gradients of others, too, are
 * brought to its source. */
int ff_classes_hand(struct ff_kinds *k, uint32_t edge, bool adds, struct ff_arena *scratch,
		struct ff_handed *ret, struct ff_error *err);

#endif
