/* What is thought of a proposal, and of what was thought before.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_FORESIGHT_H
#define FF_SIMULATOR_FORESIGHT_H

#include "pass.h"

/* Why a proposal seems to be slower than its limit. */
enum ff_doubt {
	FF_DOUBT_BUSY,   /* a device is busy for longer */
	FF_DOUBT_SYNCED, /* buckets are synchronised too late */
	FF_DOUBT_IDLE,   /* behind what it changes in forward, devices have been idle for longer */
	FF_DOUBT_BEHIND, /* the same at a mark behind all of forward */
	FF_DOUBT_ORDER,  /* the same of another order */
	FF_DOUBTS
};

/* Steps of the pass behind the first micro-batch's forward, and before equal micro-batches are
 * passed over, at which it is noted how long devices have been idle. */
#define FF_MARKS 16
struct ff_marks {
	uint32_t n; /* those that were passed */
	double *idle[FF_MARKS];
};

/* How doubts of a kind have turned out. */
struct ff_doubted {
	uint32_t checked, wrong; /* doubted proposals that were timed; good ones of them */
};

struct ff_foresight {
	bool on;
	bool checks;            /* the proposal is timed whatever is thought of it */
	bool doubts[FF_DOUBTS]; /* what is thought of it, */
	bool heeds[FF_DOUBTS];  /* what of that counts, */
	bool dismissed;         /* and whether something did */
	enum ff_doubt at_marks; /* FF_DOUBT_BEHIND or FF_DOUBT_ORDER */
	double now_us, next_us; /* steps of the current strategy, of the proposal */
	double busiest_us;      /* of the devices, with the current strategy */
	double spare_us;        /* what the proposal may take more than it */
	double most_busy_us;    /* FF_DOUBT_BUSY: for longer than this */
	/* By node: when the parts of one that may close buckets were done, last. */
	double *closed, *closed_next;
	double *lane;
	struct ff_marks marks, marks_next;
	uint32_t mark_at; /* the step at which the pass comes to the next one; FF_NONE */
	uint32_t n;       /* proposals */
	struct ff_doubted so_far[FF_DOUBTS];
};

static inline void ff_foresee_doubt(struct ff_foresight *f, enum ff_doubt why)
{
	f->doubts[why] = true;
	f->dismissed |= f->heeds[why];
}

#endif
