/* Bytes that each device holds, step by step.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ACCOUNT_H
#define FF_SIMULATOR_ACCOUNT_H

#include "evaluate/trial.h"

int ff_account_create(struct ff_trial *e, struct ff_error *err);
/* For a new program: forgets all bytes. */
int ff_account_reset(struct ff_trial *e, struct ff_error *err);
/* Adds (sign 1) or takes away (-1) all buffers of one value: its shards, their
 * gradients, what was moved of either, and stages. */
void ff_account_value(struct ff_trial *e, uint32_t value, int64_t sign);
/* What devices lack and have left, and whether some device is more than half full.  Of what lacks
 * more than `most_bytes` it is known that it does, and no more. */
void ff_account_over(struct ff_trial *e, int64_t most_bytes, struct ff_evaluation *ret);

#endif
