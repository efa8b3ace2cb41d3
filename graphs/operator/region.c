/* Regions in memory: how a shard's elements are laid out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/region.h"

const uint8_t *ff_storage_order(uint32_t rank)
{
	static const uint8_t in_order[FF_MAX_RANK] = {0, 1, 2, 3, 4, 5};
	static const uint8_t channels_last[4] = {0, 2, 3, 1};

	return rank == 4 ? channels_last : in_order;
}

bool ff_region_is_run(const struct ff_region *whole, const struct ff_region *part, int64_t *start)
{
	const uint8_t *order = ff_storage_order(whole->rank);
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
	*start = ff_region_offset(whole, part->lo);
	return true;
}

int64_t ff_region_offset(const struct ff_region *whole, const int32_t *at)
{
	const uint8_t *order = ff_storage_order(whole->rank);
	int64_t offset = 0;

	for (uint32_t i = 0; i < whole->rank; i++) {
		uint32_t axis = order[i];

		offset = offset * ff_region_size(whole, axis) + (at[axis] - whole->lo[axis]);
	}
	return offset;
}
