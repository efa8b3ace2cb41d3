/* Tasks that move.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_MOVES_H
#define FF_LOWER_MOVES_H

#include "lowering.h"

/* One move of what is at the edge of step `s`. */
void ff_moves_emit(struct ff_lowering *l, const struct ff_step *s, const struct ff_move *mv);

#endif
