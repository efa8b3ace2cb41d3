/* Repeats: the blocks that a network repeats, and stages of a pipeline made of them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_REPEATS_H
#define FF_PLANNER_REPEATS_H

#include "ff/graph.h"
#include "ff/machine.h"

/* The graph in a row is cut into segments: behind each, all that is trained goes through one
 * node's outputs.  Blocks are the longest run of equal groups of segments. */
struct ff_repeats {
	bool *ends;        /* by node: a segment does */
	uint32_t *block;   /* by node: the block it is in, FF_NONE: before or behind all */
	uint32_t *unit;    /* by node: what a stage has whole, ascending in the graph's order */
	uint32_t n_blocks; /* 0: nothing is repeated */
	uint32_t n_units;  /* blocks, those at the ends with what is before and behind; where
			    * there are none, or too few of them, segments; where one of these
			    * is more work than two stages, operators */
};

/* `least` units are needed, and found if there are as many operators.  What segments have of the
 * work is by the roofline of `m`; NULL where `least` is 1.  Memory from `a`. */
int ff_repeats_find(const struct ff_graph *g, const struct ff_machine *m, uint32_t least,
		struct ff_arena *a, struct ff_repeats *ret, struct ff_error *err);

/* Seconds that a node takes by the roofline of one device, the machine's first or one of a kind,
 * forward and backward: what stages are balanced by. */
double ff_node_roofline_s(const struct ff_graph *g, const struct ff_machine *m, uint32_t node);
double ff_node_roofline_on_s(
		const struct ff_graph *g, const struct ff_device_kind *kind, uint32_t node);

/* Cuts `n` costs in a row into `stages` runs, at most n, none empty: the largest sum is as small
 * as can be, and then so are the squares of all.  `slow`: how many times as long a cost takes in
 * each stage, above 0; NULL: it takes as long in all.  `stage` has room for n. */
int ff_stages_balance(const double *cost, uint32_t n, const double *slow, uint32_t stages,
		struct ff_arena *a, uint16_t *stage, struct ff_error *err);

#endif
