/* What the moves at an edge take of memory.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_BUFFERS_H
#define FF_SIMULATOR_BUFFERS_H

#include "ff/redistribution.h"

/* Bytes by device, as far as they differ from those of the device before; none are on devices
 * before `first`, or from `end` on. */
struct ff_memo_bytes {
	uint32_t n, first, end;
	const struct ff_memo_more {
		uint32_t device;
		int64_t bytes;
	} * more;
};

/* How many of the parts at an end of an edge. */
enum ff_memo_share { FF_NO_PART, FF_SOME_PARTS, FF_ALL_PARTS };

/* What the moves of one pass at an edge take, and which parts they are of. */
struct ff_memo_buffers {
	bool known;
	struct ff_memo_bytes arrived, stages, unsent; /* unsent: of what is compressed */
	/* Of the parts whose values or gradients these are: those that are moved, and those that
	 * are the other end's as they are.  Of the other end: those that are moved to, and those
	 * that are so. */
	enum ff_memo_share sent, lent, got, same;
};

/* What is moved in one pass at an edge. */
struct ff_memo_moved {
	struct ff_redistribution by;
	struct ff_memo_buffers buffers; /* once they were asked for: bytes.c */
};

#endif
