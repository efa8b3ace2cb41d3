/* Early rejection: whether a proposal is too slow, before all of it is timed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EARLY_H
#define FF_SIMULATOR_EARLY_H

#include "evaluate/trial.h"

/* Before a proposal, once its blocks are in place, in the pass before the
 * snapshot `s` behind all of forward that it changes, as the pass begins, when it has come to
 * `mark_at`, and when it is known whether the proposal is good: fits, and within its limit;
 * after the current strategy became another. */
int ff_early_create(struct ff_trial *e, struct ff_error *err);
void ff_early_begin(struct ff_trial *e, double limit_us, enum ff_early_reason at_marks);
int ff_early_check_sync(struct ff_trial *e, struct ff_error *err);
void ff_early_check_idle(struct ff_trial *e, const struct ff_snapshot *s);
void ff_early_pass(struct ff_trial *e);
void ff_early_mark(struct ff_trial *e, uint32_t step);
/* Of mark number `k`; FF_NONE: there is none. */
uint32_t ff_early_mark_step(const struct ff_trial *e, uint32_t k);
void ff_early_end(struct ff_trial *e, bool good);
void ff_early_keep(struct ff_trial *e);

#endif
