/* Whole tensors in row-major order, and the regions of them that devices have.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_WHOLE_H
#define FF_EXEC_WHOLE_H

#include "ff/graph.h"

struct ff_executor;
struct ff_stream;

/* Walks the elements of a region of a value line by line of the last axis: `offset` is where the
 * line's first one lies among the region's, `index` its number in the whole. */
struct ff_walk {
	const struct ff_region *r;
	const int32_t *shape;
	int64_t stride[FF_MAX_RANK];
	int32_t at[FF_MAX_RANK];
	int64_t offset, index;
};
void ff_walk_start(struct ff_walk *w, const struct ff_region *r, const struct ff_value *v);
/* To the start of the next line; false at the end. */
bool ff_walk_next_line(struct ff_walk *w);

/* Takes a region out of the whole. */
void ff_whole_take(const struct ff_value *v, const struct ff_region *r, const float *whole,
		float *region);
/* Makes a region of the whole zero. */
void ff_whole_clear(const struct ff_value *v, const struct ff_region *r, float *whole);
/* A region of a value, or a run of its elements, in device memory. */
struct ff_held {
	const struct ff_value *value;
	const struct ff_region *region;
	int64_t first, n; /* elements that are there: of the region, so many from `first` on */
	const void *memory;
	struct ff_stream *stream; /* of the device */
};
/* Adds `share` times what is held to the whole. */
int ff_whole_add(struct ff_executor *x, const struct ff_held *h, float share, float *whole,
		struct ff_error *err);

#endif
