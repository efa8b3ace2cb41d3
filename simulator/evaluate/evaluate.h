/* A trial as a transaction: set, proposed to, kept or dropped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EVALUATE_H
#define FF_SIMULATOR_EVALUATE_H

#include "trial.h"

int ff_trial_create(struct ff_evaluator *home, struct ff_trial **ret, struct ff_error *err);
void ff_trial_destroy(struct ff_trial *e);
/* It becomes that of strategy `s`, whose blocks are in `micro`.  Where a step takes longer
 * than `limit_us` *slower is true, and nothing can be proposed. */
int ff_trial_set(struct ff_trial *e, struct ff_micro *micro, const struct ff_strategy *s,
		double limit_us, bool *slower, struct ff_evaluation *ret, struct ff_error *err);
/* As ff_evaluator_done. */
int ff_trial_done(struct ff_trial *e, double *const us[2], struct ff_error *err);

/* For proposals.  Puts all blocks in place anew: what was known of those before is lost. */
int ff_trial_place_anew(struct ff_trial *e, struct ff_error *err);
/* Counts all that is in place anew. */
int ff_trial_account(struct ff_trial *e, struct ff_error *err);
/* A copy of `c` whose list is the trial's. */
int ff_trial_copy_config(struct ff_trial *e, const struct ff_config *c, struct ff_config *ret,
		struct ff_error *err);
/* The evaluation of what took `step_us`, once the account is up to date. */
void ff_trial_conclude(struct ff_trial *e, double step_us, struct ff_evaluation *ret);

/* propose.c: as ff_evaluator_propose_within, _keep and _drop. */
int ff_trial_propose(struct ff_trial *e, const struct ff_change *change, uint32_t n,
		struct ff_most most, bool *worse, struct ff_evaluation *ret, struct ff_error *err);
void ff_trial_keep(struct ff_trial *e);
void ff_trial_drop(struct ff_trial *e);
/* A proposal begins; it changes what is read at all edges of `value`. */
void ff_trial_begin(struct ff_trial *e);
void ff_trial_touch(struct ff_trial *e, uint32_t value);

#endif
