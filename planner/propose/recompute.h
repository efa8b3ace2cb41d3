/* Recomputation of what a network repeats, as people ask for it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_RECOMPUTE_H
#define FF_PLANNER_RECOMPUTE_H

#include "ff/strategy.h"
#include "space/repeats.h"

/* Nothing; what is light: norms, attention and elementwise functions; all of a block but its last
 * operator. */
enum ff_recompute { FF_RECOMPUTE_NOTHING, FF_RECOMPUTE_LIGHT, FF_RECOMPUTE_FULL, FF_RECOMPUTES };

/* Whether a node of a block is light: neither a product with weights nor where residual streams
 * meet. */
bool ff_recompute_is_light(const struct ff_graph *g, const struct ff_repeats *r, uint32_t node);
/* All blocks so, but the first `n_full` of each stage whole.  `place` has room for all blocks. */
void ff_recompute_blocks(const struct ff_graph *g, const struct ff_repeats *r,
		enum ff_recompute what, uint32_t n_full, uint32_t *place, struct ff_strategy *s);

#endif
