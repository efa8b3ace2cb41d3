/* What a device's memory holds when most of it is in use.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_BYTES_H
#define FF_PLANNER_BYTES_H

#include "ff/held.h"
#include "ff/schedule.h"

struct ff_held {
	uint32_t device;              /* that needs most */
	int64_t bytes[FF_HELD_COUNT]; /* which add up to */
	int64_t all_bytes;
};

/* `scratch` is rewound to where it was. */
int ff_held_find(const struct ff_schedule *s, struct ff_arena *scratch, struct ff_held *ret,
		struct ff_error *err);

#endif
