/* Devices that do the same.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_EQUAL_DEVICES_H
#define FF_LOWER_EQUAL_DEVICES_H

#include "lower/state/lowering.h"

/* Where only sizes are asked for: which devices have tasks and buffers alike, one by one.  From
 * then on only the first of each are told of (ff_lowering_tells): moves and buckets that none of
 * those has part in are left out.  Blocks and buckets are there; nothing is emitted yet. */
int ff_equal_devices_find(struct ff_lowering *l, struct ff_error *err);
/* Behind the layout: the others need what the first of them does. */
void ff_equal_devices_copy(struct ff_lowering *l);

#endif
