/* A pass goes on where the current strategy's did, as soon as nothing differs any more.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_REJOIN_H
#define FF_SIMULATOR_REJOIN_H

#include "evaluate/trial.h"

int ff_rejoin_create(struct ff_trial *e, struct ff_error *err);
void ff_rejoin_finish(struct ff_trial *e);
/* For a new program whose runs are known. */
int ff_rejoin_plan(struct ff_trial *e, struct ff_error *err);
/* What a proposal has put in place differs from the current strategy's. */
void ff_rejoin_touch(struct ff_trial *e);
/* A pass begins; it has come to step rejoin.at, or `i`, the first active one behind: from where to
 * go on. */
void ff_rejoin_begin(struct ff_trial *e);
uint32_t ff_rejoin_reach(struct ff_trial *e, uint32_t i);
/* What the last pass was made over became current; nothing is known of what is. */
void ff_rejoin_keep(struct ff_trial *e);
void ff_rejoin_forget(struct ff_trial *e);

#endif
