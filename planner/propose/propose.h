/* Proposals: how a search changes a strategy.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PROPOSE_H
#define FF_PLANNER_PROPOSE_H

#include "proposer.h"
#include "sweep.h"

int ff_proposer_init(const struct ff_space *s, const struct ff_graph *g, uint64_t seed,
		uint32_t stream, struct ff_arena *a, struct ff_proposer *ret, struct ff_error *err);
/* From now on only operators number `first` to `first` + `n` - 1 of all are changed, and
 * parameters that they read. */
void ff_proposer_focus(struct ff_proposer *p, uint32_t first, uint32_t n);
/* Whether that is one of them. */
bool ff_proposer_is_in_focus(const struct ff_proposer *p, uint32_t node);
/* Draws a transaction that changes at least one node of `current`: one operator, a
 * block of them, or what is beyond their split; none if the kind is FF_PROPOSAL_ORDER, or where
 * limits of the space leave next to nothing.  Needs n_nodes > 0. */
void ff_proposer_next(struct ff_proposer *p, const struct ff_strategy *current,
		struct ff_transaction *ret);
/* The next transaction of a sweep that changes something; false: there is none left.  Needs n_nodes
 * > 0 and no focus. */
bool ff_proposer_sweep(struct ff_proposer *p, struct ff_sweep *s, const struct ff_strategy *current,
		struct ff_transaction *ret);
/* Change number `i` of all operators at once, which may come to nothing; false: there are not so
 * many.  Likewise. */
bool ff_proposer_shares(struct ff_proposer *p, uint32_t i, const struct ff_strategy *current,
		struct ff_transaction *ret);
/* Whether the transaction drawn last was accepted and is better than what it changed:
 * kinds that are draw more of what follows. */
void ff_proposer_learn(struct ff_proposer *p, bool helped);

#endif
