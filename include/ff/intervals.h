/* The intervals into which degrees cut one dim of a node, grouped by equal cost.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_INTERVALS_H
#define FF_INTERVALS_H

#include "ff/graph.h"
#include "ff/hash.h"

/* Neighbouring coordinates of one degree with equal cost. */
struct ff_interval {
	uint64_t like; /* parts with equal values have equal prices, other dims being equal */
	uint32_t first, count; /* coordinates */
};

/* All intervals of one dim, by degree.  Zeroed it is empty. */
struct ff_intervals {
	struct ff_interval *interval;
	uint32_t n, cap;
	uint32_t *of_degree; /* by degree: its first interval; the next entry ends them */
	uint32_t degree_cap;
};

/* Usage: start, then add for degree 1, 2, ... of dim `dim` of `n`. */
int ff_intervals_start(struct ff_intervals *s, uint32_t max_degree, struct ff_error *err);
int ff_intervals_add(struct ff_intervals *s, const struct ff_node *n, uint32_t dim, uint32_t degree,
		struct ff_error *err);
void ff_intervals_finish(struct ff_intervals *s);

/* like[i]: the first coordinate that costs the same as coordinate i.  It has room for `degree`. */
void ff_intervals_alike(const struct ff_node *n, uint32_t dim, uint32_t degree, uint16_t *like);

#endif
