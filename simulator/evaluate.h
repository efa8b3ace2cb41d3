/* A course as a transaction: set, proposed to, kept or dropped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EVALUATE_H
#define FF_SIMULATOR_EVALUATE_H

#include "course.h"

int ff_course_create(struct ff_evaluator *home, struct ff_course **ret, struct ff_error *err);
void ff_course_destroy(struct ff_course *e);
/* It becomes that of strategy `s`, whose blocks are in `micro`.  Where a step takes longer
 * than `limit_us` *slower is true, and nothing can be proposed. */
int ff_course_set(struct ff_course *e, struct ff_micro *micro, const struct ff_strategy *s,
		double limit_us, bool *slower, struct ff_evaluation *ret, struct ff_error *err);
int ff_course_propose(struct ff_course *e, const struct ff_change *change, uint32_t n,
		double limit_us, bool *slower, struct ff_evaluation *ret, struct ff_error *err);
void ff_course_keep(struct ff_course *e);
void ff_course_drop(struct ff_course *e);
int ff_course_done(struct ff_course *e, double *const us[2], struct ff_error *err);

/* A proposal begins; touches what is read at all edges of `value`; was timed, and the account is
 * up to date.  The account anew, of all that is in place. */
void ff_course_begin(struct ff_course *e);
void ff_course_touch(struct ff_course *e, uint32_t value);
void ff_course_conclude(struct ff_course *e, double step_us, struct ff_evaluation *ret);
int ff_course_account(struct ff_course *e, struct ff_error *err);

#endif
