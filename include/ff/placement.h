/* Placement: which part of an operator touches which elements of one tensor.
 *
 * A config cuts every axis of the tensor into intervals.  A part's region is a product of
 * intervals, one an axis, so the regions of two placements are intersected axis by axis.  Parts
 * with equal regions are copies of each other: copies of a reader each want all the elements;
 * copies of a writer that is cut along a reduction each hold a partial result of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLACEMENT_H
#define FF_PLACEMENT_H

#include "ff/strategy.h"

/* One axis: intervals by coordinate, some perhaps empty. */
struct ff_grid_axis {
	uint32_t n;
	const int32_t *lo, *hi;
	const uint16_t *part; /* by coordinate: its contribution to a part's number */
	const uint16_t *of;   /* by cell: its coordinate */
	bool sorted;          /* lo and hi never fall */
};

struct ff_placement {
	enum ff_dtype type, gradient; /* of the elements, of their gradients */
	const uint8_t *order;         /* of the axes in memory, outermost first */
	uint32_t rank;
	struct ff_grid_axis axis[FF_MAX_RANK];
	uint32_t n_copies;        /* parts with equal regions, replicas not counted */
	const uint16_t *copy;     /* by copy: its contribution to a part's number */
	enum ff_reduce reduce;    /* combines a writer's copies */
	uint32_t replicas, cells; /* replica r of a part is number part + r * cells */
	uint32_t n_parts;
	const bool *idle; /* by cell: it uses nothing of the tensor; NULL: no cell is idle */
};

/* The placement of `o`, an operand of `n`, under config `c`.  All memory from `a`. */
int ff_placement_build(const struct ff_node *n, const struct ff_operand *o,
		const struct ff_config *c, struct ff_arena *a, struct ff_placement *ret,
		struct ff_error *err);

bool ff_grid_axis_is_sorted(const struct ff_grid_axis *g);
/* Coordinate of `part` along `axis`. */
static inline uint32_t ff_placement_coordinate(
		const struct ff_placement *p, uint32_t axis, uint32_t part)
{
	/* usually there are no replicas, and a division takes time */
	return p->axis[axis].of[part < p->cells ? part : part % p->cells];
}
/* The region of `part`; empty if it is idle. */
void ff_placement_region(const struct ff_placement *p, uint32_t part, struct ff_region *ret);
/* The bytes of that region, and of its gradient. */
int64_t ff_placement_bytes(const struct ff_placement *p, uint32_t part);
int64_t ff_placement_gradient_bytes(const struct ff_placement *p, uint32_t part);

#endif
