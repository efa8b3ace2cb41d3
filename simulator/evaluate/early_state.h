/* Early rejection: reasons to reject a proposal before it is timed, and how reliable they were.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EARLY_STATE_H
#define FF_SIMULATOR_EARLY_STATE_H

#include "pass.h"

/* Why a proposal seems slower than its limit. */
enum ff_early_reason {
	FF_EARLY_BUSY,   /* a device has more work */
	FF_EARLY_SYNCED, /* buckets are synchronised too late */
	FF_EARLY_IDLE,   /* after its changes in forward, devices have idled longer */
	FF_EARLY_BEHIND, /* likewise at a mark after forward */
	FF_EARLY_ORDER,  /* likewise, for a proposed order */
	FF_EARLY_REASONS
};

/* Marks: steps between the first micro-batch's forward and the folding of micro-batches, at which
 * the idle times of devices are recorded. */
#define FF_MARKS 16
struct ff_marks {
	uint32_t n; /* marks passed so far */
	double *idle[FF_MARKS];
};

/* The record of a reason. */
struct ff_early_record {
	uint32_t checked, wrong; /* proposals that it would reject and that were timed; of these,
				    good ones */
};

struct ff_early {
	bool on;
	bool checks;                  /* the proposal is timed in any case, to check the reasons */
	bool found[FF_EARLY_REASONS]; /* reasons against the proposal */
	bool trusted[FF_EARLY_REASONS]; /* reasons that may reject */
	bool rejected;                  /* a trusted reason was found */
	enum ff_early_reason at_marks;  /* FF_EARLY_BEHIND or FF_EARLY_ORDER */
	double now_us, next_us;         /* steps of the current strategy, of the proposal */
	double busiest_us;              /* work of the busiest device in the current strategy */
	double spare_us;                /* limit of the proposal's step minus the current step */
	double most_busy_us;            /* FF_EARLY_BUSY: the limit of a device's work */
	/* By node that may close buckets: when its last part was done. */
	double *closed, *closed_next;
	double *lane;
	struct ff_marks marks, marks_next;
	uint32_t mark_at; /* the step of the next mark, or FF_NONE */
	uint32_t n;       /* proposals */
	struct ff_early_record so_far[FF_EARLY_REASONS];
};

static inline void ff_early_add_reason(struct ff_early *early, enum ff_early_reason why)
{
	early->found[why] = true;
	early->rejected |= early->trusted[why];
}

#endif
