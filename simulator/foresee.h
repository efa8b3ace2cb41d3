/* What is thought of a proposal before all of it is timed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_FORESEE_H
#define FF_SIMULATOR_FORESEE_H

#include "course.h"

/* Before a proposal, once its blocks are in place, in the pass before the
 * snapshot `s` behind all of forward that it changes, as the pass begins, when it has come to
 * `mark_at`, and when it is known whether the proposal is good: fits, and within its limit;
 * after the current strategy became another. */
int ff_foresee_create(struct ff_course *e, struct ff_error *err);
void ff_foresee_begin(struct ff_course *e, double limit_us, enum ff_doubt at_marks);
int ff_foresee_sync(struct ff_course *e, struct ff_error *err);
void ff_foresee_rest(struct ff_course *e, const struct ff_snapshot *s);
void ff_foresee_pass(struct ff_course *e);
void ff_foresee_mark(struct ff_course *e, uint32_t step);
void ff_foresee_end(struct ff_course *e, bool good);
void ff_foresee_keep(struct ff_course *e);

#endif
