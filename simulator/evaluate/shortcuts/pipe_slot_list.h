/* Which slots a program has.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PIPE_SLOT_LIST_H
#define FF_SIMULATOR_PIPE_SLOT_LIST_H

#include "evaluate/trial.h"

/* For a new program of strategy `s`, whose uses are known. */
int ff_pipe_slots_find(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err);
/* What their memos hold, of an order that goes. */
void ff_pipe_slots_free(struct ff_order *o);

#endif
