/* Runs of equal layers in a program.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LAYER_RUNS_H
#define FF_SIMULATOR_LAYER_RUNS_H

#include "evaluate/trial.h"

/* For a new program whose uses are known. */
int ff_layer_runs_find(struct ff_trial *e, struct ff_error *err);

/* Whether two numbers are those of equal things, `by` behind one another. */
static inline bool ff_is_behind(uint32_t a, uint32_t b, uint32_t by)
{
	return a == FF_NONE ? b == FF_NONE : b != FF_NONE && b == a + by;
}

#endif
