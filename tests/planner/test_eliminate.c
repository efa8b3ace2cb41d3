/* Elimination and tables of least sums, against all choices.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../planner/exact/candidates.h"
#include "../random_graph.h"
#include "fixture.h"

#define MOST_VARS 7
#define MOST_CHOICES 4
#define MOST_PAIRS 16

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* ---- elimination ---- */

struct problem {
	uint32_t n[MOST_VARS];
	double cost[MOST_VARS][MOST_CHOICES];
	const double *costs[MOST_VARS];
	double table[MOST_PAIRS][MOST_CHOICES * MOST_CHOICES];
	struct ff_pair pair[MOST_PAIRS];
	struct ff_choices c;
};

static void draw_problem(struct problem *p, struct ff_random *r)
{
	*p = (struct problem){.c.n_vars = 1 + ff_random_below(r, MOST_VARS)};
	for (uint32_t v = 0; v < p->c.n_vars; v++) {
		p->n[v] = 1 + ff_random_below(r, MOST_CHOICES);
		p->costs[v] = p->cost[v];
		for (uint32_t i = 0; i < MOST_CHOICES; i++)
			p->cost[v][i] = ff_random_below(r, 50);
	}
	if (p->c.n_vars > 1)
		p->c.n_pairs = ff_random_below(r, MOST_PAIRS + 1);
	for (uint32_t i = 0; i < p->c.n_pairs; i++) {
		p->pair[i].a = ff_random_below(r, p->c.n_vars);
		p->pair[i].b = (p->pair[i].a + 1 + ff_random_below(r, p->c.n_vars - 1)) %
			       p->c.n_vars;
		/* some pairs share a table */
		p->pair[i].cost = p->table[ff_random_below(r, 2) ? i : ff_random_below(r, i + 1)];
		for (uint32_t k = 0; k < MOST_CHOICES * MOST_CHOICES; k++)
			p->table[i][k] = ff_random_below(r, 50);
	}
	p->c.n = p->n;
	p->c.cost = p->costs;
	p->c.pair = p->pair;
}

static double least_of_all(const struct ff_choices *c)
{
	uint32_t choice[MOST_VARS] = {0}, v = 0;
	double least = INFINITY;

	while (v < c->n_vars) {
		least = fmin(least, ff_choices_cost(c, choice));
		for (v = 0; v < c->n_vars && ++choice[v] == c->n[v]; v++)
			choice[v] = 0;
	}
	return least;
}

START_TEST(test_elimination_is_exact)
{
	struct ff_random r = {.seed = ff_test_seed(1)};
	struct ff_error err = {0};

	for (int i = 0; i < 3000; i++) {
		uint32_t choice[MOST_VARS] = {0};
		struct problem p;
		bool exact;

		draw_problem(&p, &r);
		CHECK_OK(ff_choices_minimise(
				&p.c, (size_t)1 << 20, 1, NULL, NULL, choice, &exact, &err));
		ck_assert(exact);
		ck_assert(ff_choices_cost(&p.c, choice) == least_of_all(&p.c));
	}
}
END_TEST

/* With room for small tables only, no sweep makes it worse, and what it says is
 * exact is. */
START_TEST(test_elimination_in_little_room)
{
	struct ff_random r = {.seed = ff_test_seed(2)};
	struct ff_error err = {0};

	for (int i = 0; i < 3000; i++) {
		uint32_t choice[MOST_VARS] = {0};
		struct problem p;
		double before;
		bool exact;

		draw_problem(&p, &r);
		before = ff_choices_cost(&p.c, choice);
		for (uint32_t sweeps = 1; sweeps < 4; sweeps++) {
			double after;

			CHECK_OK(ff_choices_minimise(
					&p.c, 8, sweeps, NULL, NULL, choice, &exact, &err));
			after = ff_choices_cost(&p.c, choice);
			ck_assert(after <= before);
			if (exact)
				ck_assert(after == least_of_all(&p.c));
			before = after;
		}
	}
}
END_TEST

/* ---- tables of least sums ---- */

#define TABLE_TERMS 5
#define TABLE_ENTRIES (40 * 7 * 7 * 7)

/* A variable of many choices and up to three others, and terms that have it somewhere. */
struct table {
	struct ff_least_ask ask;
	struct ff_least_term term[TABLE_TERMS];
	double cost[TABLE_TERMS][TABLE_ENTRIES];
};

static void draw_table(struct table *t, struct ff_random *r)
{
	t->ask = (struct ff_least_ask){.choices = 1 + ff_random_below(r, 40),
			.n = ff_random_below(r, 4),
			.n_terms = 1 + ff_random_below(r, TABLE_TERMS),
			.term = t->term};
	for (uint32_t i = 0; i < t->ask.n; i++)
		t->ask.size[i] = 1 + ff_random_below(r, 7);
	for (uint32_t k = 0; k < t->ask.n_terms; k++) {
		struct ff_least_term *x = &t->term[k];
		uint32_t goes = ff_random_below(r, t->ask.n + 1);

		*x = (struct ff_least_term){.cost = t->cost[k]};
		for (uint32_t i = 0; i <= t->ask.n; i++) {
			if (i == goes)
				x->place[x->n++] = FF_SCOPE_GOES;
			if (i < t->ask.n && ff_random_below(r, 2))
				x->place[x->n++] = (uint8_t)i;
		}
		if (x->n == 3 && ff_random_below(r, 2)) { /* any order will do */
			uint8_t first = x->place[0];

			x->place[0] = x->place[2];
			x->place[2] = first;
		}
		for (uint32_t i = 0; i < TABLE_ENTRIES; i++)
			t->cost[k][i] = ff_random_below(r, 50);
	}
}

static double term_at(const struct table *t, uint32_t k, const uint32_t *choice, uint32_t goes)
{
	const struct ff_least_term *x = &t->term[k];
	size_t at = 0;

	for (uint32_t i = 0; i < x->n; i++)
		at = x->place[i] == FF_SCOPE_GOES
				     ? at * t->ask.choices + goes
				     : at * t->ask.size[x->place[i]] + choice[x->place[i]];
	return x->cost[at];
}

static void check_table(const struct table *t, const struct ff_least *found)
{
	uint32_t choice[FF_MAX_SCOPE] = {0}, at = 0, i = 0;

	while (i != FF_NONE) {
		double least = INFINITY;
		uint32_t best = 0;

		for (uint32_t x = 0; x < t->ask.choices; x++) {
			double sum = 0;

			for (uint32_t k = 0; k < t->ask.n_terms; k++)
				sum += term_at(t, k, choice, x);
			best = sum < least ? x : best;
			least = fmin(least, sum);
		}
		ck_assert(found->cost[at] == least);
		ck_assert_uint_eq(found->best[at], best);
		at++;
		for (i = t->ask.n; i-- > 0 && ++choice[i] == t->ask.size[i];)
			choice[i] = 0;
	}
}

/* Each is the least for every choice of the others, the first of equals, and made once. */
START_TEST(test_tables_are_least)
{
	struct ff_random r = {.seed = ff_test_seed(3)};
	static struct table t[2];
	struct ff_leasts known;

	ff_leasts_init(&known);
	for (int i = 0; i < 200; i++) {
		struct ff_least found[2], again;

		/* those of other costs at the same place are others */
		ff_leasts_finish(&known);
		ff_leasts_init(&known);
		for (int k = 0; k < 2; k++) {
			draw_table(&t[k], &r);
			ck_assert_int_eq(ff_least_find(&known, &t[k].ask, &found[k]), FF_OK);
		}
		for (int k = 0; k < 2; k++) {
			check_table(&t[k], &found[k]);
			ck_assert_int_eq(ff_least_find(&known, &t[k].ask, &again), FF_OK);
			ck_assert_ptr_eq(again.cost, found[k].cost);
		}
		t[0].ask.choices = t[0].ask.choices < 40 ? t[0].ask.choices + 1 : 1;
		ck_assert_int_eq(ff_least_find(&known, &t[0].ask, &again), FF_OK);
		check_table(&t[0], &again);
	}
	ff_leasts_finish(&known);
}
END_TEST

/* ---- edges ---- */

static double price(const struct ff_graph *g, struct ff_machine *m, bool lane, uint32_t edge,
		const struct ff_node_block *from, const struct ff_node_block *to)
{
	struct ff_additive a = {.g = g, .m = m};
	struct ff_error err = {0};
	double us, bytes;

	m->message_lane = lane;
	ff_machine_number_cards(m);
	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &a.p, &err));
	ff_arena_init(&a.scratch);
	ff_arena_init(&a.inner);
	a.position = ff_arena_array(&arena, g->n_nodes, sizeof(*a.position));
	a.lane_us = ff_arena_array(&arena, ff_lane_count(m), sizeof(*a.lane_us));
	a.lane = ff_arena_array(&arena, 3 * (size_t)m->n_devices, sizeof(*a.lane));
	ck_assert(a.position && a.lane_us && a.lane);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		a.position[i] = i;
	CHECK_OK(ff_additive_price_edge(&a, edge, from, to, &us, &bytes, &err));
	ff_arena_finish(&a.scratch);
	ff_arena_finish(&a.inner);
	ff_pricer_destroy(a.p);
	return us;
}

/* Where the machine has a lane for messages, what an edge sends does not wait for what else it
 * moves: it never takes longer, and now and then less. */
START_TEST(test_messages_have_a_lane)
{
	uint64_t seed = ff_test_seed(4);
	uint32_t less = 0, n = 0;

	for (uint32_t i = 0; i < 200; i++) {
		struct ff_random r = {seed, i, 0};
		struct ff_error err = {0};
		struct ff_strategy s;
		struct ff_machine m;
		struct ff_graph g;

		CHECK_OK(random_graph(&r, FF_F32, 4, &arena, &g, &err));
		CHECK_OK(random_machine(&r, 2 + ff_random_below(&r, 7), &arena, &m, &err));
		CHECK_OK(random_strategy(&r, &g, m.n_devices, &arena, &s, NULL, &err));
		m.overlap = true;
		for (uint32_t k = 0; k < g.n_edges; k++) {
			uint32_t source = ff_edge_source(&g, k), sink = g.edges[k].node;
			struct ff_node_block from, to;
			double one, own;

			if (!ff_node_needs_config(&g, source) || !ff_node_needs_config(&g, sink))
				continue;
			CHECK_OK(ff_node_block_build(
					&g, source, &s.config[source], &arena, &from, &err));
			CHECK_OK(ff_node_block_build(&g, sink, &s.config[sink], &arena, &to, &err));
			one = price(&g, &m, false, k, &from, &to);
			own = price(&g, &m, true, k, &from, &to);
			ck_assert_double_le(own, one);
			less += own < one;
			n++;
		}
		ff_arena_finish(&arena);
		ff_arena_init(&arena);
	}
	printf("# %u of %u edges take less\n", less, n);
	ck_assert_uint_gt(less, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("eliminate");
	TCase *c = tcase_create("eliminate");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_elimination_is_exact);
	tcase_add_test(c, test_elimination_in_little_room);
	tcase_add_test(c, test_tables_are_least);
	tcase_add_test(c, test_messages_have_a_lane);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
