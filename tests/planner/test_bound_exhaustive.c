/* The lower bound beside the best of all strategies, of graphs so small that all can be tried.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "../simulator/hand.h"
#include "check/dims.h"
#include "exhaustive.h"
#include "ff/config.h"
#include "ff/graph_file.h"
#include "ff/simulate.h"
#include "ff/strategy_file.h"
#include "simulator/drawn.h"
#include "space/raise.h"

#ifndef GRAPHS
#define GRAPHS 3000
#endif
#define MOST_STRATEGIES 2500 /* of a graph; of larger spaces something is left out */

/* One graph on one machine, with prices, and the phases that its strategies have. */
struct world {
	struct hand_machine h;
	struct ff_arena arena;
	struct ff_graph g, micro;
	struct ff_costs *costs;
	struct ff_pricer *p;
	struct ff_strategy like;
	struct choices choices;
	bool few; /* operators */
	struct ff_error err;
};

#define OK(w, call) ck_assert_msg((call) == FF_OK, "%s", (w)->err.text)

/* One of some factors. */
static double one_of(struct ff_random *r, const double by[4])
{
	return by[ff_random_below(r, 4)];
}

/* Two devices more often than three; now and then those of one node are slower.  Mostly kernels
 * take longer than launching them, and moving data takes little or much, so that the bound is near.
 * Of links without latency it counts no bytes. */
static void draw_machine(struct ff_random *r, struct hand_machine *h)
{
	static const uint32_t shape[][2] = {{1, 2}, {1, 2}, {2, 1}, {1, 3}, {3, 1}};
	static const double slower[] = {1, 1e4, 1e6, 1e6}, memory[] = {1, 1e4, 1e5, 1e5};
	static const double faster[] = {1e-3, 0.1, 1000, 1e5}, latency[] = {0, 1e-5, 0.1, 1};
	const uint32_t *s = shape[ff_random_below(r, 5)];
	double flops_by = one_of(r, slower), bytes_by = flops_by / one_of(r, memory);

	hand_machine_init(h, s[0], s[1], ff_random_below(r, 2));
	h->node[s[0] - 1].kind = ff_random_below(r, 3) == 0;
	for (int k = 0; k < 2; k++) {
		h->kind[k].flops_per_s /= flops_by;
		h->kind[k].memory_bytes_per_s /= bytes_by;
	}
	for (uint32_t i = 0; i < s[0]; i++) {
		struct ff_link *const links[] = {&h->node[i].inside, &h->node[i].network};

		for (int k = 0; k < 2; k++) {
			links[k]->bytes_per_us *= one_of(r, faster);
			links[k]->latency_us *= one_of(r, latency);
		}
		h->node[i].inside.shared = ff_random_below(r, 2);
	}
	hand_message_lane(h, ff_random_below(r, 4) == 0);
	if (ff_random_below(r, 3) == 0)
		hand_wire(h, 1 + ff_random_below(r, s[1]));
}

/* Analytic, or drawn, where all devices are of one kind, every second time; any optimizer; one time
 * in four with clipping. */
static void draw_prices(struct ff_random *r, struct world *w)
{
	bool equal = !w->h.node[w->h.m.n_nodes - 1].kind;
	enum ff_optimizer_id o = (enum ff_optimizer_id)ff_random_below(r, FF_OPTIMIZER_COUNT);

	w->costs = NULL;
	if (equal && ff_random_below(r, 2))
		w->costs = odd_costs(&w->g, w->h.m.n_devices, ff_random_u32(r), 0);
	OK(w, ff_pricer_create(&w->g, &w->h.m, hand_estimate(&w->h), w->costs,
			      w->costs ? "drawn" : NULL, "small", &w->p, &w->err));
	OK(w, ff_pricer_set_optimizer(w->p, ff_optimizer(o), &w->err));
	ff_pricer_set_clip(w->p, ff_random_below(r, 4) == 0);
	if (ff_random_below(r, 4) == 0)
		ff_pricer_set_by_nodes(w->p, true);
}

/* Of few operators as much of the space as can be tried; of many on which devices they are.
 * False: not even that. */
static bool find_choices(struct world *w, bool few)
{
	static const uint32_t with[] = {WITH_SPLITS | WITH_REPLICAS | WITH_UPDATES,
			WITH_SPLITS | WITH_REPLICAS, WITH_SPLITS | WITH_UPDATES, WITH_SPLITS,
			WITH_UPDATES, 0};

	for (int i = few ? 0 : 4; i < (few ? 4 : 6); i++) {
		OK(w, choices_of_all(&w->micro, w->h.m.n_devices, with[i], &w->arena, &w->choices,
				      &w->err));
		if (choices_count(&w->choices, MOST_STRATEGIES) <= MOST_STRATEGIES)
			return true;
	}
	return false;
}

/* Phases, and one time in three priorities. */
static void draw_like(struct ff_random *r, struct world *w)
{
	bool priorities = ff_random_below(r, 3) == 0;
	struct ff_random rule = *r; /* whatever else is drawn stays */

	OK(w, ff_strategy_create(&w->g, &w->arena, &w->like, &w->err));
	OK(w, random_phases(r, &w->g, &w->arena, &w->like, &w->micro, &w->err));
	for (uint32_t i = 0; i < w->g.n_nodes && priorities; i++)
		w->like.priority[i] = (int32_t)ff_random_below(r, 5) - 2;
	if (w->like.rule == FF_ORDER_1F1B && ff_random_below(&rule, 2))
		w->like.rule = FF_ORDER_ZB_H1;
}

/* False where there is too much to try. */
static bool open_world(struct ff_random *r, struct world *w)
{
	enum ff_dtype type = ff_random_below(r, 4) ? FF_F32 : FF_BF16;

	w->p = NULL;
	w->costs = NULL;
	ff_arena_init(&w->arena);
	draw_machine(r, &w->h);
	w->few = ff_random_below(r, 4);
	OK(w, random_small_graph(r, type, w->few ? 2 : 6, &w->arena, &w->g, &w->err));
	draw_like(r, w);
	if (!find_choices(w, w->few))
		return false;
	draw_prices(r, w);
	return true;
}

static void close_world(struct world *w)
{
	ff_pricer_destroy(w->p);
	ff_costs_destroy(w->costs);
	ff_arena_finish(&w->arena);
}

/* The evaluator's figure is a fresh simulation's. */
static void check_fresh(struct world *w, const struct ff_search_result *best)
{
	struct ff_lower_options opt = {.workspace = ff_price_workspace,
			.ctx = w->p,
			.optimizer = ff_price_optimizer(w->p),
			.clip = ff_price_clips(w->p)};
	struct ff_schedule lowered;
	struct ff_simulation sim;

	OK(w, ff_strategy_check(&w->micro, &best->best, w->h.m.n_devices, &w->err));
	OK(w, ff_lower(&w->g, &w->h.m, &best->best, &opt, &w->arena, &lowered, &w->err));
	OK(w, ff_simulate(&lowered, w->p, &w->arena, &sim, &w->err));
	ck_assert_double_eq(sim.step_us, best->evaluation.step_us);
}

/* What a failure leaves to look at. */
static const char *tell(struct world *w, const struct ff_search_result *best)
{
	struct ff_strategy_info info = {.machine = "hand", .devices = w->h.m.n_devices};
	const char *text;
	struct ff_out o;

	ff_out_init(&o);
	ff_graph_write(&w->g, &o);
	ff_strategy_write(&w->micro, &best->best, &info, &o);
	ff_out_printf(&o, "\n");
	text = ff_arena_strdup(&w->arena, o.text);
	ff_out_finish(&o);
	return text ? text : "";
}

/* The same by classes of degree vectors, as on many devices. */
static double bound_by_classes(struct world *w)
{
	struct ff_weights *by = ff_arena_alloc(&w->arena, sizeof(*by));
	struct ff_kinds *k = ff_arena_alloc(&w->arena, sizeof(*k));
	struct ff_weighted weighted;
	double us;

	ck_assert(by && k);
	OK(w, ff_kinds_init(k, &w->micro, &w->h.m, w->p, w->like.micro_batches > 1, NULL, NULL,
			      &w->arena, &w->err));
	k->kept.most_every = 1;
	OK(w, ff_weighted_init(&weighted, k, w->like.micro_batches, &w->arena, &w->err));
	OK(w, ff_weights_raise(&weighted, NULL, NULL, &w->arena, by, &us, &w->err));
	ff_kinds_finish(k);
	return us;
}

/* How many times the bound the best strategy takes; adds to *tried, and to *moving where the bound
 * rests on communication. */
static double compare(struct world *w, uint32_t number, uint64_t *tried, uint32_t *moving)
{
	const struct ff_bounded bounded = {&w->g, w->like.micro_batches, &w->h.m, w->p, NULL, NULL};
	struct ff_search_result best;
	struct ff_evaluator *e;
	struct ff_weights *by = ff_arena_alloc(&w->arena, sizeof(*by));
	double bound_us;

	OK(w, ff_evaluator_create(&w->g, &w->h.m, w->p, INT64_MAX, 0, &e, &w->err));
	OK(w, search_exhaustive(&w->choices, &w->like, e, &w->micro, MOST_STRATEGIES, &w->arena,
			      &best, &w->err));
	ck_assert_ptr_nonnull(by);
	OK(w, ff_lower_bound_weights(&bounded, &w->arena, by, &bound_us, &w->err));
	*moving += by->communication > 0;
	bound_us = fmax(bound_us, bound_by_classes(w));
	ck_assert_double_gt(bound_us, 0);
	ck_assert_msg(best.evaluation.step_us >= bound_us * (1 - 1e-12),
			"graph number %u: the bound is %.17g us, but this takes %.17g us: %s",
			number, bound_us, best.evaluation.step_us, tell(w, &best));
	check_fresh(w, &best);
	ff_evaluator_destroy(e);
	*tried += best.proposals;
	return best.evaluation.step_us / bound_us;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

START_TEST(no_strategy_is_faster)
{
	struct ff_random r = {.seed = ff_test_seed(26)};
	static double times[GRAPHS];
	uint32_t rounds = ff_test_rounds(GRAPHS), n = 0, large = 0, few = 0, many = 0, unequal = 0,
		 moving = 0;
	uint64_t tried = 0;

	while (n < rounds) {
		struct world w = {.err = {0}};

		if (open_world(&r, &w)) {
			few += w.few;
			many += w.like.micro_batches > 1;
			unequal += w.h.m.n_nodes > 1 && w.h.node[w.h.m.n_nodes - 1].kind;
			times[n] = compare(&w, n, &tried, &moving);
			n++;
		} else {
			large++;
		}
		close_world(&w);
	}
	qsort(times, n, sizeof(*times), ascending);
	printf("# %u graphs, %u of few operators in all splits, %u in several micro-batches, %u on "
	       "unequal "
	       "devices, %u with bounds that rest on communication; %llu strategies; %u graphs "
	       "were too large\n",
			n, few, many, unequal, moving, (unsigned long long)tried, large);
	printf("# the best takes %.3f times the bound in the median, %.3f and %.3f in the "
	       "quartiles\n",
			times[n / 2], times[n / 4], times[3 * n / 4]);
}
END_TEST

/* ---- splits of one kind ---- */

static bool is_no_more(const struct ff_split_us *a, const struct ff_split_us *b)
{
	return a->first_us <= b->first_us && a->least_us <= b->least_us && a->all_us <= b->all_us &&
	       a->placed_us <= b->placed_us && a->wide_us <= b->wide_us &&
	       a->open_us <= b->open_us && a->sum_us <= b->sum_us;
}

/* How many of `kept` are of that class and no more than `s` in any figure. */
static uint32_t count_below(const struct ff_kinds *k, const struct ff_kind *kept, uint32_t class,
		const struct ff_split_us *s)
{
	uint32_t n = 0;

	for (uint32_t i = kept->split; i < kept->split + kept->n_split; i++)
		n += k->split[i].number == class && is_no_more(&k->split[i], s);
	return n;
}

/* Of each class those are kept that no other of it is below, once each. */
static uint32_t check_kept(struct world *w, struct ff_kinds *all, struct ff_kinds *few, uint32_t i)
{
	const struct ff_node *n = &w->g.nodes[i], *leader = &w->g.nodes[ff_degrees_of(&w->g, i)];
	struct ff_config c = {.n_parts = 0};
	struct ff_kind every, kept;
	uint32_t k;

	OK(w, ff_kinds_find(all, i, &every, &w->err));
	OK(w, ff_kinds_find(few, i, &kept, &w->err));
	ck_assert_double_eq(kept.all_us, every.all_us);
	for (k = 0; ff_config_next_degrees(n, w->h.m.n_devices, &c); k++)
		ck_assert_uint_gt(count_below(few, &kept, ff_class_of(leader, &c),
						  &all->split[every.split + k]),
				0);
	ck_assert_uint_eq(k, every.n_split);
	for (k = kept.split; k < kept.split + kept.n_split; k++)
		ck_assert_uint_eq(count_below(few, &kept, few->split[k].number, &few->split[k]), 1);
	return every.n_split - kept.n_split;
}

START_TEST(kept_splits_are_the_least)
{
	struct ff_random r = {.seed = ff_test_seed(61)};
	uint32_t dropped = 0;

	for (int round = 0; round < 20; round++) {
		struct world w = {.err = {0}};
		struct ff_kinds k[2];

		ff_arena_init(&w.arena);
		hand_machine_init(&w.h, 2, 6, true);
		OK(&w, random_small_graph(&r, FF_F32, 6, &w.arena, &w.g, &w.err));
		draw_prices(&r, &w);
		for (int i = 0; i < 2; i++) {
			OK(&w, ff_kinds_init(&k[i], &w.g, &w.h.m, w.p, false, NULL, NULL, &w.arena,
					       &w.err));
			k[i].kept.every = !i;
			k[i].kept.classes = i;
		}
		for (uint32_t i = 0; i < w.g.n_nodes; i++)
			if (ff_node_is_computed(&w.g, i))
				dropped += check_kept(&w, &k[0], &k[1], i);
		for (int i = 0; i < 2; i++)
			ff_kinds_finish(&k[i]);
		close_world(&w);
	}
	ck_assert_uint_gt(dropped, 100);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("bound");
	TCase *t = tcase_create("exhaustive");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, no_strategy_is_faster);
	tcase_add_test(t, kept_splits_are_the_least);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
