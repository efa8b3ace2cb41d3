/* Which layers have the same blocks.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ALIKE_H
#define FF_SIMULATOR_ALIKE_H

#include "evaluate/trial.h"

/* Of the blocks and buckets in place: fills layers.ahead and behind. */
void ff_alike_find(struct ff_trial *e);
/* How often in a row the times of `r` from number `times` on take the course of the one before, as
 * far as blocks say. */
uint32_t ff_alike_from(const struct ff_trial *e, const struct ff_layer_run *r, uint32_t times);

#endif
