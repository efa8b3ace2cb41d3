/* Two placements of a tensor, what lies there and what should.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_TESTS_WORLD_H
#define FF_TESTS_WORLD_H

#include "placing.h"

#define DEVICES PLACING_DEVICES
#define MOST 4096

struct world {
	struct ff_random r;
	struct ff_machine m;
	struct placing source, sink;
	const uint8_t *order;
	double *shard[2][DEVICES]; /* by part, dense */
	double want[DEVICES][MOST];
	/* what has been seen: by kind, and of what else there is */
	uint32_t kinds[8], of_replicas[8], aliases, idle, replicas, lead_only, sliced;
	/* what of its region a sink is sent, by part: all of it, or a slice */
	struct ff_region sent[DEVICES];
};

/* world_moves.c: that a move says of itself what it does; `sunk` counts, by part. */
void check_parts(const struct world *w, const struct ff_move *mv, uint32_t *sunk);
void check_messages(const struct world *w, const struct ff_move *mv);
void check_collective(const struct world *w, const struct ff_move *mv);

#endif
