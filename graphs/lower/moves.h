/* Tasks that move.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_MOVES_H
#define FF_LOWER_MOVES_H

#include "lower/state/lowering.h"

/* One move of what is at the edge of step `s`: begun, what it comes after besides its sources, and
 * ended, with its buffers.  Both give its number. */
uint32_t ff_moves_begin(struct ff_lowering *l, const struct ff_step *s, const struct ff_move *mv);
/* Gradients of an earlier step. */
void ff_moves_depend_late(struct ff_lowering *l);
/* What backward has made in place of the gradient of `value` that the move adds to. */
void ff_moves_depend_written(
		struct ff_lowering *l, uint32_t value, uint32_t micro, const struct ff_move *mv);
uint32_t ff_moves_end(struct ff_lowering *l);

#endif
