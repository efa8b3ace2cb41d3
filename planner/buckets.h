/* How many bytes of gradients travel together.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_BUCKETS_H
#define FF_PLANNER_BUCKETS_H

#include "ff/evaluate.h"
#include "ff/strategy.h"

/* Doubles or halves the buckets of `s` as long as its step gets shorter by a hundredth or more, and
 * it fits.  *at: its evaluation, before and after.  `e` is left with another strategy. */
int ff_buckets_tune(struct ff_evaluator *e, struct ff_strategy *s, int64_t preset_bytes,
		struct ff_evaluation *at, struct ff_error *err);

#endif
