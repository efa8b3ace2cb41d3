/* Tasks of buckets.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_UPDATES_H
#define FF_LOWER_UPDATES_H

#include "lower/state/lowering.h"

/* A bucket's gradients are summed, or (forward) the weights of a flat one gathered: begun, for sums
 * what they come after, and ended, with its buffers.  Both give the task's number. */
uint32_t ff_updates_begin(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
void ff_updates_depend(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
uint32_t ff_updates_end(struct ff_lowering *l);
/* The norm of all gradients, where they are clipped, and the updates. */
void ff_updates_emit(struct ff_lowering *l);

#endif
