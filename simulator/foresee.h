/* What is thought of a proposal before all of it is timed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_FORESEE_H
#define FF_SIMULATOR_FORESEE_H

#include "pass.h"

struct ff_foresight {
	bool on;
	bool checks;            /* the proposal is timed whatever is thought of it */
	bool doubted;           /* it seems to be slower than its limit */
	double now_us, next_us; /* steps of the current strategy, of the proposal */
	double busiest_us;      /* of the devices, with the current strategy */
	double spare_us;        /* what the proposal may take more than it */
	double most_busy_us;    /* doubted: a device busy for longer */
	/* By node: when the parts of one that may close buckets were done, last. */
	double *closed, *closed_next;
	double *lane;
	uint32_t n, checked, wrong; /* proposals; doubted ones that were timed; good ones of them */
};

/* Before a proposal, once its blocks are in place, in the pass before the
 * snapshot `s` behind all of forward that it changes, and when it is known whether it is
 * slower; after the current strategy became another. */
int ff_foresee_create(struct ff_course *e, struct ff_error *err);
void ff_foresee_begin(struct ff_course *e, double limit_us);
int ff_foresee_sync(struct ff_course *e, struct ff_error *err);
void ff_foresee_rest(struct ff_course *e, const struct ff_snapshot *s);
void ff_foresee_end(struct ff_course *e, bool slower);
void ff_foresee_keep(struct ff_course *e);

#endif
