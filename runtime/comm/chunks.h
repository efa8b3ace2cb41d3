/* Chunks of a collective, a device's each, as rings have them: of all-reduce even ones, the first
 * of which are one longer.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_CHUNKS_H
#define FF_COMM_CHUNKS_H

#include "ff/comm.h"

struct ff_chunks {
	const struct ff_collective *x;
	uint32_t me;             /* the place of this process's device */
	int64_t size, width;     /* bytes of an element; elements that stay together */
	int64_t longest;         /* elements of the longest chunk */
	int64_t *count, *offset; /* by place, elements */
};

/* Whether chunks are equally long; whether those, gathered, lie in the order of their devices. */
bool ff_chunks_are_even(const struct ff_collective *x);
bool ff_chunks_are_in_order(const struct ff_collective *x);
/* To be finished whether it fails or not. */
int ff_chunks_init(struct ff_chunks *c, const struct ff_collective *x, uint32_t me,
		struct ff_error *err);
void ff_chunks_finish(struct ff_chunks *c);
/* Of a chunk at most so many elements from `at` on: how many there are; where they lie of what this
 * device has (gathering: of its own chunk), and of what it gets (scattering: its own chunk). */
int64_t ff_chunks_part(const struct ff_chunks *c, uint32_t chunk, int64_t at, int64_t most);
const char *ff_chunks_own(const struct ff_chunks *c, uint32_t chunk, int64_t at);
char *ff_chunks_result(const struct ff_chunks *c, uint32_t chunk, int64_t at);
/* Gathering: what this device has is part of what it gets. */
void ff_chunks_keep_own(const struct ff_chunks *c);

/* Bytes that the device at `position` sends in a ring, which moves its array as
 * n_devices chunks, each a device's own.  Gathering, a device passes on every chunk but
 * its successor's; scattering, every chunk but its own.  Over all devices that is
 * (p - 1) n bytes each way, whatever the chunks' sizes (Patarasuk and Yuan, J. Parallel
 * Distrib. Comput. 69, 2009). */
int64_t ff_ring_bytes(const struct ff_collective *x, uint32_t position);

#endif
