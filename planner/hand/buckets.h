/* How many bytes of gradients travel together.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_BUCKETS_H
#define FF_PLANNER_BUCKETS_H

#include "ff/evaluate.h"
#include "ff/strategy.h"

/* Doubles or halves the buckets of `s` as long as its step gets shorter by a hundredth or more, and
 * it fits, up to ff_buckets_most.  *at: its evaluation, before and after.  `e` is left with another
 * strategy. */
int ff_buckets_tune(struct ff_evaluator *e, struct ff_strategy *s, int64_t preset_bytes,
		struct ff_evaluation *at, struct ff_error *err);

/* How large the buckets of `s` may be: of what is dropped they are not large, all else has no
 * limit. */
int64_t ff_buckets_most(const struct ff_strategy *s);

#endif
