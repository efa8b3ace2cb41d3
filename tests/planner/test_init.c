/* Starting strategies.  SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include "ff/zoo.h"
#include "fixture.h"
#include "hand/branches.h"
#include "hand/tables.h"

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

static struct ff_graph zoo(const char *name, uint64_t batch)
{
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build(name, batch, NULL, 0, &arena, &g, &err));
	return g;
}

static struct ff_strategy init(const char *name, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed)
{
	struct ff_error err = {0};
	struct ff_strategy s;
	struct ff_space *space;

	CHECK_OK(ff_space_create(g, m, &space, &err));
	ff_space_allow(space, FF_SPACE_ALL);
	CHECK_OK(ff_init_strategy(name, space, g, m, seed, &arena, &s, &err));
	ff_space_destroy(space);
	CHECK_OK(ff_strategy_check(g, &s, m->n_devices, &err));
	return s;
}

/* Stages with at least an operator. */
static uint32_t stages_used(const struct ff_graph *g, const struct ff_strategy *s)
{
	bool used[64] = {false};
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i) && !used[s->stage[i]]) {
			used[s->stage[i]] = true;
			n++;
		}
	return n;
}

/* Degree of the dim `dim` of node `node`; all others must be 1. */
static uint32_t only_degree(const struct ff_graph *g, const struct ff_strategy *s, const char *node,
		const char *dim)
{
	uint32_t i = ff_graph_find(g, node), ret = 0;
	const struct ff_node *n;

	ck_assert_msg(i != FF_NONE, "%s", node);
	n = &g->nodes[i];
	for (uint32_t d = 0; d < n->n_dims; d++) {
		if (!strcmp(n->dim[d].name, dim))
			ret = s->config[i].degree[d];
		else
			ck_assert_msg(s->config[i].degree[d] == 1, "%s: %s", node, n->dim[d].name);
	}
	for (uint32_t p = 0; p < s->config[i].n_parts; p++)
		ck_assert_uint_eq(ff_config_device(n, &s->config[i], p), p);
	return ret;
}

/* One operator, the words' vectors times the output, takes half of the step. */
START_TEST(test_pipeline_has_all_stages)
{
	static const char *const set[] = {
			"layers=12", "width=64", "heads=4", "sequence=16", "vocabulary=20000"};
	struct ff_machine m = fixture_devices(8, &arena);
	struct ff_error err = {0};
	struct ff_graph g;
	struct ff_strategy s;

	CHECK_OK(ff_zoo_build("gpt2", 32, set, 5, &arena, &g, &err));
	s = init("pipeline-8", &g, &m, 1);
	ck_assert_uint_eq(stages_used(&g, &s), 8);
	s = init("pipeline-4", &g, &m, 1);
	ck_assert_uint_eq(stages_used(&g, &s), 4);
}
END_TEST

START_TEST(test_all_are_legal)
{
	static const char *const names[] = {"data-parallel", "single", "expert", "random"};
	static const char *const nets[] = {"mlp", "lenet", "alexnet", "branchnet"};
	static const uint32_t devices[] = {1, 2, 3, 16, 64};

	for (uint32_t i = 0; i < 4; i++) {
		struct ff_graph g = zoo(nets[i], 6);

		for (uint32_t k = 0; k < 5; k++) {
			struct ff_machine m = fixture_devices(devices[k], &arena);

			for (uint32_t n = 0; n < 4; n++)
				init(names[n], &g, &m, 1);
		}
	}
}
END_TEST

START_TEST(test_expert_alexnet)
{
	struct ff_graph g = zoo("alexnet", 256);
	struct ff_machine m = fixture_devices(16, &arena);
	struct ff_strategy s = init("expert", &g, &m, 0);

	ck_assert_uint_eq(only_degree(&g, &s, "conv1", "sample"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "conv5", "sample"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "pool5", "sample"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "flatten", "sample"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "fc1", "out_feature"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "fc2", "out_feature"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "fc3", "out_feature"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "loss", "class"), 16);
}
END_TEST

/* What follows a layer split by parameter is split alike. */
START_TEST(test_expert_follows)
{
	struct ff_graph g = fixture_mlp(4, 300, 200, 10, &arena);
	struct ff_machine m = fixture_devices(8, &arena);
	struct ff_strategy s = init("expert", &g, &m, 0);
	const struct ff_node *relu = &g.nodes[ff_graph_find(&g, "relu1")];

	ck_assert_uint_eq(only_degree(&g, &s, "fc1", "out_feature"), 8);
	ck_assert_uint_eq(only_degree(&g, &s, "relu1", relu->dim[1].name), 8);
	ck_assert_uint_eq(only_degree(&g, &s, "fc2", "out_feature"), 8);
	ck_assert_uint_eq(only_degree(&g, &s, "loss", "class"), 8);
}
END_TEST

/* Small weights stay by sample. */
START_TEST(test_expert_light_layer)
{
	struct ff_graph g = fixture_mlp(512, 20, 20, 10, &arena);
	struct ff_machine m = fixture_devices(8, &arena);
	struct ff_strategy s = init("expert", &g, &m, 0);

	ck_assert_uint_eq(only_degree(&g, &s, "fc1", "sample"), 8);
	ck_assert_uint_eq(only_degree(&g, &s, "relu1", "sample"), 8);
}
END_TEST

static void check_degrees(const struct ff_graph *g, const struct ff_strategy *s, const char *node,
		const char *dim, uint32_t a, const char *other, uint32_t b)
{
	uint32_t i = ff_graph_find(g, node), found = 0;

	ck_assert_msg(i != FF_NONE, "%s", node);
	ck_assert_uint_eq(s->config[i].n_parts, a * b);
	for (uint32_t d = 0; d < g->nodes[i].n_dims; d++) {
		const char *name = g->nodes[i].dim[d].name;

		if (strcmp(name, dim) != 0 && strcmp(name, other) != 0)
			continue;
		found++;
		ck_assert_msg(s->config[i].degree[d] == (strcmp(name, dim) ? b : a), "%s: %s", node,
				name);
	}
	ck_assert_uint_eq(found, 2);
}

static void check_apart(const struct ff_graph *g, const struct ff_strategy *s, const char *node,
		uint32_t start, uint32_t n)
{
	const struct ff_config *c = &s->config[ff_graph_find(g, node)];

	ck_assert_msg(c->start == start && c->n_parts == n, "%s", node);
}

/* Large tables are cut by column and row, small ones by column and sample, what joins their vectors
 * with them; all else by sample.  Apart they have half of the devices. */
START_TEST(test_tables)
{
	struct ff_machine m = fixture_devices(16, &arena);
	struct ff_graph g = zoo("dlrm", 64), mlp = fixture_mlp(4, 8, 8, 2, &arena);
	struct ff_strategy s = init("tables-8", &g, &m, 0);
	static const char *const one_layer[] = {"layers=1"};
	struct ff_error err = {0};
	struct ff_graph gpt;

	check_degrees(&g, &s, "table2", "feature", 8, "vocabulary", 2);
	check_degrees(&g, &s, "table5", "feature", 8, "sample", 2);
	check_degrees(&g, &s, "vectors", "axis2", 8, "sample", 2);
	ck_assert_uint_eq(only_degree(&g, &s, "products", "sample"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "top0", "sample"), 16);
	s = init("tables-1", &g, &m, 0);
	ck_assert_uint_eq(only_degree(&g, &s, "table2", "vocabulary"), 16);
	ck_assert_uint_eq(only_degree(&g, &s, "table5", "sample"), 16);
	s = init("tables-8,replicas", &g, &m, 0);
	ck_assert_uint_eq(s.config[ff_graph_find(&g, "table2")].replicas, 2);
	ck_assert_uint_eq(s.config[ff_graph_find(&g, "table2")].n_parts, 16);
	check_degrees(&g, &s, "table5", "feature", 8, "sample", 2);
	s = init("tables-8,apart", &g, &m, 0);
	check_apart(&g, &s, "table2", 8, 8);
	check_apart(&g, &s, "vectors", 8, 8);
	check_apart(&g, &s, "bottom0", 0, 8);
	check_apart(&g, &s, "products", 0, 16);
	ck_assert_uint_eq(only_degree(&g, &s, "bottom0", "sample"), 8);
	ck_assert_uint_eq(stages_used(&g, &s), 2);
	s = init("tables-1,apart,devices=2", &g, &m, 0);
	check_apart(&g, &s, "table2", 1, 1);
	check_apart(&g, &s, "bottom0", 0, 1);
	check_apart(&g, &s, "products", 0, 2);
	s = init("tables-4,devices=4,others=2", &g, &m, 0);
	check_apart(&g, &s, "table2", 0, 4);
	check_apart(&g, &s, "vectors", 0, 4);
	check_apart(&g, &s, "bottom0", 4, 2);
	check_apart(&g, &s, "products", 4, 2);
	s = init("tables-8,apart,devices=8,others=4", &g, &m, 0);
	check_apart(&g, &s, "table2", 0, 8);
	check_apart(&g, &s, "bottom0", 8, 4);
	check_apart(&g, &s, "products", 0, 8);
	s = init("tables-8,others=4", &g, &m, 0);
	check_apart(&g, &s, "table2", 0, 16);
	check_apart(&g, &s, "products", 0, 4);
	s = init("tables-8,apart", &g, &m, 0);
	ck_assert_uint_eq(s.stage[ff_graph_find(&g, "table2")], 0);
	ck_assert_uint_eq(s.stage[ff_graph_find(&g, "vectors")], 1);
	ck_assert(ff_tables_matter(&g));
	ck_assert(!ff_tables_matter(&mlp));
	CHECK_OK(ff_zoo_build("gpt2", 4, one_layer, 1, &arena, &gpt, &err));
	ck_assert(!ff_tables_matter(&gpt)); /* a product has the same weights */
}
END_TEST

static void refuse_tables(
		const char *net, const char *name, const char *why, const struct ff_machine *m)
{
	struct ff_graph g = zoo(net, 96);
	struct ff_error err = {0};
	struct ff_space *space;
	struct ff_strategy s;

	CHECK_OK(ff_space_create(&g, m, &space, &err));
	ck_assert_int_eq(ff_init_strategy(name, space, &g, m, 0, &arena, &s, &err), FF_E_INPUT);
	ck_assert_msg(strstr(err.text, why), "%s", err.text);
	ff_space_destroy(space);
}

START_TEST(test_tables_that_are_none)
{
	static const struct {
		const char *net, *name, *why;
	} cases[] = {{"dlrm", "tables-32", "divisor of the 48 devices"},
			{"dlrm", "tables-48", "at most the 16 columns"},
			{"dlrm", "tables-2,copies", "unknown starting strategy"},
			{"dlrm", "tables-2,devices=64", "there are 48 devices"},
			{"dlrm", "tables-2,devices=0", "unknown starting strategy"},
			{"dlrm", "tables-2,others=64", "there are 48 devices"},
			{"dlrm", "tables-2,others=4,devices=8", "unknown starting strategy"},
			{"dlrm", "tables-16,apart", "divisor of the 24 devices"},
			{"dlrm", "tables-2,apart,replicas", "unknown starting strategy"},
			{"lenet", "tables-2", "looks up no tables"}};
	struct ff_machine m = fixture_devices(48, &arena);

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse_tables(cases[i].net, cases[i].name, cases[i].why, &m);
	m = fixture_devices(3, &arena);
	refuse_tables("dlrm", "tables-1,apart", "even number of devices", &m);
	m = fixture_devices(48, &arena);
	for (uint32_t n = 1; n <= 16; n++) {
		struct ff_graph g = zoo("dlrm", 96);

		if (48 % n == 0) {
			char name[16];

			snprintf(name, sizeof(name), "tables-%u", n);
			init(name, &g, &m, 0);
		}
	}
}
END_TEST

START_TEST(test_single)
{
	struct ff_graph g = zoo("lenet", 64);
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_strategy s = init("single", &g, &m, 0);

	for (uint32_t i = 0; i < g.n_nodes; i++) {
		if (!ff_node_needs_config(&g, i))
			continue;
		ck_assert_uint_eq(s.config[i].n_parts, 1);
		ck_assert_uint_eq(ff_config_device(&g.nodes[i], &s.config[i], 0), 0);
	}
}
END_TEST

START_TEST(test_random_by_seed)
{
	struct ff_graph g = zoo("alexnet", 256);
	struct ff_machine m = fixture_devices(16, &arena);
	struct ff_strategy a = init("random", &g, &m, 5), b = init("random", &g, &m, 5);
	struct ff_strategy c = init("random", &g, &m, 6);
	uint32_t differ = 0, computed = 0;

	for (uint32_t i = 0; i < g.n_nodes; i++) {
		if (!ff_node_needs_config(&g, i))
			continue;
		computed++;
		ck_assert(ff_config_equal(&g.nodes[i], &a.config[i], &b.config[i]));
		differ += !ff_config_equal(&g.nodes[i], &a.config[i], &c.config[i]);
	}
	ck_assert_uint_gt(differ, computed / 2);
}
END_TEST

START_TEST(test_unknown_name)
{
	struct ff_graph g = fixture_mlp(4, 8, 8, 2, &arena);
	struct ff_machine m = fixture_devices(2, &arena);
	struct ff_strategy s = {.n_nodes = 77};
	struct ff_error err = {0};
	struct ff_space *space;

	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	ck_assert_int_eq(
			ff_init_strategy("expret", space, &g, &m, 0, &arena, &s, &err), FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(err.text, "expret"));
	ck_assert_uint_eq(s.n_nodes, 77);
	ff_space_destroy(space);
}
END_TEST

static struct ff_strategy start_branches(const struct ff_graph *g, const struct ff_machine *m,
		uint32_t devices, uint32_t groups, double *us)
{
	struct ff_error err = {0};
	struct ff_pricer *p;
	struct ff_strategy s;

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &p, &err));
	CHECK_OK(ff_start_branches(
			g, m, p, &(struct ff_branches){0, devices, groups}, &arena, &s, us, &err));
	ff_pricer_destroy(p);
	CHECK_OK(ff_strategy_check(g, &s, m->n_devices, &err));
	return s;
}

/* Two layers that wait for nothing but the data are in two groups of devices, all else with one of
 * them; all are done the sooner. */
START_TEST(test_branches)
{
	struct ff_graph g = fixture_branch(64, 4096, 4096, &arena);
	struct ff_machine m = fixture_devices(8, &arena);
	double row_us, side_us;
	struct ff_strategy s;
	uint32_t with[2] = {0};

	start_branches(&g, &m, 4, 1, &row_us);
	s = start_branches(&g, &m, 8, 2, &side_us);
	ck_assert(side_us < row_us);
	for (uint32_t i = 0; i < g.n_nodes; i++) {
		if (!ff_node_needs_config(&g, i))
			continue;
		ck_assert_uint_eq(s.config[i].n_parts, 4);
		ck_assert_uint_lt(s.config[i].start, 2);
		for (uint32_t d = 0; d < g.nodes[i].n_dims; d++)
			ck_assert(s.config[i].degree[d] == 1 || s.config[i].stride[d] == 2);
		with[s.config[i].start]++;
	}
	ck_assert_uint_eq(with[0] < with[1] ? with[0] : with[1], 1);
}
END_TEST

/* Whatever the network, the devices and the groups. */
START_TEST(test_branches_are_legal)
{
	static const char *const names[] = {"branchnet", "rnn", "lenet", "mobilenet_v2"};

	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t groups = 1; groups <= 4; groups++) {
			struct ff_graph g = zoo(names[i], 6);
			struct ff_machine m = fixture_devices(12, &arena);
			double us;

			start_branches(&g, &m, 12, groups, &us);
			ck_assert(us > 0);
		}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("init");
	TCase *c = tcase_create("init");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 0);
	tcase_add_test(c, test_pipeline_has_all_stages);
	tcase_add_test(c, test_all_are_legal);
	tcase_add_test(c, test_expert_alexnet);
	tcase_add_test(c, test_expert_follows);
	tcase_add_test(c, test_expert_light_layer);
	tcase_add_test(c, test_tables);
	tcase_add_test(c, test_tables_that_are_none);
	tcase_add_test(c, test_branches);
	tcase_add_test(c, test_branches_are_legal);
	tcase_add_test(c, test_single);
	tcase_add_test(c, test_random_by_seed);
	tcase_add_test(c, test_unknown_name);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
