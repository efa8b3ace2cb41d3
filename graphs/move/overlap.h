/* Overlaps: which intervals of two sides of one axis share elements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_OVERLAP_H
#define FF_MOVE_OVERLAP_H

#include "ff/placement.h"

/* Source coordinate `source` meets the sink in [lo, hi). */
struct ff_overlap {
	uint32_t source;
	int32_t lo, hi;
};

/* One axis.  Coordinates that are joined by overlaps form a component; those
 * with an empty interval are in none. */
struct ff_overlaps {
	const struct ff_grid_axis *side[2]; /* source, sink */
	uint32_t *first;                    /* by sink coordinate: slice of list, n + 1 */
	struct ff_overlap *list;
	uint32_t *component[2]; /* by coordinate; FF_NONE */
	uint32_t n_components;  /* numbered by their first sink */
	/* their coordinates, ascending: member[side] from begin[side][component] on */
	uint32_t *begin[2], *member[2];
	bool *hole;  /* by sink coordinate: some element has no source */
	bool *twice; /* some element has several */
	/* where neither side is cut, as most axes are, the arrays are these */
	struct {
		uint32_t first[2], component[2], begin[2][2], member;
		struct ff_overlap list;
		bool hole, twice;
	} uncut;
};

/* Each `together` coordinates of the sink are in one component, whether they share a source or
 * not.  `ret` must stay where it is. */
int ff_overlaps_find(const struct ff_grid_axis *source, const struct ff_grid_axis *sink,
		uint32_t together, struct ff_arena *a, struct ff_overlaps *ret,
		struct ff_error *err);

static inline uint32_t ff_overlaps_count(const struct ff_overlaps *o, uint32_t sink)
{
	return o->first[sink + 1] - o->first[sink];
}

/* The coordinates of one component on one side. */
static inline const uint32_t *ff_overlaps_members(
		const struct ff_overlaps *o, int side, uint32_t component, uint32_t *n)
{
	const uint32_t *begin = o->begin[side] + component;

	*n = begin[1] - begin[0];
	return o->member[side] + begin[0];
}

#endif
