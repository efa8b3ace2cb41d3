/* Orders: proposals of when operators are issued.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ORDER_H
#define FF_PLANNER_ORDER_H

#include "ff/philox.h"
#include "ff/strategy.h"

struct ff_orders {
	const struct ff_graph *graph;
	struct ff_arena scratch;
	uint32_t *order, *drawn; /* all nodes, in the current order; in the one drawn */
	int32_t *known;          /* the priorities that `order` comes of, if `is_known` */
	bool is_known;
	uint32_t *row, n_row;   /* those with a config, in the current order */
	uint32_t *mine, n_mine; /* places in the row of those in the focus */
	uint32_t first, last;
	struct ff_random random;
};

/* All but what is scratch from `arena`.  To be finished whatever is returned. */
int ff_orders_init(struct ff_orders *o, const struct ff_graph *g, uint64_t seed, uint32_t chain,
		struct ff_arena *arena, struct ff_error *err);
void ff_orders_finish(struct ff_orders *o);

/* Nodes `first` to `last` go to other places, among all. */
void ff_orders_focus(struct ff_orders *o, uint32_t first, uint32_t last);
/* The order of `s`, in which those in the focus take the places that they have there as they follow
 * each other in `other`.  Writes its priorities. */
int ff_orders_crossover(struct ff_orders *o, const struct ff_strategy *s,
		const struct ff_strategy *other, int32_t *priority, struct ff_error *err);
/* Draws an order: that of `s`, in which one operator or some in a row are issued earlier or
 * later.  Writes its priorities; *changed is false where that comes to the order of `s`. */
int ff_orders_draw(struct ff_orders *o, const struct ff_strategy *s, int32_t *priority,
		bool *changed, struct ff_error *err);

#endif
