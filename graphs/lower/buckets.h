/* Buckets of a schedule.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_BUCKETS_H
#define FF_LOWER_BUCKETS_H

#include "lower/state/lowering.h"

/* Puts the shards of all parameters in buckets, in the order in which backward completes them. */
int ff_buckets_gather(struct ff_lowering *l, struct ff_error *err);
/* The schedule's buckets and shards, with their buffers; behind them the bucket of the norm. */
int ff_buckets_build(struct ff_lowering *l, struct ff_error *err);

#endif
