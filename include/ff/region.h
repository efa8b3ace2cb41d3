/* Regions: boxes of tensor elements, half open.  Axis 0 first.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REGION_H
#define FF_REGION_H

#include <stdbool.h>
#include <stdint.h>

#define FF_MAX_RANK 6 /* axes of a tensor */
#define FF_MAX_DIMS 8 /* dims of an iteration space */

/* A box of tensor elements or of an iteration space. */
struct ff_region {
	uint32_t rank;
	int32_t lo[FF_MAX_DIMS], hi[FF_MAX_DIMS];
};

static inline int32_t ff_region_size(const struct ff_region *r, uint32_t axis)
{
	return r->hi[axis] - r->lo[axis];
}

/* Elements; 0 when empty, 1 for rank 0. */
static inline int64_t ff_region_volume(const struct ff_region *r)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < r->rank; i++) {
		if (r->hi[i] <= r->lo[i])
			return 0;
		n *= r->hi[i] - r->lo[i];
	}
	return n;
}

static inline bool ff_region_equal(const struct ff_region *a, const struct ff_region *b)
{
	for (uint32_t i = 0; i < a->rank; i++)
		if (a->lo[i] != b->lo[i] || a->hi[i] != b->hi[i])
			return false;
	return true;
}

/* Writes a ∩ b and returns its volume.  When that is 0, `ret` is empty along
 * one axis and unspecified along those behind it: most pairs in a search do
 * not meet, and the first axis mostly tells. */
static inline int64_t ff_region_intersect(
		const struct ff_region *a, const struct ff_region *b, struct ff_region *ret)
{
	int64_t n = 1;

	ret->rank = a->rank;
	for (uint32_t i = 0; i < a->rank; i++) {
		ret->lo[i] = a->lo[i] > b->lo[i] ? a->lo[i] : b->lo[i];
		ret->hi[i] = a->hi[i] < b->hi[i] ? a->hi[i] : b->hi[i];
		if (ret->hi[i] <= ret->lo[i])
			return 0;
		n *= ret->hi[i] - ret->lo[i];
	}
	return n;
}

/* Part `i` of `n` of an axis of `extent` elements starts here; parts differ by
 * at most one element, the larger ones first. */
static inline int32_t ff_part_start(int32_t extent, uint32_t n, uint32_t i)
{
	int32_t base = extent / (int32_t)n, extra = extent % (int32_t)n;

	return (int32_t)i * base + ((int32_t)i < extra ? (int32_t)i : extra);
}

/* How a shard lies in memory: dense, its axes in this order, outermost first.
 * A value says its own; files and shapes keep the axes as PyTorch has them. */
extern const uint8_t ff_order_plain[FF_MAX_RANK];  /* as they stand */
extern const uint8_t ff_order_image[FF_MAX_RANK];  /* N H W C: as oneDNN and cuDNN run fastest */
extern const uint8_t ff_order_volume[FF_MAX_RANK]; /* N D H W C */
extern const uint8_t ff_order_line[FF_MAX_RANK];   /* N W C */

/* True when the elements of `part`, a sub-box of `whole`, are one contiguous run
 * of the dense storage of `whole`; then the run's first element is in `*start`
 * (0 when `part` is empty).  False when they are scattered. */
bool ff_region_is_run(const uint8_t *order, const struct ff_region *whole,
		const struct ff_region *part, int64_t *start);

/* Element offset of the global position `at` in a dense shard of `whole`. */
int64_t ff_region_offset(const uint8_t *order, const struct ff_region *whole, const int32_t *at);
/* Elements from one position of each axis to the next in a dense shard of `r`. */
void ff_region_strides(const uint8_t *order, const struct ff_region *r, int64_t *stride);

#endif
