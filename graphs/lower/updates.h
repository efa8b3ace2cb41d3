/* Tasks of buckets.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_UPDATES_H
#define FF_LOWER_UPDATES_H

#include "lower/state/lowering.h"

/* Bucket `i` of the bucketing as the schedule has it, but for its shards. */
struct ff_bucket ff_updates_bucket(const struct ff_lowering *l, uint32_t i);
/* The bucket of the gradients' norm, but for its devices. */
struct ff_bucket ff_updates_norm(const struct ff_lowering *l);
/* A bucket's collective.  Forward: weights are gathered.  Backward: gradients are summed, within
 * groups of devices or (`across`) among groups; of an averaged bucket, weights and states become
 * the mean. */
struct ff_move ff_updates_move(const struct ff_lowering *l, const struct ff_bucket *b,
		enum ff_pass pass, bool across);
/* The task of that collective is opened, comes after the gradients that it sums, and gets its
 * buffers.  The first and the last return its number. */
uint32_t ff_updates_begin(
		struct ff_lowering *l, const struct ff_step *s, uint32_t bucket, bool across);
void ff_updates_depend(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
uint32_t ff_updates_end(struct ff_lowering *l);
/* The norm of all gradients, where they are clipped, and the updates. */
void ff_updates_emit(struct ff_lowering *l);

#endif
