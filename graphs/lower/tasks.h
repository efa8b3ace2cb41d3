/* The tasks of a schedule.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_TASKS_H
#define FF_LOWER_TASKS_H

#include "lower/state/lowering.h"

/* All tasks, in order. */
void ff_tasks_emit(struct ff_lowering *l);

#endif
