/* The intervals into which one dim of a node is cut, sorted by what their parts
 * cost.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_INTERVALS_H
#define FF_INTERVALS_H

#include "ff/graph.h"
#include "ff/hash.h"

/* Neighbours of one degree that are alike. */
struct ff_interval {
	uint64_t like;         /* equal: parts have equal prices whatever the other dims do */
	uint32_t first, count; /* coordinates */
};

/* All intervals of one dim, by degree.  Zeroed it is empty. */
struct ff_intervals {
	struct ff_interval *interval;
	uint32_t n, cap;
	uint32_t *of_degree; /* [degree]: its first interval, up to that of degree + 1 */
	uint32_t degree_cap;
};

/* Begins with dim `dim` of `n`; then intervals are added degree by degree, 1 first. */
int ff_intervals_start(struct ff_intervals *s, uint32_t max_degree, struct ff_error *err);
int ff_intervals_add(struct ff_intervals *s, const struct ff_node *n, uint32_t dim, uint32_t degree,
		struct ff_error *err);
void ff_intervals_finish(struct ff_intervals *s);

/* Of the coordinates of one degree the first that costs as each does, in `like`, which has room for
 * `degree`. */
void ff_intervals_alike(const struct ff_node *n, uint32_t dim, uint32_t degree, uint16_t *like);

#endif
