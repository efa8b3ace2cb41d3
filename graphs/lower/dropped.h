/* Dropped buckets: the buffers that their weights and gradients lie in while they are needed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_DROPPED_H
#define FF_LOWER_DROPPED_H

#include "lowering.h"

/* Before its shards are added. */
int ff_dropped_begin(struct ff_lowering *l, uint32_t bucket);
/* The task that gathers all its weights in limited step `s`. */
void ff_dropped_gather(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
/* The task at hand is about to write `gradient`, which may be one of a dropped bucket. */
void ff_dropped_write(struct ff_lowering *l, uint32_t gradient);
/* The task at hand takes all gradients of a bucket, if it is dropped. */
void ff_dropped_take(struct ff_lowering *l, uint32_t bucket);

#endif
