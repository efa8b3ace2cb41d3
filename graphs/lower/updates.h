/* Tasks that update.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_UPDATES_H
#define FF_LOWER_UPDATES_H

#include "lowering.h"

/* A bucket's gradients are summed, if they are in place; the weights of a flat one gathered; the
 * norm of all gradients, where they are clipped, and the updates. */
void ff_updates_sync(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
void ff_updates_gather(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
void ff_updates_emit(struct ff_lowering *l, const struct ff_step *s);

#endif
