/* Gradients that wait.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_DELAYS_H
#define FF_LOWER_DELAYS_H

#include "lower/state/lowering.h"

/* Steps that gradients wait which backward writes in a bucket; buffers of those that wait
 * elsewhere, and of those whose turn it is. */
uint32_t ff_delays_of(const struct ff_lowering *l, uint32_t bucket);
void ff_delays_build(struct ff_lowering *l);

/* Delays of a bucket; of what is moved at the edge of step `s`. */
void ff_delays_emit_bucket(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
void ff_delays_emit_edge(struct ff_lowering *l, const struct ff_step *s);

#endif
