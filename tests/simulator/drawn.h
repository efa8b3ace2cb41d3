/* What random_graph.h draws, or the test fails.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SIMULATOR_DRAWN_H
#define FF_TESTS_SIMULATOR_DRAWN_H

#include "ff/work.h"
#include "random_graph.h"
#include "simulator/hand.h"

/* One graph in three computes in bfloat16. */
static inline void draw_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *g)
{
	enum ff_dtype type = ff_random_below(r, 3) ? FF_F32 : FF_BF16;
	struct ff_error err = {0};

	ck_assert_msg(random_graph(r, type, 8, a, g, &err) == FF_OK, "%s", err.text);
}

/* `micro` gets the graph of one micro-batch; NULL: there is one. */
static inline void draw_strategy(struct ff_random *r, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *s, struct ff_graph *micro)
{
	struct ff_error err = {0};

	ck_assert_msg(random_strategy(r, g, n_devices, a, s, micro, &err) == FF_OK, "%s", err.text);
	if (micro)
		random_order(r, s);
	random_scattered(r, micro ? micro : g, a, s);
}

static inline void draw_config(struct ff_random *r, const struct ff_graph *g, uint32_t node,
		uint32_t n_devices, struct ff_arena *a, struct ff_config *c)
{
	struct ff_error err = {0};

	ck_assert_msg(random_config(r, g, node, n_devices, a, c, &err) == FF_OK, "%s", err.text);
}

#define ODD_STATES 6

static inline void put_odd_cost(
		struct ff_costs *costs, const struct ff_work *work, uint64_t seed, uint32_t scratch)
{
	struct ff_random state = {.seed = seed ^ ff_work_hash(work)};
	double us = (double)ff_work_bytes(work) * (1 + ff_random_below(&state, 100));
	char key[FF_KEY_BYTES];
	struct ff_cost cost = {key, us, us, us, 1, scratch ? ff_random_below(&state, scratch) : 0};

	ff_work_key(work, key);
	/* with caches after much more, everything takes longer */
	for (int i = 0; i < ODD_STATES; i++) {
		ck_assert_int_eq(ff_costs_put(costs, &cost, NULL), FF_OK);
		cost.reuse_bytes = cost.reuse_bytes ? 4 * cost.reuse_bytes : 4096;
		cost.median_us = cost.p90_us = us * (1 + ff_random_below(&state, 100));
		cost.alone_us = us * ff_random_below(&state, 100);
	}
}

/* Rates that differ as much. */
static inline void set_odd_rates(struct ff_costs *costs, uint64_t seed)
{
	static const enum ff_rate_kind kinds[] = {FF_RATE_COPY, FF_RATE_ADD, FF_RATE_ACCUMULATE};
	struct ff_random state = {.seed = seed};

	for (int64_t i = 0, passed = 4096; i < ODD_STATES; i++, passed *= 4)
		for (int k = 0; k < 3; k++) {
			struct ff_rate r = {1, 1 + ff_random_below(&state, 100), 0, passed,
					1 + ff_random_below(&state, 100)};

			ck_assert_int_eq(ff_costs_set_rate(costs, kinds[k], r, NULL), FF_OK);
		}
}

/* A price for every part that any config has: its bytes times a number drawn
 * from its key, so that no two kinds of parts can pass for each other; and less
 * than `scratch` bytes of workspace. */
static inline void put_odd_costs(struct ff_costs *costs, const struct ff_graph *g,
		uint32_t n_devices, uint64_t seed, uint32_t scratch)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config c = {.n_parts = 0};

		if (!ff_node_is_computed(g, i))
			continue;
		while (ff_config_next_degrees(&g->nodes[i], n_devices, &c))
			for (uint32_t part = 0; part < 2 * c.n_parts; part++) {
				struct ff_region box;
				struct ff_work work;

				ff_config_box(&g->nodes[i], &c, part / 2, &box);
				ff_work_fill(g, i, &box, part % 2 ? FF_BACKWARD : FF_FORWARD,
						&work);
				put_odd_cost(costs, &work, seed, scratch);
			}
	}
}

/* Of the batch and of all equal parts of it. */
static inline struct ff_costs *odd_costs(
		const struct ff_graph *g, uint32_t n_devices, uint64_t seed, uint32_t scratch)
{
	struct ff_costs *costs = hand_costs("fast");
	struct ff_error err = {0};
	struct ff_graph micro;
	struct ff_arena a;

	set_odd_rates(costs, seed);
	ff_arena_init(&a);
	for (uint32_t m = 1; m <= (uint32_t)g->batch; m++) {
		if ((uint32_t)g->batch % m)
			continue;
		/* some operators need all samples at once, or those of a group */
		if (ff_graph_micro(g, m, &a, &micro, &err) < 0 && m > 1)
			continue;
		put_odd_costs(costs, &micro, n_devices, seed, scratch);
	}
	ff_arena_finish(&a);
	return costs;
}

#endif
