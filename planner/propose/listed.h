/* List schedules: operators in an order in which others are computed while sums and messages are on
 * their way.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_LISTED_H
#define FF_PLANNER_LISTED_H

#include "ff/evaluate.h"

/* Priorities of `s`, which is the evaluator's, by node: of those whose inputs are there first, the
 * one with the longest path to the end is next (Graham, SIAM Journal on Applied Mathematics, 1969;
 * Kwok, Ahmad, ACM Computing Surveys, 1999).  One micro-batch; buckets do not count. */
int ff_list_order(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_evaluator *e, int32_t *priority, struct ff_error *err);

#endif
