/* --explain: why a plan takes as long as it does.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_WHY_H
#define FF_PLANNER_WHY_H

#include "job.h"

#define FF_WHY_SHARE 0.3 /* of the budget */

/* Fills j->summary.why: searches again with more of what may bind. */
int ff_why_find(struct ff_job *j, struct ff_error *err);
void ff_why_print(const struct ff_summary *s, FILE *to);

#endif
