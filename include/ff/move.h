/* Kinds of moving data: what schedules have and cost files price.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_H
#define FF_MOVE_H

#include <stdbool.h>

/* What a redistribution was recognised as.  The first three of the network
 * kinds are executed alike, as messages between pairs of devices. */
enum ff_move_kind {
	FF_MOVE_LOAD,           /* a sink is filled from the data set */
	FF_MOVE_COPY,           /* within one device */
	FF_MOVE_POINT_TO_POINT, /* messages, no known pattern */
	FF_MOVE_HALO,           /* messages: each sink has most of its region at home */
	FF_MOVE_ALL_TO_ALL,     /* messages: every source meets every sink */
	FF_MOVE_ALL_GATHER,
	FF_MOVE_REDUCE_SCATTER,
	FF_MOVE_ALL_REDUCE,
};
const char *ff_move_name(enum ff_move_kind kind); /* "all-gather", ... */
static inline bool ff_move_is_messages(enum ff_move_kind k)
{
	return k >= FF_MOVE_COPY && k <= FF_MOVE_ALL_TO_ALL;
}

#endif
