/* What the parts of a schedule take: each price is found once, however many micro-batches compute
 * the part and however many parts cost alike.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PARTS_H
#define FF_SIMULATOR_PARTS_H

#include "ff/price.h"
#include "ff/schedule.h"

/* Of one operator. */
struct ff_parts_of {
	uint16_t *kind; /* by part: which of its prices it has; NULL: it was not met yet */
	uint32_t n_kinds;
	struct ff_parts_price *price[4]; /* forward, and by enum ff_grads backward; by kind */
};

struct ff_parts {
	const struct ff_schedule *schedule;
	struct ff_pricer *pricer;
	struct ff_arena *arena;
	struct ff_parts_of *of;       /* by node */
	struct ff_inferred *inferred; /* by device: of what it computed so far */
};

/* All memory comes from `a`, which must outlive it. */
int ff_parts_init(struct ff_parts *x, const struct ff_schedule *s, struct ff_pricer *p,
		struct ff_arena *a, struct ff_error *err);
/* What `t` takes, which computes a part, with what it adds to gradients. */
int ff_parts_us(struct ff_parts *x, const struct ff_task *t, double *us, struct ff_error *err);
/* What of all that was asked for rests on no measurement: of the device of which most does. */
struct ff_inferred ff_parts_inferred(const struct ff_parts *x);

#endif
