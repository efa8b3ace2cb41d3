/* Starting points that say more than splits (ff_init_strategy tells what they are).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_STAGES_H
#define FF_PLANNER_STAGES_H

#include "space/space.h"

/* `stages` is at most the number of devices. */
int ff_start_pipeline(const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, uint32_t stages, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);
/* Data parallelism with parameters updated in parts, by ZeRO's stage 1, 2, whose gradients are in
 * parts, too, or 3, whose weights are as well (Rajbhandari et al., SC 2020).  As far as the space
 * allows. */
int ff_start_zero(const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, uint32_t stage, bool hybrid, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);
int ff_start_frugal(const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err);

#endif
