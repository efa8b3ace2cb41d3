/* What a device's memory holds when most of it is in use.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_HELD_H
#define FF_PLANNER_HELD_H

#include "plan.h"

enum ff_held_kind {
	FF_HELD_WEIGHTS, /* as they are updated, and as they are read */
	FF_HELD_GRADIENTS,
	FF_HELD_STATES,      /* of the optimizer, and what operators keep from step to step */
	FF_HELD_ACTIVATIONS, /* and their gradients */
	FF_HELD_BUFFERS,     /* of transfers; weights and gradients that are gathered for a while */
	FF_HELD_WORKSPACE,
	FF_HELD_GAPS, /* between buffers, and what could be in use at once but never is */
	FF_HELD_COUNT
};
const char *ff_held_name(enum ff_held_kind k); /* "weights" */

struct ff_held {
	uint32_t device;              /* that needs most */
	int64_t bytes[FF_HELD_COUNT]; /* which add up to */
	int64_t all_bytes;
};

/* `scratch` is rewound to where it was. */
int ff_held_find(const struct ff_schedule *s, struct ff_arena *scratch, struct ff_held *ret,
		struct ff_error *err);

#endif
