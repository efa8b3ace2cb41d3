/* Equal devices, of which one is lowered for all.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_EQUAL_DEVICES_H
#define FF_LOWER_EQUAL_DEVICES_H

#include "lower/state/lowering.h"

/* Where only sizes are asked for: finds devices whose tasks and buffers are equal, one by one. From
 * then on only the first of each are lowered (ff_device_is_lowered), and moves and buckets without
 * any of those are left out.  What all send is known then.  Called when blocks and buckets are
 * there, before tasks are emitted.
 */
int ff_equal_devices_find(struct ff_lowering *l, struct ff_error *err);
/* Behind the layout: the others need as much memory as the first of them. */
void ff_equal_devices_copy(struct ff_lowering *l);

#endif
