/* Short searches whose seeds come to the same.  SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include <math.h>
#include <stdlib.h>

#include "ff/bucketing.h"
#include "ff/zoo.h"
#include "fixture.h"

#define SEEDS 3

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* The steps of some seeds from `starts` (NULL: all) on; *least and *most of them. */
static void search_from(const char *const *starts, const char *net, uint64_t batch,
		const struct ff_machine *m, enum ff_optimizer_id optimizer, uint64_t proposals,
		double *least, double *most)
{
	struct ff_search_result found;
	struct ff_error err = {0};
	struct ff_pricer *pricer;
	struct ff_evaluator *e;
	struct ff_space *space;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build(net, batch, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_pricer_create(&g, m, FF_ESTIMATE_MODEL, NULL, NULL, net, &pricer, &err));
	CHECK_OK(ff_pricer_set_optimizer(pricer, ff_optimizer(optimizer), &err));
	CHECK_OK(ff_space_create(&g, m, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
	*least = INFINITY;
	*most = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct ff_search_options opt = {.seed = seed,
				.proposals = proposals,
				.pricer = pricer,
				.starts = starts,
				.bucket_bytes = ff_bucket_bytes(&g, m)};

		CHECK_OK(ff_evaluator_create(&g, m, pricer, 0, opt.bucket_bytes, &e, &err));
		CHECK_OK(ff_search_mcmc(space, e, &g, m, &opt, &arena, &found, &err));
		*least = fmin(*least, found.evaluation.step_us);
		*most = fmax(*most, found.evaluation.step_us);
		ff_evaluator_destroy(e);
	}
	ff_space_destroy(space);
	ff_pricer_destroy(pricer);
}

static void search(const char *net, uint64_t batch, const struct ff_machine *m,
		enum ff_optimizer_id optimizer, uint64_t proposals, double *least, double *most)
{
	search_from(NULL, net, batch, m, optimizer, proposals, least, most);
}

/* Over a slow network fully connected layers are on one node, convolutions on all. */
START_TEST(test_heavy_layers)
{
	static const struct fixture_machine slow = {2, 3, true, (int64_t)1 << 36, 50e3, 2.5e3};
	struct ff_machine m = fixture_machine(&slow, &arena);
	double least, most;

	search("alexnet", 500, &m, FF_OPTIMIZER_MOMENTUM, 30000, &least, &most);
	ck_assert_double_lt(most, 1.02 * least);
}
END_TEST

static struct ff_machine machine_called(const char *name)
{
	struct ff_error err = {0};
	struct ff_machine m;

	CHECK_OK(ff_machine_load(name, &arena, &m, &err));
	return m;
}

/* A small batch: branches side by side on halves of the devices, what comes before them on all. */
START_TEST(test_trunk_and_branches)
{
	struct ff_machine m = machine_called("dgx-h100");
	double least, most;

	search("googlenet", 48, &m, FF_OPTIMIZER_MOMENTUM, 2000, &least, &most);
	ck_assert_double_lt(most, 1.02 * least);
}
END_TEST

/* Tables need the memory of two nodes, and are cut over them; layers, which have few parameters,
 * are on one: their sums over the network take longer than a small batch. */
START_TEST(test_tables_and_layers)
{
	struct ff_machine m = machine_called("dgx1-v100:4");
	double least, most;

	search("dlrm_terabyte", 96, &m, FF_OPTIMIZER_SGD, 1000, &least, &most);
	ck_assert_double_lt(most, 1.02 * least);
	ck_assert_double_lt(most, 710);
}
END_TEST

/* Of a pipeline with a stage a node, first its cuts and micro-batches come right, which no change
 * of one operator brings about. */
START_TEST(test_stages_on_nodes)
{
	static const char *const starts[] = {"pipeline-3", NULL};
	struct ff_machine m = machine_called("dgx1-v100:3");
	double least, most;

	search_from(starts, "nmt", 32, &m, FF_OPTIMIZER_SGD, 500, &least, &most);
	ck_assert_double_lt(most, 1.05 * least);
	ck_assert_double_lt(most, 12000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("seeds");
	TCase *c = tcase_create("seeds");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_heavy_layers);
	tcase_add_test(c, test_trunk_and_branches);
	tcase_add_test(c, test_tables_and_layers);
	tcase_add_test(c, test_stages_on_nodes);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
