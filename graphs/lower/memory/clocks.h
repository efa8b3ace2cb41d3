/* What is over when.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_CLOCKS_H
#define FF_LOWER_CLOCKS_H

#include "ff/device_list.h"
#include "lower/state/lowering.h"

/* What is known to be done on `device` before a task of its starts. */
const struct ff_clock *ff_clock_before(const struct ff_lowering *l, uint32_t task, uint32_t device);
/* Advances the clocks by the task at hand, whose dependencies are known. */
void ff_clock_tick(struct ff_lowering *l);

#endif
