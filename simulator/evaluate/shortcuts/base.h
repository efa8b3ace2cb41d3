/* Clocks of a pass as they were before some steps: when lanes are free, for how long devices have
 * been idle, when limited computes ended.  Where all are later by the same amount than they were
 * before equal steps, so they will be after each time that these steps are done again, exactly, as
 * prices are whole steps (ff/price.h) and sums of them are exact.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_SIMULATOR_BASE_H
#define FF_SIMULATOR_BASE_H

#include "evaluate/trial.h"

int ff_base_create(struct ff_trial *e, struct ff_base *b, struct ff_error *err);
/* `limited`: something limited is moved in these steps. */
void ff_base_keep(const struct ff_trial *e, struct ff_base *b, bool limited);
/* Whether all lanes that were used are later than in `b` by the same amount, *by, and sums are
 * exact `n` times further. */
bool ff_base_moved_on(const struct ff_trial *e, const struct ff_base *b, bool limited, uint32_t n,
		double *by);
/* All go on as they did since `b`, `n` times. */
void ff_base_go_on(struct ff_trial *e, const struct ff_base *b, bool limited, uint32_t n);

#endif
