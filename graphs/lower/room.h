/* Room for all tasks of a schedule.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_ROOM_H
#define FF_LOWER_ROOM_H

#include "lower/state/lowering.h"

/* For every task, its clocks and buffers, counted from the program.  FF_E_NOMEM: this machine has
 * less memory than they take. */
int ff_room_reserve(struct ff_lowering *l, struct ff_error *err);

#endif
