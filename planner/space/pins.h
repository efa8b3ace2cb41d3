/* Pins as they are written: PATTERN:dim=degree[,dim=degree...][@device...].
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PINS_H
#define FF_PLANNER_PINS_H

#include "space.h"

/* Pins `n` texts say for operators of `g` on `m`: *ret is by node.  Of the operators that a pattern
 * (fnmatch) matches, those are pinned that have all the dims.  Devices are numbers and ranges
 * (0,1 or 0-7), a part each, and dims that are not named are whole then.  FF_E_INPUT and a sentence
 * where no operator is meant, or one cannot be so.  Memory from `a`. */
int ff_pins_parse(const char *const *text, uint32_t n, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, const struct ff_pin ***ret,
		struct ff_error *err);

#endif
