/* Gradients that wait.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_DELAYS_H
#define FF_LOWER_DELAYS_H

#include "lower/state/lowering.h"

/* How many steps gradients wait that backward writes in a bucket; 0: it writes none there. */
uint32_t ff_delays_of(const struct ff_lowering *l, uint32_t bucket);
/* Buffers of gradients that wait elsewhere, and of those that are due. */
void ff_delays_build(struct ff_lowering *l);

/* Delay tasks of a bucket, one a device; of the gradients that step `s` moves at its edge. */
void ff_delays_emit_bucket(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket);
void ff_delays_emit_edge(struct ff_lowering *l, const struct ff_step *s);

#endif
