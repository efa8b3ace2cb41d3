/* Lists of devices, ascending.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_LIST_H
#define FF_DEVICE_LIST_H

#include "ff/hash.h"

/* Where `device` stands among the `n` of a task or a bucket, or FF_NONE. */
static inline uint32_t ff_device_index(const uint16_t *list, uint32_t n, uint32_t device)
{
	uint32_t lo = 0, hi = n, at = n ? device - list[0] : 0;

	if (at < n && list[at] == device)
		return at; /* side by side, as mostly */
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (list[mid] < device)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && list[lo] == device ? lo : FF_NONE;
}

#endif
