/* What another plan makes of some operators in a row, tried in the best (path relinking: Glover,
 * Laguna, Marti, 2000).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_RELINK_H
#define FF_PLANNER_RELINK_H

#include "chain.h"

/* Takes from `other` what makes the current strategy, which is the best, faster: halves of the
 * operators of which they differ, quarters and so on, in a row, again while that helps.  Nothing
 * where phases differ. */
int ff_chain_relink(struct ff_chain *c, const struct ff_strategy *other, struct ff_error *err);
/* The same from the current strategy, which is where a walk has ended.  Back to the best. */
int ff_chain_relink_end(struct ff_chain *c, struct ff_error *err);

#endif
