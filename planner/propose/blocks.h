/* Proposals that change blocks of operators.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_BLOCKS_H
#define FF_PLANNER_BLOCKS_H

#include "proposer.h"

/* Kinds of proposals: each adds something to the transaction, and may come to nothing. */
void ff_propose_run(struct ff_proposer *p);   /* an operator, and neighbours aligned with it */
void ff_propose_led(struct ff_proposer *p);   /* an operator, and all that follows, aligned */
void ff_propose_class(struct ff_proposer *p); /* all equal operators, one config */
/* All equal operators elsewhere, with what is there for them alone: of an unrolled network a layer
 * of all steps. */
void ff_propose_fed(struct ff_proposer *p);
void ff_propose_chain(struct ff_proposer *p);    /* operators in a row by label, SOAP or R */
void ff_propose_branches(struct ff_proposer *p); /* branches of a fork, side by side */
void ff_propose_layout(struct ff_proposer *p);   /* all on one set of devices, some forks not */
void ff_propose_view(struct ff_proposer *p);     /* the same degrees on other devices */

/* Aligns all that follows the changed nodes, until an operator of another kind or one that cannot
 * be aligned. */
void ff_proposer_add_followers(struct ff_proposer *p);

/* Where all ways from each node meet, for blocks of branches. */
void ff_proposer_find_forks(struct ff_proposer *p);

#endif
