/* The two ends of a redistribution.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/redistribution.h"

static bool same_axis(const struct ff_grid_axis *x, const struct ff_grid_axis *y)
{
	bool same = x->n == y->n && !memcmp(x->lo, y->lo, x->n * sizeof(*x->lo)) &&
		    !memcmp(x->hi, y->hi, x->n * sizeof(*x->hi)) &&
		    !memcmp(x->part, y->part, x->n * sizeof(*x->part));

	/* intervals that follow each other; others might be covered twice */
	for (uint32_t k = 1; k < x->n && same; k++)
		same = x->lo[k] == x->hi[k - 1];
	return same;
}

/* The usual case in a chain. */
bool ff_side_is_same(const struct ff_side *source, const struct ff_side *sink)
{
	const struct ff_placement *a = source->place, *b = sink->place;
	bool same = a->n_parts == b->n_parts && a->replicas == b->replicas && a->n_copies == 1 &&
		    b->n_copies == 1 &&
		    !memcmp(source->device, sink->device, a->n_parts * sizeof(*source->device));

	for (uint32_t i = 0; i < a->rank && same; i++)
		same = same_axis(&a->axis[i], &b->axis[i]);
	return same;
}
