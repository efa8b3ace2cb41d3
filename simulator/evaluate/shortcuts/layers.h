/* Equal layers, timed once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_LAYERS_H
#define FF_SIMULATOR_LAYERS_H

#include "evaluate/trial.h"

int ff_layers_create(struct ff_trial *e, struct ff_error *err);
/* A pass begins; it goes on from step `i`, which is not the one behind the last that was done. */
void ff_layers_begin(struct ff_trial *e);
void ff_layers_seek(struct ff_trial *e, uint32_t i);
/* It has come to step layers.at, or to `i`, the first active one behind: from where to go on, not
 * behind `end`, where the pass looks at something else. */
uint32_t ff_layers_reach(struct ff_trial *e, uint32_t i, uint32_t end);

#endif
