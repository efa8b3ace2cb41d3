/* MCMC against brute force, its limits and its seed.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <unistd.h>

#include "../check_main.h"

#include "exhaustive.h"
#include "ff/simulate.h"
#include "ff/zoo.h"
#include "fixture.h"

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* Everything one search needs. */
struct rig {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
};

static struct rig rig_open(const struct ff_graph *g, const struct ff_machine *m, int64_t memory)
{
	struct ff_error err = {0};
	struct rig r = {g, m, NULL, NULL, NULL};

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &r.pricer, &err));
	CHECK_OK(ff_space_create(g, m, &r.space, &err));
	CHECK_OK(ff_evaluator_create(g, m, r.pricer, memory, 0, &r.evaluator, &err));
	return r;
}

static void rig_close(struct rig *r)
{
	ff_evaluator_destroy(r->evaluator);
	ff_space_destroy(r->space);
	ff_pricer_destroy(r->pricer);
}

static int rig_mcmc(struct rig *r, const struct ff_search_options *opt,
		struct ff_search_result *ret, struct ff_error *err)
{
	return ff_search_mcmc(r->space, r->evaluator, r->g, r->m, opt, &arena, ret, err);
}

static int rig_exhaustive(
		struct rig *r, uint64_t limit, struct ff_search_result *ret, struct ff_error *err)
{
	struct ff_strategy like;
	struct choices c;
	int code = ff_strategy_create(r->g, &arena, &like, err);

	if (code == FF_OK)
		code = choices_of_space(r->space, r->g, &arena, &c, err);
	if (code == FF_OK)
		code = search_exhaustive(&c, &like, r->evaluator, r->g, limit, &arena, ret, err);
	return code;
}

/* Step time of `s`, lowered and simulated afresh; its schedule in `*lowered`. */
static double fresh_us(struct rig *r, const struct ff_strategy *s, struct ff_schedule *lowered)
{
	struct ff_lower_options opt = {.workspace = ff_price_workspace, .ctx = r->pricer};
	struct ff_simulation sim;
	struct ff_error err = {0};

	CHECK_OK(ff_strategy_check(r->g, s, r->m->n_devices, &err));
	CHECK_OK(ff_lower(r->g, r->m, s, &opt, &arena, lowered, &err));
	CHECK_OK(ff_simulate(lowered, r->pricer, &arena, &sim, &err));
	return sim.step_us;
}

static bool strategies_equal(
		const struct ff_graph *g, const struct ff_strategy *a, const struct ff_strategy *b)
{
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (!ff_config_equal(&g->nodes[i], &a->config[i], &b->config[i]))
			return false;
	return true;
}

static void check_optimum(const struct ff_graph *g, const struct fixture_machine *f, int64_t memory)
{
	struct ff_machine m = fixture_machine(f, &arena);
	struct rig r = rig_open(g, &m, memory);
	struct ff_search_result best, found;
	uint64_t seeds = ff_test_rounds(5);
	struct ff_schedule lowered;
	struct ff_error err = {0};

	CHECK_OK(rig_exhaustive(&r, 200000, &best, &err));
	ck_assert(best.evaluation.fits);
	ck_assert_double_eq(fresh_us(&r, &best.best, &lowered), best.evaluation.step_us);
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct ff_search_options opt = {.seed = seed, .proposals = 20000};

		CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
		ck_assert_uint_eq(found.proposals, 20000);
		ck_assert_double_eq(fresh_us(&r, &found.best, &lowered), found.evaluation.step_us);
		ck_assert_msg(found.evaluation.step_us == best.evaluation.step_us,
				"%s on %u devices, seed %d: MCMC %.17g us, optimum %.17g us",
				g->name, m.n_devices, (int)seed, found.evaluation.step_us,
				best.evaluation.step_us);
	}
	rig_close(&r);
}

#define GIB ((int64_t)1 << 30)

/* Slow links, fast links, no overlap, two nodes. */
static const struct fixture_machine machines2[] = {
		{1, 2, true, 16 * GIB, 1e2, 1e2},
		{1, 2, true, 16 * GIB, 1e5, 1e5},
		{1, 2, false, 16 * GIB, 1e4, 1e4},
};
static const struct fixture_machine machines3[] = {
		{1, 3, true, 16 * GIB, 1e4, 1e4},
		{1, 3, false, 16 * GIB, 1e5, 1e5},
};
static const struct fixture_machine machines4[] = {
		{1, 4, true, 16 * GIB, 1e5, 1e5},
		{2, 2, true, 16 * GIB, 1e5, 1e3},
};

START_TEST(test_optimum_two_devices)
{
	struct ff_graph g[] = {
			fixture_mlp(64, 1024, 2048, 1000, &arena),
			fixture_branch(64, 2048, 1024, &arena),
			fixture_mlp(4096, 256, 128, 16, &arena),
	};

	for (uint32_t k = 0; k < 3; k++)
		for (uint32_t i = 0; i < 3; i++)
			check_optimum(&g[k], &machines2[i], 0);
}
END_TEST

START_TEST(test_optimum_three_devices)
{
	struct ff_graph g[] = {
			fixture_mlp(96, 1024, 2048, 999, &arena),
			fixture_branch(100, 2048, 1024, &arena),
	};

	for (uint32_t k = 0; k < 2; k++)
		check_optimum(&g[k], &machines3[k], 0);
}
END_TEST

START_TEST(test_optimum_four_devices)
{
	struct ff_graph linear = fixture_two_linear(128, 4096, 2048, 1024, &arena);
	struct ff_graph conv = fixture_conv_net(32, 64, 32, 64, &arena);

	check_optimum(&linear, &machines4[0], 0);
	check_optimum(&linear, &machines4[1], 0);
	check_optimum(&conv, &machines4[0], 0);
}
END_TEST

/* With a limit that data parallelism breaks, the optimum that fits is found. */
START_TEST(test_optimum_within_memory)
{
	struct ff_graph g = fixture_mlp(64, 1024, 2048, 1000, &arena);
	struct ff_machine m = fixture_machine(&machines2[1], &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct ff_schedule lowered;
	struct ff_strategy s;
	struct ff_error err = {0};
	int64_t limit;

	CHECK_OK(ff_strategy_data_parallel(&g, 2, &arena, &s, &err));
	fresh_us(&r, &s, &lowered);
	limit = lowered.memory_bytes[0] - 1;
	rig_close(&r);
	check_optimum(&g, &machines2[1], limit);
}
END_TEST

START_TEST(test_memory_limit_is_kept)
{
	struct ff_graph g = fixture_mlp(64, 2048, 2048, 2048, &arena);
	struct ff_machine m = fixture_machine(&machines4[0], &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct ff_search_options opt = {.seed = 2, .proposals = 3000};
	struct ff_search_result found;
	struct ff_schedule lowered;
	struct ff_strategy s;
	struct ff_error err = {0};
	int64_t limit;

	CHECK_OK(ff_strategy_data_parallel(&g, 4, &arena, &s, &err));
	fresh_us(&r, &s, &lowered);
	limit = lowered.memory_bytes[0] / 2;
	rig_close(&r);
	r = rig_open(&g, &m, limit);
	CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
	ck_assert(found.evaluation.fits);
	fresh_us(&r, &found.best, &lowered);
	for (uint32_t i = 0; i < m.n_devices; i++)
		ck_assert_int_le(lowered.memory_bytes[i], limit);
	rig_close(&r);
}
END_TEST

START_TEST(test_nothing_fits)
{
	struct ff_graph g = fixture_two_linear(16, 64, 64, 64, &arena);
	struct ff_machine m = fixture_machine(&machines2[0], &arena);
	struct rig r = rig_open(&g, &m, 1024);
	struct ff_search_options opt = {.seed = 1, .proposals = 500};
	struct ff_search_result found = {.proposals = 77};
	struct ff_error err = {0};

	ck_assert_int_eq(rig_mcmc(&r, &opt, &found, &err), FF_E_NOFIT);
	ck_assert_ptr_nonnull(strstr(err.text, "memory"));
	ck_assert_uint_eq(found.proposals, 500); /* what comes closest */
	ck_assert(!found.evaluation.fits && found.evaluation.over_bytes > 0);
	found.proposals = 77;
	ck_assert_int_eq(rig_exhaustive(&r, 100000, &found, &err), FF_E_NOFIT);
	ck_assert_uint_eq(found.proposals, 77);
	rig_close(&r);
}
END_TEST

static int64_t most(const int64_t *bytes, uint32_t n)
{
	int64_t max = 0;

	for (uint32_t i = 0; i < n; i++)
		max = bytes[i] > max ? bytes[i] : max;
	return max;
}

/* What lives at once fits, but no layout of it: the search goes on without a best, and
 * says so if it finds none. */
START_TEST(test_what_fits_is_not_laid_out)
{
	const char *const nets[] = {"branchnet", "inception_v3", "resnet50", "alexnet"};
	const char *const starts[] = {"data-parallel", NULL}, *const set[] = {"norm=none"};
	uint32_t gaps = 0;

	for (uint32_t k = 0; k < 4; k++) {
		struct fixture_machine f = {1, 2 + k / 2 * 6, true, 16 * GIB, 1e3, 1e3};
		struct ff_machine m = fixture_machine(&f, &arena);
		struct ff_error err = {0};
		struct ff_schedule plan;
		struct ff_strategy s;
		struct ff_graph g;
		int64_t live;

		CHECK_OK(ff_zoo_build(nets[k], 64, set, k == 1 || k == 2, &arena, &g, &err));
		CHECK_OK(ff_strategy_data_parallel(&g, m.n_devices, &arena, &s, &err));
		CHECK_OK(ff_lower(&g, &m, &s, NULL, &arena, &plan, &err));
		live = most(plan.live_bytes, m.n_devices);
		printf("# %s: %lld bytes live, laid out in %lld\n", g.name, (long long)live,
				(long long)most(plan.memory_bytes, m.n_devices));
		if (most(plan.memory_bytes, m.n_devices) <= live)
			continue;
		gaps++;
		for (uint64_t seed = 0; seed < 8; seed++) {
			struct ff_search_options opt = {.seed = seed,
					.proposals = 48,
					.beta = 1e9,
					.starts = starts};
			struct ff_search_result found;
			struct rig r = rig_open(&g, &m, live);
			int code = rig_mcmc(&r, &opt, &found, &err);

			ck_assert_msg(code == FF_OK || code == FF_E_NOFIT, "%s", err.text);
			if (code == FF_OK) {
				fresh_us(&r, &found.best, &plan);
				ck_assert_int_le(most(plan.memory_bytes, m.n_devices), live);
			}
			rig_close(&r);
		}
	}
	ck_assert_uint_gt(gaps, 0);
}
END_TEST

START_TEST(test_repeats_by_seed)
{
	struct ff_graph g;
	struct ff_machine m = fixture_machine(&machines4[1], &arena);
	struct ff_search_options opt = {.seed = 9, .proposals = 1500};
	struct ff_search_result a, b, other;
	struct ff_error err = {0};
	struct rig r;

	CHECK_OK(ff_zoo_build("lenet", 64, NULL, 0, &arena, &g, &err));
	r = rig_open(&g, &m, 0);
	CHECK_OK(rig_mcmc(&r, &opt, &a, &err));
	CHECK_OK(rig_mcmc(&r, &opt, &b, &err));
	ck_assert_double_eq(a.evaluation.step_us, b.evaluation.step_us);
	ck_assert_uint_eq(a.accepted, b.accepted);
	ck_assert(strategies_equal(&g, &a.best, &b.best));
	opt.seed = 10;
	CHECK_OK(rig_mcmc(&r, &opt, &other, &err));
	ck_assert(a.accepted != other.accepted || !strategies_equal(&g, &a.best, &other.best));
	rig_close(&r);
}
END_TEST

START_TEST(test_no_worse_than_any_start)
{
	static const char *const names[] = {"data-parallel", "single", "expert", "random"};
	struct ff_machine m = fixture_machine(&machines4[1], &arena);
	struct ff_search_options opt = {.seed = 3, .proposals = 500};
	struct ff_search_result found;
	struct ff_error err = {0};
	struct ff_graph g;
	struct rig r;

	CHECK_OK(ff_zoo_build("lenet", 64, NULL, 0, &arena, &g, &err));
	r = rig_open(&g, &m, 0);
	CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
	for (uint32_t i = 0; i < 4; i++) {
		struct ff_evaluation e;
		struct ff_strategy s;

		CHECK_OK(ff_init_strategy(names[i], r.space, &g, &m, 3, &arena, &s, &err));
		CHECK_OK(ff_evaluator_set(r.evaluator, &s, &e, &err));
		ck_assert_double_le(found.evaluation.step_us, e.step_us);
	}
	rig_close(&r);
}
END_TEST

/* A search goes on from a plan of any number of micro-batches, also of one that it does not search:
 * by thirds, or at all where the space has none. */
START_TEST(test_given_micro_batches)
{
	static const char *const starts[] = {"data-parallel", NULL};
	struct ff_graph g = fixture_mlp(24, 8, 64, 8, &arena);
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_error err = {0};

	for (uint32_t k = 0; k < 2 * 24; k++) {
		struct rig r = rig_open(&g, &m, 0);
		struct ff_strategy given[2];
		struct ff_search_options opt = {.seed = k,
				.proposals = 300,
				.given = given,
				.n_given = 2,
				.starts = starts};
		struct ff_search_result found;
		struct ff_evaluation at[2], again;

		if (k & 1)
			ff_space_allow(r.space, FF_SPACE_UPDATES | FF_SPACE_RECOMPUTE);
		for (uint32_t i = 0; i < 2; i++) {
			CHECK_OK(ff_strategy_single(&g, i, &arena, &given[i], &err));
			given[i].micro_batches = i ? 24 / (1 + k / 2 % 4) : 1 + k / 2;
			while (24 % given[i].micro_batches)
				given[i].micro_batches--;
			CHECK_OK(ff_evaluator_set(r.evaluator, &given[i], &at[i], &err));
		}
		CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
		ck_assert_double_le(found.evaluation.step_us, fmin(at[0].step_us, at[1].step_us));
		CHECK_OK(ff_evaluator_set(r.evaluator, &found.best, &again, &err));
		ck_assert_double_eq(again.step_us, found.evaluation.step_us);
		rig_close(&r);
	}
}
END_TEST

struct watcher {
	uint32_t calls;
	uint64_t last;
	double best_us;
	uint64_t stop_after;
};

static bool watch(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	struct watcher *w = ctx;

	ck_assert_uint_ge(proposals, w->last);
	ck_assert_double_le(best_us, w->best_us);
	ck_assert_double_ge(seconds, 0);
	w->calls++;
	w->last = proposals;
	w->best_us = best_us;
	return proposals >= w->stop_after;
}

/* Ctrl-C keeps the best so far; without a budget only that ends a search. */
START_TEST(test_progress_stops)
{
	struct ff_graph g = fixture_mlp(64, 256, 128, 64, &arena);
	struct ff_machine m = fixture_machine(&machines4[0], &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct watcher w = {.best_us = INFINITY, .stop_after = 1000};
	struct ff_search_options opt = {.seed = 3, .progress = watch, .ctx = &w};
	struct ff_search_result found;
	struct ff_error err = {0};

	CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
	ck_assert_uint_eq(found.proposals, w.last);
	ck_assert_uint_ge(found.proposals, 1000);
	ck_assert_uint_le(found.proposals, 1300);
	ck_assert_uint_ge(w.calls, 4);
	ck_assert_double_le(found.evaluation.step_us, w.best_us);
	rig_close(&r);
}
END_TEST

#define SLOW_US 60000 /* more than lies between two calls of progress() */

/* A search whose evaluations are slow, as on large graphs. */
struct slow {
	uint32_t visits, since_asked, most_since;
	uint32_t stop_after; /* visits */
};

static void visit_slowly(void *ctx, const struct ff_strategy *s, struct ff_evaluation e)
{
	struct slow *w = ctx;

	(void)s;
	(void)e;
	usleep(SLOW_US);
	w->visits++;
	w->since_asked++;
	if (w->since_asked > w->most_since)
		w->most_since = w->since_asked;
}

static bool ask_slowly(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	struct slow *w = ctx;

	(void)proposals;
	(void)seconds;
	(void)best_us;
	w->since_asked = 0;
	return w->visits >= w->stop_after;
}

/* Ctrl-C and the end of the budget are noticed after the evaluation during which
 * they come, however long one takes. */
START_TEST(test_slow_evaluations)
{
	struct ff_graph g = fixture_mlp(64, 256, 128, 64, &arena);
	struct ff_machine m = fixture_machine(&machines4[0], &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct slow w = {.stop_after = 12};
	struct ff_search_options opt = {
			.seed = 3,
			.progress = ask_slowly,
			.ctx = &w,
			.visit = visit_slowly,
			.visit_ctx = &w,
	};
	struct ff_search_result found;
	struct ff_error err = {0};

	CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
	ck_assert_uint_eq(w.visits, 12);
	ck_assert_uint_eq(w.most_since, 1);
	w = (struct slow){.stop_after = UINT32_MAX};
	opt.seconds = 0.5; /* no more than nine visits end before that */
	CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
	ck_assert_uint_le(w.visits, 9);
	rig_close(&r);
}
END_TEST

START_TEST(test_budget_in_seconds)
{
	struct ff_graph g = fixture_mlp(64, 256, 128, 64, &arena);
	struct ff_machine m = fixture_machine(&machines4[0], &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct ff_search_options opt = {.seed = 3, .seconds = 0.2};
	struct ff_search_result found = {0};
	struct ff_error err = {0};

	/* longer where the machine had other work all the time */
	for (int i = 0; i < 5 && !found.proposals; i++, opt.seconds *= 3) {
		CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
		ck_assert_double_ge(found.seconds, opt.seconds);
	}
	ck_assert_uint_gt(found.proposals, 0);
	opt.seconds = 0;
	ck_assert_int_eq(rig_mcmc(&r, &opt, &found, &err), FF_E_INPUT);
	rig_close(&r);
}
END_TEST

/* One device leaves nothing to search. */
START_TEST(test_one_device)
{
	struct ff_graph g = fixture_mlp(64, 256, 128, 64, &arena);
	struct ff_machine m = fixture_devices(1, &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct ff_search_options opt = {.seed = 3, .proposals = 100};
	struct ff_search_result found;
	struct ff_error err = {0};

	CHECK_OK(rig_mcmc(&r, &opt, &found, &err));
	ck_assert_uint_eq(found.proposals, 0);
	ck_assert_double_gt(found.evaluation.step_us, 0);
	rig_close(&r);
}
END_TEST

START_TEST(test_exhaustive_limit)
{
	struct ff_graph g = fixture_mlp(64, 256, 128, 64, &arena);
	struct ff_machine m = fixture_devices(2, &arena);
	struct rig r = rig_open(&g, &m, 0);
	struct ff_search_result found;
	struct ff_error err = {0};
	uint64_t n = 1;

	for (uint32_t i = 0; i < g.n_nodes; i++)
		n *= ff_space_count(r.space, i);
	CHECK_OK(rig_exhaustive(&r, n, &found, &err));
	ck_assert_uint_eq(found.proposals, n);
	ck_assert_int_eq(rig_exhaustive(&r, n - 1, &found, &err), FF_E_INPUT);
	rig_close(&r);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("mcmc");
	TCase *c = tcase_create("mcmc");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_optimum_two_devices);
	tcase_add_test(c, test_optimum_three_devices);
	tcase_add_test(c, test_optimum_four_devices);
	tcase_add_test(c, test_optimum_within_memory);
	tcase_add_test(c, test_memory_limit_is_kept);
	tcase_add_test(c, test_nothing_fits);
	tcase_add_test(c, test_what_fits_is_not_laid_out);
	tcase_add_test(c, test_repeats_by_seed);
	tcase_add_test(c, test_no_worse_than_any_start);
	tcase_add_test(c, test_given_micro_batches);
	tcase_add_test(c, test_progress_stops);
	tcase_add_test(c, test_slow_evaluations);
	tcase_add_test(c, test_budget_in_seconds);
	tcase_add_test(c, test_one_device);
	tcase_add_test(c, test_exhaustive_limit);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
