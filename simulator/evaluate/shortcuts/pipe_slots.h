/* Slots that are done at once, as a memo has them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PIPE_SLOTS_H
#define FF_SIMULATOR_PIPE_SLOTS_H

#include "evaluate/trial.h"

int ff_pipe_slots_create(struct ff_trial *e, struct ff_error *err);
void ff_pipe_slots_finish(struct ff_trial *e);
/* A pass goes on from step `i`, which is not the one behind the last that was done. */
void ff_pipe_slots_seek(struct ff_trial *e, uint32_t i);
/* It has come to step slots.at, or to `i`, the first active one behind: from where to go on, not
 * behind `end`, where the pass looks at something else. */
uint32_t ff_pipe_slots_reach(struct ff_trial *e, uint32_t i, uint32_t end);
/* What a proposal has put in place differs from the current strategy's; that becomes current; it
 * is gone again; all blocks are others. */
void ff_pipe_slots_touch(struct ff_trial *e);
void ff_pipe_slots_keep(struct ff_trial *e);
void ff_pipe_slots_drop(struct ff_trial *e);
void ff_pipe_slots_forget(struct ff_trial *e);

#endif
