/* Layers: what a network repeats, changed alike.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_LAYERS_H
#define FF_PLANNER_LAYERS_H

#include "proposer.h"

/* Links what is in the same place of the blocks that are repeated (space/repeats.h), parameters as
 * well; nobody where these are less than half of the operators. */
int ff_proposer_find_layers(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err);
/* Draws how far the transaction in the making reaches, and gives what it changes to the same places
 * of as many blocks, on the devices of theirs. */
void ff_propose_layers(struct ff_proposer *p);
/* To all blocks. */
void ff_propose_all_layers(struct ff_proposer *p);

#endif
