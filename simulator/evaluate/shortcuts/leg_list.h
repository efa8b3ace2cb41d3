/* Which legs a program has.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LEG_LIST_H
#define FF_SIMULATOR_LEG_LIST_H

#include "evaluate/trial.h"

/* For a new program of strategy `s`, whose uses are known. */
int ff_legs_find(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err);
/* What their courses hold, of an order that goes. */
void ff_legs_free(struct ff_order *o);

#endif
