/* Equal micro-batches, timed and accounted for once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_FOLD_H
#define FF_SIMULATOR_FOLD_H

#include "evaluate/trial.h"

int ff_fold_create(struct ff_trial *e, struct ff_error *err);
/* For a new program. */
int ff_fold_plan(struct ff_trial *e, struct ff_error *err);
/* A pass begins, before all runs; it has come to step fold.at, or to `i`, the first active
 * one behind: from where to go on. */
void ff_fold_begin(struct ff_trial *e);
uint32_t ff_fold_reach(struct ff_trial *e, uint32_t i);
/* It goes on from step `i`, which is not the one behind the last that was done. */
void ff_fold_seek(struct ff_trial *e, uint32_t i);

#endif
