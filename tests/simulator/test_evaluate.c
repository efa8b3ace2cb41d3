/* The evaluator against what it stands for: after every proposal, kept or
 * dropped, time and fit equal a fresh lowering and simulation to the bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/evaluate.h"
#include "ff/simulate.h"
#include "simulator/drawn.h"

static struct ff_evaluation fresh(const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, const struct ff_strategy *s, int64_t limit, int64_t bucket)
{
	struct ff_lower_options opt = {
			.bucket_bytes = bucket, .workspace = ff_price_workspace, .ctx = p};
	struct ff_evaluation ret = {.fits = true};
	struct ff_schedule plan;
	struct ff_simulation sim;
	struct ff_error err = {0};
	struct ff_arena a;

	ff_arena_init(&a);
	ck_assert_msg(ff_lower(g, m, s, &opt, &a, &plan, &err) == FF_OK, "%s", err.text);
	ck_assert_msg(ff_simulate(&plan, p, &a, &sim, &err) == FF_OK, "%s", err.text);
	ret.step_us = sim.step_us;
	for (uint32_t d = 0; d < m->n_devices; d++)
		ret.fits &= plan.memory_bytes[d] <= limit;
	ff_arena_finish(&a);
	return ret;
}

static void same(struct ff_evaluation a, struct ff_evaluation b)
{
	ck_assert_msg(a.step_us == b.step_us, "%.17g is not %.17g", a.step_us, b.step_us);
	ck_assert_int_eq(a.fits, b.fits);
}

static void check_walk(struct ff_random *state, uint32_t *fits, uint32_t *misfits)
{
	struct hand_machine h;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_strategy s, other;
	struct ff_pricer *p;
	struct ff_evaluator *e;
	struct ff_evaluation v, last;
	struct ff_error err = {0};
	int64_t limit = 4000 + ff_random_below(state, 60000),
		bucket = 1 + ff_random_below(state, 3000);
	uint32_t devices;

	ff_arena_init(&a);
	hand_machine_init(&h, 1 + ff_random_below(state, 2), 1 + ff_random_below(state, 4),
			ff_random_below(state, 2));
	for (uint32_t i = 0; i < h.m.n_nodes; i++)
		h.node[i].inside.shared = ff_random_below(state, 2);
	devices = h.m.n_devices;
	draw_graph(state, &a, &g);
	draw_strategy(state, &g, devices, &a, &s);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		s.priority[i] = (int32_t)ff_random_below(state, 2);
	ck_assert_int_eq(ff_pricer_create(&g, &h.m, NULL, NULL, NULL, &p, &err), FF_OK);
	ck_assert_int_eq(ff_evaluator_create(&g, &h.m, p, limit, bucket, &e, &err), FF_OK);
	ck_assert_msg(ff_evaluator_set(e, &s, &last, &err) == FF_OK, "%s", err.text);
	same(last, fresh(&g, &h.m, p, &s, limit, bucket));
	for (int i = 0; i < 12; i++) {
		uint32_t node = ff_random_below(state, g.n_nodes);
		struct ff_config was;

		draw_strategy(state, &g, devices, &a, &other);
		was = s.config[node];
		if (!was.n_parts)
			continue;
		s.config[node] = other.config[node];
		ck_assert_msg(ff_evaluator_propose(e, node, &s.config[node], &v, &err) == FF_OK,
				"%s", err.text);
		same(v, fresh(&g, &h.m, p, &s, limit, bucket));
		*(v.fits ? fits : misfits) += 1;
		if (ff_random_below(state, 2)) {
			ff_evaluator_keep(e);
			last = v;
		} else {
			ff_evaluator_drop(e);
			s.config[node] = was;
		}
		ck_assert(ff_config_equal(&g.nodes[node], &ff_evaluator_strategy(e)->config[node],
				&s.config[node]));
	}
	ff_evaluator_destroy(e);
	ff_pricer_destroy(p);
	ff_arena_finish(&a);
}

START_TEST(proposals_equal_fresh_simulations)
{
	struct ff_random state = {.seed = ff_test_seed(11)};
	uint32_t fits = 0, misfits = 0;

	for (int i = 0; i < 60; i++)
		check_walk(&state, &fits, &misfits);
	ck_assert_uint_gt(fits, 0);
	ck_assert_uint_gt(misfits, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("evaluate");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, proposals_equal_fresh_simulations);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
