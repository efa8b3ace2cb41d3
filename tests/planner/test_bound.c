/* Lower bound: below every strategy, and equal to the plain sum over all parts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/search.h"
#include "ff/simulate.h"
#include "ff/zoo.h"

#include "../simulator/hand.h"
#include "check/weighted.h"
#include "simulator/drawn.h"
#include "space/raise.h"

struct world {
	struct hand_machine h;
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_pricer *p;
};

/* Machine and prices for w->g. */
static void setup_machine(
		struct world *w, struct ff_random *state, uint32_t n_nodes, uint32_t per_node)
{
	hand_machine_init(&w->h, n_nodes, per_node, ff_random_below(state, 2));
	w->h.node[n_nodes - 1].kind = ff_random_below(state, 2);
	/* without this every price is a launch and hides the shapes */
	for (int k = 0; k < 2; k++) {
		w->h.kind[k].flops_per_s /= 1e4;
		w->h.kind[k].memory_bytes_per_s /= 1e3;
	}
	ck_assert_int_eq(ff_pricer_create(&w->g, &w->h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &w->p,
					 NULL),
			FF_OK);
}

static void setup(struct world *w, struct ff_random *state, uint32_t n_nodes, uint32_t per_node)
{
	ff_arena_init(&w->arena);
	draw_graph(state, &w->arena, &w->g);
	setup_machine(w, state, n_nodes, per_node);
}

static void setup_zoo(struct world *w, const char *net, const char *set, uint32_t per_node)
{
	struct ff_random state = {.seed = 1};

	ff_arena_init(&w->arena);
	ck_assert_int_eq(ff_zoo_build(net, 6, &set, 1, &w->arena, &w->g, NULL), FF_OK);
	setup_machine(w, &state, 2, per_node);
}

static void teardown(struct world *w)
{
	ff_pricer_destroy(w->p);
	ff_arena_finish(&w->arena);
}

static double bound_us(struct world *w)
{
	struct ff_error err;
	double us;

	ck_assert_msg(ff_lower_bound(&w->g, 1, &w->h.m, w->p, NULL, NULL, &us, &err) == FF_OK, "%s",
			err.text);
	return us;
}

START_TEST(no_strategy_is_faster)
{
	struct ff_random state = {.seed = ff_test_seed(21)};

	for (int round = 0; round < 20; round++) {
		struct world w;
		double us;

		setup(&w, &state, 1 + ff_random_below(&state, 2), 1 + ff_random_below(&state, 4));
		us = bound_us(&w);
		ck_assert_double_gt(us, 0);
		for (int k = 0; k < 20; k++) {
			struct ff_arena a;
			struct ff_strategy s;
			struct ff_schedule plan;
			struct ff_simulation sim;

			ff_arena_init(&a);
			draw_strategy(&state, &w.g, w.h.m.n_devices, &a, &s, NULL);
			ck_assert_int_eq(ff_lower(&w.g, &w.h.m, &s, NULL, &a, &plan, NULL), FF_OK);
			ck_assert_int_eq(ff_simulate(&plan, w.p, &a, &sim, NULL), FF_OK);
			ck_assert_double_ge(sim.step_us, us * (1 - 1e-9));
			ff_arena_finish(&a);
		}
		teardown(&w);
	}
}
END_TEST

/* Links of any speed beside what is computed, all with some latency. */
static void draw_links(struct ff_random *state, struct hand_machine *h)
{
	static const double faster[] = {1e-4, 1e-3, 0.1, 10};

	for (uint32_t i = 0; i < h->m.n_nodes; i++) {
		struct ff_link *const links[] = {&h->node[i].inside, &h->node[i].network};

		for (int k = 0; k < 2; k++) {
			links[k]->bytes_per_us *= faster[ff_random_below(state, 4)];
			links[k]->latency_us = 1e-3;
		}
		h->node[i].inside.shared = ff_random_below(state, 2);
	}
}

/* Chooses the degrees that `s` has, `g` is of one micro-batch: false, where bounds know no degrees.
 */
static bool choose_split(const struct world *w, const struct ff_graph *g,
		const struct ff_strategy *s, struct ff_weighted *ret)
{
	for (uint32_t i = 0; i < g->n_nodes && ret->received; i++) {
		const struct ff_node *n = &g->nodes[i];
		const struct ff_config *have = &s->config[ff_node_leader(g, i)];
		struct ff_config c = {.n_parts = 0};

		if (!ff_node_is_computed(g, i))
			continue;
		for (ret->chosen[i] = 0; ff_config_next_degrees(n, w->h.m.n_devices, &c);
				ret->chosen[i]++)
			if (!memcmp(c.degree, have->degree, n->n_dims * sizeof(*c.degree)))
				break;
		ck_assert_uint_lt(ret->chosen[i], ret->n_split[i]);
	}
	return ret->received;
}

/* That moves hold the communication lanes of devices, on average. */
static double moving_us(const struct world *w, const struct ff_schedule *plan,
		const struct ff_simulation *sim)
{
	double us = 0;

	for (uint32_t i = 0; i < plan->n_tasks; i++)
		if (plan->tasks[i].move && plan->tasks[i].move->n_devices > 1)
			us += plan->tasks[i].move->n_devices * (sim->finish[i] - sim->start[i]);
	return us / w->h.m.n_devices;
}

/* What its degrees say of lanes, and of chains.  How many times the bytes that count its moves
 * take; 0: none count. */
static double check_terms(const struct world *w, const struct ff_schedule *plan,
		const struct ff_simulation *sim, struct ff_weighted *weighted,
		const struct ff_weights *by)
{
	double moving = moving_us(w, plan, sim) * (1 + 1e-9), us = sim->step_us * (1 + 1e-9);

	if (!choose_split(w, plan->graph, plan->strategy, weighted))
		return 0;
	ff_weighted_terms(weighted, by);
	ck_assert_double_le(weighted->compute_us, us);
	ck_assert_double_le(weighted->communication_us, moving);
	for (uint32_t i = 0; i < by->n_chains; i++)
		ck_assert_double_le(weighted->chain_us[i], us);
	return weighted->communication_us > 0 ? moving / weighted->communication_us : 0;
}

/* Of any strategy, not of the best alone; the chains are those of one micro-batch. */
static double draw_terms(struct world *w, struct ff_random *state, const struct ff_weights *alone)
{
	const struct ff_weights none = {.compute = 1};
	struct ff_arena a;
	struct ff_graph micro;
	struct ff_strategy s;
	struct ff_schedule plan;
	struct ff_simulation sim;
	struct ff_weighted weighted;
	struct ff_kinds *k;
	double times;

	ff_arena_init(&a);
	draw_strategy(state, &w->g, w->h.m.n_devices, &a, &s, &micro);
	ck_assert_int_eq(ff_lower(&w->g, &w->h.m, &s, NULL, &a, &plan, NULL), FF_OK);
	ck_assert_int_eq(ff_simulate(&plan, w->p, &a, &sim, NULL), FF_OK);
	k = ff_arena_alloc(&a, sizeof(*k));
	ck_assert_int_eq(ff_kinds_init(k, &micro, &w->h.m, w->p, s.micro_batches > 1, NULL, NULL,
					 &a, NULL),
			FF_OK);
	ck_assert_int_eq(ff_weighted_init(&weighted, k, s.micro_batches, &a, NULL), FF_OK);
	times = check_terms(w, &plan, &sim, &weighted, s.micro_batches > 1 ? &none : alone);
	ff_kinds_finish(k);
	ff_arena_finish(&a);
	return times;
}

START_TEST(no_strategy_moves_less)
{
	struct ff_random state = {.seed = ff_test_seed(27)};
	uint32_t near = 0, counted = 0, rounds = ff_test_rounds(150);

	/* a graph has many strategies that move little, or none: a share of the rounds may be too
	 * few */
	for (uint32_t round = 0; round < rounds || (near <= rounds / 8 && round < 150); round++) {
		struct ff_bounded bounded;
		struct ff_weights *by;
		struct world w;
		double us;

		setup(&w, &state, 1 + ff_random_below(&state, 2), 1 + ff_random_below(&state, 4));
		draw_links(&state, &w.h);
		ff_pricer_destroy(w.p);
		ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL,
						 &w.p, NULL),
				FF_OK);
		by = ff_arena_alloc(&w.arena, sizeof(*by));
		bounded = (struct ff_bounded){&w.g, 1, &w.h.m, w.p, NULL, NULL};
		ck_assert_int_eq(ff_lower_bound_weights(&bounded, &w.arena, by, &us, NULL), FF_OK);
		for (int i = 0; i < 20; i++) {
			double times = draw_terms(&w, &state, by);

			counted += times > 0;
			near += times > 0 && times < 4;
		}
		teardown(&w);
	}
	printf("# %u strategies must move something, and %u move less than four times that\n",
			counted, near);
	ck_assert_uint_gt(near, rounds / 8);
}
END_TEST

/* Data parallelism on two devices sends just what it must. */
START_TEST(gradients_are_counted_whole)
{
	struct ff_weights by = {.communication = 1};
	struct ff_strategy s;
	struct ff_schedule plan;
	struct ff_simulation sim;
	struct ff_weighted weighted;
	struct ff_kinds *k;
	struct world w;

	setup_zoo(&w, "mlp", "hidden=64", 2);
	ff_pricer_destroy(w.p);
	hand_machine_init(&w.h, 1, 2, true);
	w.h.node[0].inside.latency_us = 1e-3;
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &w.p,
					 NULL),
			FF_OK);
	k = ff_arena_alloc(&w.arena, sizeof(*k));
	ck_assert_int_eq(ff_strategy_data_parallel(&w.g, 2, &w.arena, &s, NULL), FF_OK);
	ck_assert_int_eq(ff_lower(&w.g, &w.h.m, &s, NULL, &w.arena, &plan, NULL), FF_OK);
	ck_assert_int_eq(ff_simulate(&plan, w.p, &w.arena, &sim, NULL), FF_OK);
	ck_assert_int_eq(ff_kinds_init(k, &w.g, &w.h.m, w.p, false, NULL, NULL, &w.arena, NULL),
			FF_OK);
	ck_assert_int_eq(ff_weighted_init(&weighted, k, 1, &w.arena, NULL), FF_OK);
	ck_assert(choose_split(&w, &w.g, &s, &weighted));
	ff_weighted_terms(&weighted, &by);
	ck_assert_double_gt(weighted.communication_us, 0.95 * moving_us(&w, &plan, &sim));
	ff_kinds_finish(k);
	teardown(&w);
}
END_TEST

/* On one device there is nothing to choose: the bound is all the compute. */
START_TEST(one_device_is_tight)
{
	struct ff_random state = {.seed = ff_test_seed(22)};

	for (int round = 0; round < 20; round++) {
		struct world w;
		struct ff_strategy s;
		struct ff_schedule plan;
		struct ff_simulation sim;
		double us;
		double work_us = 0;

		setup(&w, &state, 1, 1);
		ck_assert_int_eq(ff_strategy_single(&w.g, 0, &w.arena, &s, NULL), FF_OK);
		ck_assert_int_eq(ff_lower(&w.g, &w.h.m, &s, NULL, &w.arena, &plan, NULL), FF_OK);
		ck_assert_int_eq(ff_simulate(&plan, w.p, &w.arena, &sim, NULL), FF_OK);
		us = bound_us(&w);
		for (uint32_t i = 0; i < plan.n_tasks; i++)
			if (ff_task_computes_part(&plan.tasks[i]))
				work_us += sim.finish[i] - sim.start[i];
		ck_assert_double_ge(us, work_us * (1 - 1e-9));
		ck_assert_double_le(us, sim.compute_us[0] * (1 + 1e-9));
		teardown(&w);
	}
}
END_TEST

static uint32_t layer(struct ff_builder *b, const char *name, uint32_t in, int32_t features)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);

	a.linear.out_features = features;
	return ff_builder_add(b, FF_OP_LINEAR, name, &a, &in, 1);
}

/* Three layers, a loss, and, without a gradient, a route, four operators and another loss. */
static void routed_graph(struct ff_arena *a, struct ff_graph *g)
{
	union ff_attrs x = {.input = {.rank = 3, .shape = {4, 4, 8}, .dtype = FF_F32}};
	union ff_attrs route = ff_attrs_preset(FF_OP_ROUTE);
	const char *const names[] = {"relu1", "relu2", "relu3", "relu4"};
	struct ff_error err = {0};
	struct ff_builder *b;
	uint32_t in[2], way;

	ck_assert_int_eq(ff_builder_create("routed", a, &b, &err), FF_OK);
	route.route.capacity = 1;
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = layer(b, "fc2", layer(b, "fc1", in[0], 4), 4);
	in[0] = layer(b, "scores", in[0], 2);
	way = ff_builder_add(b, FF_OP_ROUTE, "route", &route, in, 1);
	x.input.shape[2] = 2;
	in[1] = ff_builder_add(b, FF_OP_INPUT, "targets", &x, NULL, 0);
	ff_builder_add(b, FF_OP_MSE, "loss", NULL, in, 2);
	for (int i = 0; i < 4; i++)
		way = ff_builder_add(b, FF_OP_RELU, names[i], NULL, &way, 1);
	in[0] = way;
	ff_builder_add(b, FF_OP_MSE, "other", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, g, &err) == FF_OK, "%s", err.text);
}

/* While one device is behind the route the other goes back. */
START_TEST(nothing_goes_back_through_a_route)
{
	struct ff_strategy s;
	struct ff_schedule plan;
	struct ff_simulation sim;
	struct world w;

	ff_arena_init(&w.arena);
	routed_graph(&w.arena, &w.g);
	hand_machine_init(&w.h, 1, 2, true);
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, NULL, NULL, NULL, &w.p,
					 NULL),
			FF_OK);
	ck_assert_int_eq(ff_strategy_single(&w.g, 0, &w.arena, &s, NULL), FF_OK);
	for (uint32_t i = ff_graph_find(&w.g, "route"); i < w.g.n_nodes; i++)
		if (ff_node_needs_config(&w.g, i) && i != ff_graph_find(&w.g, "loss"))
			s.config[i].start = 1;
	ck_assert_int_eq(ff_lower(&w.g, &w.h.m, &s, NULL, &w.arena, &plan, NULL), FF_OK);
	ck_assert_int_eq(ff_simulate(&plan, w.p, &w.arena, &sim, NULL), FF_OK);
	ck_assert_double_le(bound_us(&w), sim.step_us);
	teardown(&w);
}
END_TEST

static double fastest_us(struct world *w, const struct ff_work *work)
{
	double best = INFINITY, us;

	for (uint32_t d = 0; d < w->h.m.n_devices; d++) {
		ck_assert_int_eq(ff_price_least(w->p, work, d, &us, NULL), FF_OK);
		best = fmin(best, us);
	}
	return best;
}

/* All the work and the longest chain, as docs/simulator.md defines them, part by part. */
static double plain_bound_us(struct world *w, double *mean_us)
{
	double *chain = ff_arena_array(&w->arena, w->g.n_nodes, sizeof(*chain));
	double *forward = ff_arena_array(&w->arena, w->g.n_nodes, sizeof(*forward));
	double all_us = INFINITY, last_us = 0;

	for (uint32_t d = 0; d < w->h.m.n_devices; d++)
		all_us = fmin(all_us, ff_price_update(w->p, d, 4 * ff_graph_parameters(&w->g)));
	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		const struct ff_node *n = &w->g.nodes[i];
		struct ff_config c = {.n_parts = 0};
		double all = INFINITY, first = INFINITY, last = INFINITY;
		bool back = w->g.values[n->out].needs_grad || ff_node_is_prelude(&w->g, i);

		if (!ff_node_is_computed(&w->g, i))
			continue;
		forward[i] = INFINITY;
		while (ff_config_next_degrees(n, w->h.m.n_devices, &c)) {
			double sum = 0, least = INFINITY, most = 0;

			for (uint32_t part = 0; part < c.n_parts; part++) {
				struct ff_region box;
				struct ff_work work;
				double before = 0, ahead = 0, us;

				ff_config_box(n, &c, part, &box);
				ff_work_fill(&w->g, i, &box, FF_FORWARD, &work);
				us = fastest_us(w, &work);
				for (uint32_t k = 0; k < n->n_in; k++) {
					uint32_t from = ff_edge_source(&w->g, n->in + k);

					if (!ff_region_volume(&work.in[k]))
						continue;
					ahead = fmax(ahead, forward[from]);
					before = fmax(before, back ? chain[from] : forward[from]);
				}
				forward[i] = fmin(forward[i], ahead + us);
				ff_work_fill(&w->g, i, &box, FF_BACKWARD, &work);
				if (w->g.values[n->out].needs_grad)
					us += fastest_us(w, &work);
				sum += us;
				least = fmin(least, before + us);
				most = fmax(most, before + us);
			}
			all = fmin(all, sum);
			first = fmin(first, least);
			last = fmin(last, most);
		}
		all_us += all;
		chain[i] = first;
		last_us = fmax(last_us, last);
	}
	*mean_us = all_us / w->h.m.n_devices;
	return fmax(*mean_us, last_us);
}

/* The weighted bound of all the work is the plain sum, and the bound reported is no lower: how many
 * times it is that. */
static double check_plain(struct world *w)
{
	struct ff_kinds *k = ff_arena_alloc(&w->arena, sizeof(*k));
	struct ff_weights by = {.compute = 1};
	struct ff_weighted weighted;
	double mean_us, plain_us = plain_bound_us(w, &mean_us), us;

	ck_assert_int_eq(ff_kinds_init(k, &w->g, &w->h.m, w->p, false, NULL, NULL, &w->arena, NULL),
			FF_OK);
	ck_assert_int_eq(ff_weighted_init(&weighted, k, 1, &w->arena, NULL), FF_OK);
	ck_assert_double_eq_tol(ff_weighted_us(&weighted, &by), mean_us, 1e-9 * mean_us);
	us = bound_us(w);
	ck_assert_double_ge(us, plain_us * (1 - 1e-9));
	ff_kinds_finish(k);
	return us / plain_us;
}

START_TEST(equals_the_plain_sum)
{
	struct ff_random state = {.seed = ff_test_seed(23)};

	for (int round = 0; round < 12; round++) {
		struct world w;

		setup(&w, &state, 2, 1 + ff_random_below(&state, 4));
		check_plain(&w);
		teardown(&w);
	}
}
END_TEST

/* Networks that repeat themselves: nodes alike but for where their inputs come
 * from, and concats whose parts read some of their inputs. */
START_TEST(networks_equal_the_plain_sum)
{
	static const struct {
		const char *net, *set;
		uint32_t per_node;
	} cases[] = {{"branchnet", "blocks=4", 4}, {"densenet121", "image=29", 2},
			{"inception_v3", "image=75", 2}, {"mlp", "layers=30", 5}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct world w;

		setup_zoo(&w, cases[i].net, cases[i].set, cases[i].per_node);
		check_plain(&w);
		teardown(&w);
	}
}
END_TEST

/* What a search finds is not below it either. */
START_TEST(no_search_is_faster)
{
	static const char *const cases[][2] = {{"branchnet", "blocks=4"}, {"lenet", "image=28"},
			{"inception_v3", "image=75"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ff_search_options opt = {.seed = 1, .proposals = 400};
		struct ff_search_result found;
		struct ff_evaluator *e;
		struct ff_space *s;
		struct world w;

		setup_zoo(&w, cases[i][0], cases[i][1], 2);
		ck_assert_int_eq(ff_space_create(&w.g, &w.h.m, &s, NULL), FF_OK);
		ck_assert_int_eq(ff_evaluator_create(&w.g, &w.h.m, w.p, INT64_MAX, 0, &e, NULL),
				FF_OK);
		ck_assert_int_eq(ff_search_mcmc(s, e, &w.g, &w.h.m, &opt, &w.arena, &found, NULL),
				FF_OK);
		ck_assert_double_ge(found.evaluation.step_us, bound_us(&w));
		ff_evaluator_destroy(e);
		ff_space_destroy(s);
		teardown(&w);
	}
}
END_TEST

struct patience {
	uint32_t asked, until;
};

static bool stop_at(void *ctx)
{
	struct patience *p = ctx;

	return p->asked++ >= p->until;
}

/* It asks often, and when it was told to stop it does. */
START_TEST(can_be_stopped)
{
	struct patience p = {.until = UINT32_MAX};
	uint32_t whole, known = 0;
	double us = 0, most;
	struct world w;

	setup_zoo(&w, "branchnet", "blocks=4", 8);
	ck_assert_int_eq(ff_lower_bound(&w.g, 1, &w.h.m, w.p, stop_at, &p, &us, NULL), FF_OK);
	most = bound_us(&w);
	ck_assert_double_eq(us, most);
	whole = p.asked;
	ck_assert_uint_gt(whole, 50);
	for (p.until = 0; p.until < whole; p.until += 1 + whole / 20) {
		p.asked = 0;
		ck_assert_int_eq(ff_lower_bound(&w.g, 1, &w.h.m, w.p, stop_at, &p, &us, NULL),
				FF_OK);
		ck_assert(isnan(us) || us <= 1.001 * most);
		ck_assert(!known || !isnan(us)); /* while weights are found there is a bound */
		known += !isnan(us) ? 1 : 0;
		ck_assert_uint_eq(p.asked, p.until + 1);
	}
	ck_assert_uint_gt(known, 1);
	ck_assert_uint_lt(known, 19);
	teardown(&w);
}
END_TEST

/* Where all parts of a degree vector cost much together, the weighted sum knows that no operator
 * has both the fewest of them and the shortest. */
START_TEST(tells_all_parts_apart)
{
	struct ff_random state = {.seed = ff_test_seed(25)};
	double most = 1;

	for (int round = 0; round < 20; round++) {
		struct world w;
		struct ff_costs *c;
		struct ff_error err;

		setup(&w, &state, 1, 2 + ff_random_below(&state, 5));
		w.h.node[0].kind = 0;
		ff_pricer_destroy(w.p);
		c = odd_costs(&w.g, w.h.m.n_devices, state.seed, 0);
		ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c", "g", &w.p,
						 &err),
				FF_OK);
		most = fmax(most, check_plain(&w));
		teardown(&w);
		ff_costs_destroy(c);
	}
	ck_assert_double_gt(most, 1.1);
}
END_TEST

START_TEST(a_missing_cost_is_named)
{
	struct world w;
	struct ff_error err = {0};
	struct ff_random state = {.seed = ff_test_seed(24)};
	double us = -1;
	struct ff_costs *c;
	struct ff_pricer *p;

	setup(&w, &state, 1, 2);
	w.h.node[0].kind = 0;
	c = hand_costs("fast");
	ck_assert_int_eq(ff_pricer_create(&w.g, &w.h.m, FF_ESTIMATE_PEAK, c, "c.json", "g.json", &p,
					 &err),
			FF_OK);
	ck_assert_int_eq(ff_lower_bound(&w.g, 1, &w.h.m, p, NULL, NULL, &us, &err), FF_E_INPUT);
	ck_assert_double_eq(us, -1);
	ck_assert_ptr_nonnull(strstr(err.text, "c.json has no cost for \"conv2d.forward"));
	ff_pricer_destroy(p);
	ff_costs_destroy(c);
	teardown(&w);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("bound");
	TCase *t = tcase_create("bound");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, no_strategy_is_faster);
	tcase_add_test(t, no_strategy_moves_less);
	tcase_add_test(t, gradients_are_counted_whole);
	tcase_add_test(t, one_device_is_tight);
	tcase_add_test(t, nothing_goes_back_through_a_route);
	tcase_add_test(t, equals_the_plain_sum);
	tcase_add_test(t, networks_equal_the_plain_sum);
	tcase_add_test(t, no_search_is_faster);
	tcase_add_test(t, can_be_stopped);
	tcase_add_test(t, tells_all_parts_apart);
	tcase_add_test(t, a_missing_cost_is_named);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
