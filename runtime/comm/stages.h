/* Collectives by nodes: which go so, and in which stages, whoever carries them out.  What is summed
 * is summed inside each node first, so that every device has a part of it, then among the devices
 * of equal place in their nodes; what is gathered goes the other way round.  So less crosses the
 * network than in a ring of all, and all devices of a node send at once (Thakur, Rabenseifner,
 * Gropp, IJHPCA 2005, have the stages; "Horovod", Sergeev and Del Balso, 2018, the order).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_STAGES_H
#define FF_COMM_STAGES_H

#include "ff/comm.h"
#include "ff/nodes.h"

/* Whose collective a stage is. */
enum ff_among {
	FF_AMONG_NODE,   /* the devices of this one's node */
	FF_AMONG_PLACES, /* those of equal place in their nodes */
	FF_AMONG_ALL,
};

/* Where a stage's elements lie: in what the device sends or gets, or in memory for sums that are
 * not complete. */
enum ff_stage_in { FF_STAGE_SENT, FF_STAGE_GOT, FF_STAGE_SUMS, FF_STAGE_IN_COUNT };

struct ff_stage {
	enum ff_move_kind kind;
	enum ff_among among;
	enum ff_stage_in send_in, recv_in;
	int64_t send_at, recv_at; /* elements */
	int64_t count;            /* elements of each chunk, or of the array */
	int64_t apart;            /* what is gathered lies so far apart, elements */
};

/* The stages follow each other; neighbours among the same devices need nothing of each other, and
 * may go at once. */
struct ff_stages {
	const struct ff_collective *x;
	struct ff_spread spread;
	uint32_t node, place, me; /* this rank's node, its place there, its place among all */
	int64_t sums;             /* elements of memory for sums */
	struct ff_stage *stage;
	uint32_t n;
	/* of the collective that is told */
	struct ff_collective sub;
	uint16_t *device;
	const void **send;
	void **recv;
	int64_t *count, *offset;
};

/* Whether a collective goes in stages where that is asked for (ff/nodes.h), and on which nodes. */
bool ff_stages_find(const uint32_t *node_of, const struct ff_collective *x, struct ff_spread *ret);
/* To be finished whether it fails or not; `x` stays as long. */
int ff_stages_init(struct ff_stages *s, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, struct ff_error *err);
void ff_stages_finish(struct ff_stages *s);
/* Stage `i` as a collective, with this rank's arrays where `sums` has room for as many; it holds
 * until the next one is told. */
const struct ff_collective *ff_stages_tell(struct ff_stages *s, uint32_t i, char *sums);

#endif
