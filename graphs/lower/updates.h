/* Tasks that update.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_UPDATES_H
#define FF_LOWER_UPDATES_H

#include "lowering.h"

/* A bucket's all-reduce, if it has one; the norm of all gradients, where they are
 * clipped, and the updates. */
void ff_updates_sync(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
void ff_updates_emit(struct ff_lowering *l, const struct ff_step *s);

#endif
