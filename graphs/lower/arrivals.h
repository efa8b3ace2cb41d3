/* What arrives at a task that is still to be told: the tasks that it waits for.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_ARRIVALS_H
#define FF_LOWER_ARRIVALS_H

#include "lower/state/lowering.h"

int ff_arrivals_init(struct ff_lowering *l, struct ff_error *err);
/* What `phase` computes of `part` of `node` waits for `task`; of a parameter, backward, its
 * update. */
void ff_arrive(struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node,
		uint32_t part, uint32_t task);
/* The task at hand waits for all that has arrived there. */
void ff_depend_arrived(struct ff_lowering *l, enum ff_phase phase, uint32_t micro, uint32_t node,
		uint32_t part);
/* The task at hand waits for what has arrived for backward of `part` by other lanes: on its own
 * that stands before it anyway. */
void ff_depend_beside(struct ff_lowering *l, uint32_t micro, uint32_t node, uint32_t part);

#endif
