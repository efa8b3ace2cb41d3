/* Which parts share elements.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_PAIRS_H
#define FF_MOVE_PAIRS_H

#include "scene.h"

/* Pairs of a component, growing. */
struct ff_pairs {
	struct ff_pair *pair;
	uint32_t n, cap;
	uint32_t n_all;  /* those that are only counted among them */
	uint32_t n_home; /* of all: more than half of the sink, on its own device */
};
/* The pairs of all sinks of a component that are no aliases; their sources enter the component. */
int ff_pairs_find(struct ff_scene *s, const uint32_t *component, const uint32_t *alias,
		struct ff_pairs *p, struct ff_error *err);

#endif
