/* Dropped buckets: the buffers that their weights and gradients lie in while they are needed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_DROPPED_H
#define FF_LOWER_DROPPED_H

#include "lower/state/lowering.h"

/* Before its shards are added. */
int ff_dropped_begin(struct ff_lowering *l, uint32_t bucket);
/* Buffers of what task `t`, the one at hand, gathers. */
void ff_dropped_place(struct ff_lowering *l, struct ff_task *t);
/* The task at hand is about to write `gradient`, which may be one of a scattered bucket. */
void ff_dropped_write(struct ff_lowering *l, uint32_t gradient);
/* Move `t` of a scattered bucket takes all its gradients of a micro-batch. */
void ff_dropped_take(struct ff_lowering *l, const struct ff_task *t);

#endif
