/* What random scenes have met.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_SEEN_H
#define FF_TEST_SEEN_H

#include "scene.h"

/* What the random cases must have met, or they test too little. */
struct seen {
	uint32_t move[FF_MOVE_ALL_REDUCE + 1], op[FF_OP_COUNT];
	uint32_t accumulate, send_staged, recv_staged, straight, add, syncs;
	uint32_t joins;                             /* slices that came from another node */
	uint32_t replicas;                          /* operators computed several times */
	uint32_t micro_batches, stages, recomputed; /* tasks */
	uint32_t sharded, served, replicated;       /* parameters with a config of their own */
	uint32_t flat, grouped, scattered, dropped; /* buckets */
	uint32_t beside;                            /* sums among groups, on a lane of their own */
	uint32_t summed_again;                      /* scattered ones' gradients (tasks) */
	uint32_t summed;                            /* gradients of data that are added to others */
	uint32_t added, tied_synced, tied_brought;  /* gradients of several uses, by way */
	uint32_t optimizer[FF_OPTIMIZER_COUNT];
	uint32_t reduced[FF_REDUCE_COUNT];     /* partial results, by what makes one of them */
	uint32_t classes, classes_and_samples; /* losses split by the one, by both */
	/* statistics of groups of samples: in micro-batches (tasks), of groups that are cut
	 * (pieces) */
	uint32_t groups_apart, groups_cut;
};

/* Adds what the schedule of `s` has; whether some of it is the first of its kind. */
bool seen_look(struct seen *seen, const struct scene *s);
/* What was not met yet, by its name; NULL: there was everything. */
const char *seen_lacks(const struct seen *seen);

/* Draws, at most, until everything was met: of the rarest operators there is one in some hundred.
 * Of draws beyond a test's rounds only such are run as have something that was not met before, so
 * that few rounds meet as much as many, whatever the seed. */
#define SEEN_DRAWS 6000

#endif
