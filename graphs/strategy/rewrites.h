/* The rewrites that a strategy file names.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_REWRITES_H
#define FF_STRATEGY_REWRITES_H

#include "ff/graph.h"
#include "ff/json.h"

/* FF_E_INPUT: `g` is not rewritten just as the strategy has it. */
int ff_rewrites_check(const struct ff_json *root, const struct ff_graph *g, struct ff_arena *a,
		struct ff_error *err);

#endif
