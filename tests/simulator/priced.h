/* A small graph on a machine made by hand, and its pricer.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SIMULATOR_PRICED_H
#define FF_TESTS_SIMULATOR_PRICED_H

#include "ff/price.h"

#include "hand.h"

struct world {
	struct hand_machine h;
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_pricer *p;
};

static inline void open_pricer(struct world *w, const struct ff_costs *c)
{
	struct ff_error err;

	ck_assert_msg(ff_pricer_create(&w->g, &w->h.m, FF_ESTIMATE_PEAK, c, "costs.json",
				      "graph.json", &w->p, &err) == FF_OK,
			"%s", err.text);
}

/* Costs have changed since the pricer read them. */
static inline void price_anew(struct world *w, const struct ff_costs *c)
{
	ff_pricer_destroy(w->p);
	open_pricer(w, c);
}

/* Batch 8, 16 features, 12 outputs. */
static inline void setup(
		struct world *w, uint32_t n_nodes, uint32_t per_node, const struct ff_costs *c)
{
	hand_machine_init(&w->h, n_nodes, per_node, true);
	ff_arena_init(&w->arena);
	hand_graph(&w->arena, 8, 16, 12, &w->g);
	open_pricer(w, c);
}

static inline void teardown(struct world *w)
{
	ff_pricer_destroy(w->p);
	ff_arena_finish(&w->arena);
}

static const uint16_t devices[] = {0, 1, 2, 3, 4, 5, 6, 7};

static inline struct ff_work part_of(const struct ff_graph *g, const char *name, uint16_t sample,
		uint32_t part, enum ff_pass pass)
{
	struct ff_config c = {.degree = {sample, 1, 1, 1, 1, 1, 1, 1},
			.replicas = 1,
			.n_parts = sample,
			.stride = {1}};
	uint32_t node = ff_graph_find(g, name);
	struct ff_region box;
	struct ff_work w;

	ff_config_box(&g->nodes[node], &c, part, &box);
	ff_work_fill(g, node, &box, pass, &w);
	return w;
}

static inline struct ff_region box(int32_t lo, int32_t hi)
{
	return (struct ff_region){.rank = 1, .lo = {lo}, .hi = {hi}};
}

static inline struct ff_piece piece(uint16_t from, uint16_t to, int32_t elements)
{
	return (struct ff_piece){.from = from, .to = to, .region = box(0, elements)};
}

#endif
