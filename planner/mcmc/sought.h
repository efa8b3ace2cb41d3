/* Starts that are sought, and the buckets that are best for a start.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SOUGHT_H
#define FF_PLANNER_SOUGHT_H

#include "chain.h"

/* Makes a start current, with the buckets that are best for it, */
int ff_chain_go_to_tuned(struct ff_chain *c, struct ff_strategy *s, struct ff_error *err);
/* and no worse than --simulate has it, which tunes from the preset buckets on. */
int ff_chain_go_to_as_by_hand(struct ff_chain *c, struct ff_strategy *s, struct ff_error *err);
/* The first of these with one that was made with `code`: `why` says what is wrong, and one that is
 * not for this space is left out. */
int ff_chain_go_to_made(struct ff_chain *c, int code, struct ff_strategy *s,
		const struct ff_error *why, struct ff_error *err);
/* What elimination finds in `space`, of this chain's graph and machine. */
int ff_chain_eliminate(struct ff_chain *c, const struct ff_space *space, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err);
/* The best of the grid by hand on `m`, of those that there is time for; *found false: none fits. */
int ff_chain_find_by_hand(struct ff_chain *c, const struct ff_space *space,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err);

#endif
