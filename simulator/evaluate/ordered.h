/* What depends on the order in which operators are issued.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ORDERED_H
#define FF_SIMULATOR_ORDERED_H

#include "trial.h"

int ff_reorder_create(struct ff_trial *e, struct ff_error *err);
void ff_reorder_finish(struct ff_trial *e);
/* The order of `s`, its program, and what depends on them alone. */
int ff_reorder_plan(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err);
/* The two change places; their accounts alone. */
void ff_reorder_exchange(struct ff_trial *e);
void ff_reorder_exchange_accounts(struct ff_trial *e);
/* Puts what lies otherwise in the two orders into the account (1) or takes it out (-1). */
void ff_reorder_recount(struct ff_trial *e, int64_t sign);
/* What is proposed is another order. */
void ff_reorder_keep(struct ff_trial *e);
void ff_reorder_drop(struct ff_trial *e);

#endif
