/* Sweeps: every small change of a strategy, one after another.  Chance draws one of some thousands
 * too seldom, and where one that helps was never drawn seeds end apart.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SWEEP_H
#define FF_PLANNER_SWEEP_H

#include "proposer.h"

/* Where a sweep is: it goes round.  Zero is a beginning. */
struct ff_sweep {
	uint32_t number;      /* of those with a choice, and 1; 0: all at once */
	uint32_t change;      /* number of its changes */
	uint32_t n_unchanged; /* operators in a row of which no change helped */
};

/* Puts the next change of `base` into the transaction in the making, the same in all repeated
 * blocks: of an operator
 *
 * - one dim is split instead of another, or two change places, on the same devices;
 * - it is aligned with one of its neighbours;
 * - the same, and what follows it is aligned with it;
 * - parameters that it reads are updated otherwise.
 *
 * False: all were tried since one helped.  The transaction may be empty. */
bool ff_sweep_next(struct ff_sweep *s, struct ff_proposer *p);
/* The last one helped: those that were tried may help now. */
void ff_sweep_again(struct ff_sweep *s);

#endif
