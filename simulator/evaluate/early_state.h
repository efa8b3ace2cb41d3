/* What early rejection knows of a proposal, and how often it was right.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EARLY_STATE_H
#define FF_SIMULATOR_EARLY_STATE_H

#include "pass.h"

/* Why a proposal seems to be slower than its limit. */
enum ff_early_reason {
	FF_EARLY_BUSY,   /* a device is busy for longer */
	FF_EARLY_SYNCED, /* buckets are synchronised too late */
	FF_EARLY_IDLE,   /* behind what it changes in forward, devices have been idle for longer */
	FF_EARLY_BEHIND, /* the same at a mark behind all of forward */
	FF_EARLY_ORDER,  /* the same of another order */
	FF_EARLY_REASONS
};

/* Steps of the pass behind the first micro-batch's forward, and before equal micro-batches are
 * passed over, at which it is noted how long devices have been idle. */
#define FF_MARKS 16
struct ff_marks {
	uint32_t n; /* those that were passed */
	double *idle[FF_MARKS];
};

/* How a reason has turned out. */
struct ff_early_record {
	uint32_t checked, wrong; /* proposals it held for that were timed; good ones of them */
};

struct ff_early {
	bool on;
	bool checks;                    /* the proposal is timed whatever is found */
	bool found[FF_EARLY_REASONS];   /* reasons that hold for it, */
	bool trusted[FF_EARLY_REASONS]; /* those that count, */
	bool rejected;                  /* and whether one of these held */
	enum ff_early_reason at_marks;  /* FF_EARLY_BEHIND or FF_EARLY_ORDER */
	double now_us, next_us;         /* steps of the current strategy, of the proposal */
	double busiest_us;              /* of the devices, with the current strategy */
	double spare_us;                /* what the proposal may take more than it */
	double most_busy_us;            /* FF_EARLY_BUSY: for longer than this */
	/* By node: when the parts of one that may close buckets were done, last. */
	double *closed, *closed_next;
	double *lane;
	struct ff_marks marks, marks_next;
	uint32_t mark_at; /* the step at which the pass comes to the next one; FF_NONE */
	uint32_t n;       /* proposals */
	struct ff_early_record so_far[FF_EARLY_REASONS];
};

static inline void ff_early_add_reason(struct ff_early *early, enum ff_early_reason why)
{
	early->found[why] = true;
	early->rejected |= early->trusted[why];
}

#endif
