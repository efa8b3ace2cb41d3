/* Phases: into how many micro-batches the batch is cut, in which stages and order they
 * are computed, and what is computed twice.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PHASES_H
#define FF_PLANNER_PHASES_H

#include "degrees.h"

#define FF_MOST_GIVEN 4 /* numbers of micro-batches that are not searched, of plans to begin at */

/* The search with one number of micro-batches: their graph, the configs of that, and
 * the proposals. */
struct ff_frame {
	uint32_t micro_batches;
	const struct ff_graph *graph;
	const struct ff_space *space;
	struct ff_proposer proposer;
	bool may_reorder; /* other orders are in the space, and soon timed */
};

struct ff_phases {
	const struct ff_graph *graph; /* of the batch */
	const struct ff_machine *machine;
	const struct ff_space *space; /* of the batch */
	uint64_t seed;
	uint32_t chain;
	struct ff_arena *arena;
	/* by position in space->micro, then of other numbers; NULL: not yet */
	struct ff_frame *frame[FF_MOST_MICRO + FF_MOST_GIVEN];
	struct ff_space *made[FF_MOST_MICRO + FF_MOST_GIVEN]; /* spaces that are theirs */
	uint32_t *class, *order, *position; /* of nodes: the first equal one; in a row */
	uint32_t n_order;
	struct ff_depths depths;        /* blocks and stages */
	uint32_t *place;                /* scratch: by block */
	const struct ff_strategy *base; /* what is drawn changes */
	double *done_us[2];             /* ff_evaluator_done, where an order asks for it, of: */
	struct ff_evaluator *evaluator; /* NULL: times are as they stand */
	struct ff_random random;
};

/* `arena` keeps what frames are made of.  To be finished whatever is returned. */
int ff_phases_init(struct ff_phases *p, const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed, uint32_t chain, struct ff_arena *arena,
		struct ff_error *err);
void ff_phases_finish(struct ff_phases *p);
/* The frame of strategies with so many micro-batches: that the space allows, or, of at most
 * FF_MOST_GIVEN other numbers, that a plan has from which the search begins. */
int ff_phases_frame(struct ff_phases *p, uint32_t micro_batches, struct ff_frame **ret,
		struct ff_error *err);

/* Whether there is anything to draw for `s`: recomputation costs time, so it is for
 * where memory is scarce.  `e`: what `s` came to. */
bool ff_phases_matter(
		const struct ff_phases *p, const struct ff_strategy *s, struct ff_evaluation e);
/* Draws into `ret` a strategy that differs from `s`, the evaluator's, in its phases; not *changed
 * when chance picked a change that is none, or not legal. */
int ff_phases_draw(struct ff_phases *p, const struct ff_strategy *s, struct ff_evaluation e,
		struct ff_strategy *ret, bool *changed, struct ff_error *err);

/* The same, but change number `i`, of so many: of micro-batches, the order rule, or a cut between
 * stages.  False: it is none, or not legal. */
uint32_t ff_phases_changes(const struct ff_phases *p);
bool ff_phases_change(struct ff_phases *p, const struct ff_strategy *s, uint32_t i,
		struct ff_strategy *ret);

/* Cuts the nodes in their order into segments and marks all but the ends of segments
 * for recomputation: memory as the square root of the depth (Chen et al., "Training
 * Deep Nets with Sublinear Memory Cost", 2016). */
void ff_phases_checkpoint(const struct ff_graph *g, uint32_t segment, struct ff_strategy *s);

#endif
