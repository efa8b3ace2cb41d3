/* Brute force: every strategy of a small space.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_PLANNER_EXHAUSTIVE_H
#define FF_TEST_PLANNER_EXHAUSTIVE_H

#include "ff/search.h"

/* By node, the configs to choose among; where there is nothing to choose, one. */
struct choices {
	uint32_t n_nodes;
	uint64_t *n;
	struct ff_config **config;
};

/* What a search without updates, replicas and phases chooses among. */
int choices_of_space(const struct ff_space *s, const struct ff_graph *g, struct ff_arena *a,
		struct choices *ret, struct ff_error *err);

#define WITH_SPLITS 1u   /* operators in several parts, else each on some device */
#define WITH_REPLICAS 2u /* parts computed several times */
#define WITH_UPDATES 4u  /* parameters updated everywhere, in parts, on one device */
/* On any devices in any order.  `g` is the graph of one micro-batch. */
int choices_of_all(const struct ff_graph *g, uint32_t n_devices, uint32_t with, struct ff_arena *a,
		struct choices *ret, struct ff_error *err);

/* How many strategies that makes, at most `limit` + 1. */
uint64_t choices_count(const struct choices *c, uint64_t limit);

/* The best of them all, with the phases of `like`; FF_E_INPUT where there are more than `limit`,
 * FF_E_NOFIT where none fits in memory. */
int search_exhaustive(const struct choices *c, const struct ff_strategy *like,
		struct ff_evaluator *e, const struct ff_graph *g, uint64_t limit,
		struct ff_arena *a, struct ff_search_result *ret, struct ff_error *err);

#endif
