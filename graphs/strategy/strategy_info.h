/* Reads what a strategy file says beside the strategy.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_READ_INFO_H
#define FF_STRATEGY_READ_INFO_H

#include "ff/json.h"
#include "ff/strategy_info.h"

/* Of a strategy file's root, for a machine of `n_devices`.  Texts and arrays go to `a`.
 * FF_E_INPUT names the key. */
int ff_strategy_read_info(const struct ff_json *root, struct ff_arena *a, uint32_t n_devices,
		struct ff_strategy_info *info, struct ff_error *err);

#endif
