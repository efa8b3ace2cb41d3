/* Operators that cost more to synchronise than other devices' work on them saves: over a slow
 * network, fully connected layers and tables.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_HEAVY_H
#define FF_PLANNER_HEAVY_H

#include "proposer.h"

/* Groups operators by parameters for each operation (ff_proposer.heavy). */
int ff_proposer_find_heavy(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err);
/* Puts change number `i` into the transaction: so many of the heaviest groups are by sample on few
 * nodes, on the node where all may be, on half of it and so on, and updated there.  False: there
 * are not so many. */
bool ff_proposer_shrink(struct ff_proposer *p, uint32_t i);

#endif
