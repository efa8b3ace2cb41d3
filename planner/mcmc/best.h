/* The best strategy of a chain: copied when it is left, and laid out before that where memory is
 * scarce.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_BEST_H
#define FF_PLANNER_BEST_H

#include "chain_state.h"

/* Copies the best, if it is the current strategy and not copied yet.  Where it has no layout
 * it is forgotten. */
int ff_chain_save(struct ff_chain *c, struct ff_error *err);
/* The same on the walk, where it goes on from the best to something worse. */
int ff_chain_save_on_the_way(struct ff_chain *c, struct ff_error *err);
/* Whether the time that is left is needed for the end: the best is laid out, and the caller lowers
 * it, for which it has kept time as for data parallelism. */
bool ff_chain_has_to_end(const struct ff_chain *c);
/* Whether there is time to lay out a strategy and to lower it behind the search; there has to be
 * where nothing else is known that fits. */
bool ff_chain_may_lay_out(const struct ff_chain *c, const struct ff_strategy *s);
/* Whether there soon will be none. */
bool ff_chain_must_lay_out(const struct ff_chain *c, const struct ff_strategy *s);

#endif
