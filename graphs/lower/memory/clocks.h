/* What is over when.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_CLOCKS_H
#define FF_LOWER_CLOCKS_H

#include "lower/state/lowering.h"

/* Index of `device` among the devices of a task or a bucket, ascending, or FF_NONE. */
uint32_t ff_device_index(const uint16_t *list, uint32_t n, uint32_t device);
/* What is known to be done on `device` before a task of its starts. */
const struct ff_clock *ff_clock_before(const struct ff_lowering *l, uint32_t task, uint32_t device);
/* Advances the clocks by the task at hand, whose dependencies are known. */
void ff_clock_tick(struct ff_lowering *l);

#endif
