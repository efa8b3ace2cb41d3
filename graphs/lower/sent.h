/* What a step sends, all devices together.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_SENT_H
#define FF_LOWER_SENT_H

#include "lower/state/lowering.h"

/* Walks all moves and buckets, makes no tasks, and says so in the schedule.  Not where gradients
 * are compressed or late. */
void ff_sent_find(struct ff_lowering *l);

#endif
