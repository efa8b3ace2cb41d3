/* Regions in memory: how a shard's elements are laid out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/region.h"

_Static_assert(FF_MAX_RANK == 6, "orders of as many axes as a tensor may have");
const uint8_t ff_order_plain[FF_MAX_RANK] = {0, 1, 2, 3, 4, 5};
const uint8_t ff_order_image[FF_MAX_RANK] = {0, 2, 3, 1, 4, 5};
const uint8_t ff_order_volume[FF_MAX_RANK] = {0, 2, 3, 4, 1, 5};
const uint8_t ff_order_line[FF_MAX_RANK] = {0, 2, 1, 3, 4, 5};

bool ff_region_is_run(const uint8_t *order, const struct ff_region *whole,
		const struct ff_region *part, int64_t *start)
{
	bool partial = false;

	if (ff_region_volume(part) == 0) {
		*start = 0;
		return true;
	}
	/* From the innermost axis out: whole axes, then at most one partial
	 * axis, then single positions only. */
	for (uint32_t i = whole->rank; i-- > 0;) {
		int32_t size = ff_region_size(part, order[i]);

		if (partial && size != 1)
			return false;
		if (size != ff_region_size(whole, order[i]))
			partial = true;
	}
	*start = ff_region_offset(order, whole, part->lo);
	return true;
}

int64_t ff_region_offset(const uint8_t *order, const struct ff_region *whole, const int32_t *at)
{
	int64_t offset = 0;

	for (uint32_t i = 0; i < whole->rank; i++) {
		uint32_t axis = order[i];

		offset = offset * ff_region_size(whole, axis) + (at[axis] - whole->lo[axis]);
	}
	return offset;
}

void ff_region_strides(const uint8_t *order, const struct ff_region *r, int64_t *stride)
{
	int64_t n = 1;

	for (uint32_t i = r->rank; i-- > 0;) {
		stride[order[i]] = n;
		n *= ff_region_size(r, order[i]);
	}
}
