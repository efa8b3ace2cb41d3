/* A plan for one number of devices, carried over to another.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_PLANNER_CARRY_H
#define FF_PLANNER_CARRY_H

#include "ff/strategy.h"

/* Makes of `s`, for `from` devices, one for `to`: all samples in `to / from` times as many parts,
 * on as many times the devices.  What cannot be cut so is split by sample over all devices instead.
 * `g` is of the whole batch; *ret shares nothing with `s` but lists.  FF_E_INPUT where what comes
 * of it is legal for no such network or number of devices.  All memory from `a`. */
int ff_strategy_carry(const struct ff_graph *g, const struct ff_strategy *s, uint32_t from,
		uint32_t to, struct ff_arena *a, struct ff_strategy *ret, struct ff_error *err);

#endif
