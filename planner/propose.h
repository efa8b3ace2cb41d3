/* Proposals: how a search changes one operator.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PROPOSE_H
#define FF_PLANNER_PROPOSE_H

#include "space.h"

struct ff_proposer {
	const struct ff_space *space;
	const struct ff_graph *graph;
	uint32_t *node, n_nodes; /* those with a choice */
	struct ff_random random;
};

int ff_proposer_init(const struct ff_space *s, const struct ff_graph *g, uint64_t seed,
		struct ff_arena *a, struct ff_proposer *ret, struct ff_error *err);
/* A node and a config of the space for it, other than it has in `current`.  Needs
 * n_nodes > 0.
 *
 * Half of the proposals are drawn from the space, whatever the current
 * strategy.  A quarter aligns the node with a neighbour: the axes of the tensor
 * between them are split alike and on the same devices, so that nothing has to
 * move.  A quarter varies the node's own config: the same degrees on another
 * view, or a factor of two moved between dims on the same devices.  The last
 * two are not symmetric and their asymmetry is not corrected for: this chain
 * looks for a minimum and does not sample a distribution. */
void ff_proposer_next(struct ff_proposer *p, const struct ff_strategy *current, uint32_t *node,
		struct ff_config *config);
/* A neighbour of `from` and the config that aligns it with `from`; false when
 * chance picked one that has none.  It may be the neighbour's own already. */
bool ff_proposer_spread(struct ff_proposer *p, const struct ff_strategy *current, uint32_t from,
		uint32_t *node, struct ff_config *config);

#endif
