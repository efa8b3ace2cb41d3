/* Prefetch: a thread that fills one of two slots with what the next pass over the schedule
 * reads, while the pass before it runs and reads the other.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_PREFETCH_H
#define FF_DATA_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

#define FF_SLOTS 2

/* What one pass over the schedule is fed: a global batch. */
struct ff_batch {
	uint64_t step;
	bool training;
};

/* The slot that a pass of step `step` reads. */
static inline uint32_t ff_batch_slot(uint64_t step)
{
	return (uint32_t)(step % FF_SLOTS);
}

/* Fills a pass's slot.  It is the thread that calls it, one call at a time. */
typedef int (*ff_prefetch_fill)(void *arg, const struct ff_batch *pass, struct ff_error *err);

struct ff_prefetch;

/* `arg` must outlive it. */
int ff_prefetch_create(
		ff_prefetch_fill fill, void *arg, struct ff_prefetch **ret, struct ff_error *err);
/* Lets the fill under way finish. */
void ff_prefetch_destroy(struct ff_prefetch *p);
/* Waits until the slot of `now` is filled with it, and returns what came of that: a pass that
 * was filled and is never taken never fails.  From here on, until the next call, that slot is
 * left alone and the other one may be written: passes that read it must be over.  There goes
 * `next`, which is a step behind `now`, or nothing new (NULL). */
int ff_prefetch_take(struct ff_prefetch *p, const struct ff_batch *now, const struct ff_batch *next,
		struct ff_error *err);

#endif
