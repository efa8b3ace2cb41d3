/* Tasks of buckets.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_UPDATES_H
#define FF_LOWER_UPDATES_H

#include "lower/state/lowering.h"

/* A bucket of the bucketing as the schedule has it, but for its shards; that of the gradients'
 * norm, but for its devices. */
struct ff_bucket ff_updates_bucket(const struct ff_lowering *l, uint32_t i);
struct ff_bucket ff_updates_norm(const struct ff_lowering *l);
/* Forward weights are gathered, backward gradients are summed, in groups or (`across`) among them;
 * where those are not, what is updated by them becomes the mean. */
struct ff_move ff_updates_move(const struct ff_lowering *l, const struct ff_bucket *b,
		enum ff_pass pass, bool across);
/* A bucket's gradients are summed, in groups or (`across`) among them, or (forward) the weights of
 * a flat one gathered: begun, for sums what they come after, and ended, with its buffers.  Both
 * give the task's number. */
uint32_t ff_updates_begin(
		struct ff_lowering *l, const struct ff_step *s, uint32_t bucket, bool across);
void ff_updates_depend(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
uint32_t ff_updates_end(struct ff_lowering *l);
/* The norm of all gradients, where they are clipped, and the updates. */
void ff_updates_emit(struct ff_lowering *l);

#endif
