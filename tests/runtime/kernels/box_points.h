/* Points of a box, for tests that go through all of them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_BOX_POINTS_H
#define FF_TEST_BOX_POINTS_H

#include <stdbool.h>

#include "ff/region.h"

/* To the point behind `at`, the last axis first; false: to the first one, as there is none. */
static inline bool next(const struct ff_region *r, int32_t *at)
{
	for (uint32_t i = r->rank; i-- > 0;) {
		if (++at[i] < r->hi[i])
			return true;
		at[i] = r->lo[i];
	}
	return false;
}

#endif
