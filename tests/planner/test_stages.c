/* Stages of a pipeline: blocks in a row, balanced over devices that may be of several kinds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "../check_main.h"

#include <math.h>
#include <string.h>

#include "../../planner/hand/megatron.h"
#include "../../planner/hand/stage_cuts.h"
#include "../../planner/propose/phases.h"
#include "../../planner/propose/stage_moves.h"
#include "../../planner/space/repeats.h"
#include "ff/micro.h"
#include "ff/philox.h"
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

/* The least largest sum of `stages` runs of costs from `first` on, by trying all; slow[0] is of the
 * first of them. */
static double least(
		const double *cost, const double *slow, uint32_t first, uint32_t n, uint32_t stages)
{
	double best = INFINITY, sum = 0;

	if (stages == 1) {
		for (uint32_t i = first; i < n; i++)
			sum += cost[i] * slow[0];
		return sum;
	}
	for (uint32_t i = first; i + stages - 1 < n; i++) {
		sum += cost[i] * slow[0];
		best = fmin(best, fmax(sum, least(cost, slow + 1, i + 1, n, stages - 1)));
	}
	return best;
}

START_TEST(test_balance)
{
	static const double even[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	struct ff_random r = {.seed = 9, .stream = ff_philox_stream(0, 'b')};
	struct ff_error err = {0};
	uint32_t count[4] = {0};
	uint16_t stage[10];

	for (uint32_t i = 0; i < 300; i++) {
		uint32_t n = 1 + ff_random_below(&r, 10), stages = 1 + ff_random_below(&r, n);
		double cost[10], slow[10], sum[10] = {0}, most = 0;

		for (uint32_t k = 0; k < n; k++) {
			cost[k] = ff_random_unit(&r);
			slow[k] = i % 2 ? 1 + 9 * ff_random_unit(&r) : 1;
		}
		CHECK_OK(ff_stages_balance(
				cost, n, i % 2 ? slow : NULL, stages, &arena, stage, &err));
		ck_assert_uint_eq(stage[0], 0);
		ck_assert_uint_eq(stage[n - 1], stages - 1);
		for (uint32_t k = 0; k < n; k++) {
			ck_assert(!k || stage[k] == stage[k - 1] || stage[k] == stage[k - 1] + 1);
			sum[stage[k]] += cost[k] * slow[stage[k]];
			most = fmax(most, sum[stage[k]]);
		}
		ck_assert_double_le(most, least(cost, slow, 0, n, stages) * (1 + 1e-6));
	}
	CHECK_OK(ff_stages_balance(even, 10, NULL, 4, &arena, stage, &err));
	for (uint32_t i = 0; i < 10; i++)
		count[stage[i]]++;
	for (uint32_t i = 0; i < 4; i++)
		ck_assert(count[i] == 2 || count[i] == 3);
}
END_TEST

/* Two nodes, of which the second takes three times as long. */
static struct ff_machine two_kinds(void)
{
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){2, 2, true, (int64_t)1 << 34, 1e4, 1e4}, &arena);
	struct ff_device_kind *kinds = ff_arena_array(&arena, 2, sizeof(*kinds));

	ck_assert(kinds);
	kinds[0] = kinds[1] = m.kinds[0];
	kinds[1].name = "slow";
	kinds[1].flops_per_s /= 3;
	kinds[1].memory_bytes_per_s /= 3;
	m.kinds = kinds;
	m.n_kinds = 2;
	m.nodes[1].kind = 1;
	return m;
}

/* Stages of slow devices have fewer blocks, whichever way stages go through devices. */
START_TEST(test_slow_stages)
{
	static const char *const sets[] = {
			"layers=16", "width=256", "heads=8", "sequence=64", "vocabulary=101"};
	static const char *const names[] = {"megatron:1,2,2,4", "megatron:1,2,2,4,interleave=2",
			"megatron:1,2,2,4,zb-v"};
	struct ff_machine m = two_kinds();
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 16, sets, 5, &arena, &g, &err));
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t blocks[2] = {0};
		struct ff_megatron h;
		struct ff_strategy s;

		CHECK_OK(ff_megatron_parse(names[i], &h, &err));
		CHECK_OK(ff_start_megatron(&h, &g, &m, &arena, &s, &err));
		for (uint32_t k = 0; k < g.n_nodes; k++)
			if (strstr(g.nodes[k].name, ".norm1") && ff_node_needs_config(&g, k))
				blocks[s.config[k].start / 2]++;
		ck_assert_uint_eq(blocks[0] + blocks[1], 16);
		ck_assert_msg(blocks[1] == 4, "%s: %u blocks on slow devices", names[i], blocks[1]);
	}
}
END_TEST

/* No stage has less than a tenth of what there is to compute. */
static void check_shares(const struct ff_graph *g, const struct ff_machine *m,
		const struct ff_strategy *s, uint32_t stages)
{
	double share[4] = {0}, all = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i)) {
			share[s->stage[i]] += ff_node_roofline_s(g, m, i);
			all += ff_node_roofline_s(g, m, i);
		}
	for (uint32_t i = 0; i < stages; i++)
		ck_assert_msg(share[i] > 0.1 * all, "stage %u of %u has %g", i, stages,
				share[i] / all);
}

/* A decoder reads all that an encoder made, so that both are one segment: stages are cut within. */
START_TEST(test_stages_within_segments)
{
	static const char *const sets[] = {"vocabulary=8000"};
	struct ff_machine m = fixture_machine(
			&(struct fixture_machine){3, 1, true, (int64_t)1 << 34, 1e4, 1e4}, &arena);
	struct ff_error err = {0};
	struct ff_space *space;
	struct ff_megatron h;
	struct ff_strategy s;
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("nmt", 60, sets, 1, &arena, &g, &err));
	CHECK_OK(ff_megatron_parse("megatron:1,1,3,2", &h, &err));
	CHECK_OK(ff_start_megatron(&h, &g, &m, &arena, &s, &err));
	check_shares(&g, &m, &s, 3);
	CHECK_OK(ff_space_create(&g, &m, &space, &err));
	CHECK_OK(ff_start_pipeline(space, &g, &m, 3, &arena, &s, &err));
	check_shares(&g, &m, &s, 3);
	ff_space_destroy(space);
}
END_TEST

/* What comes before the tables' vectors are joined is most of the work, though not of the
 * operators: stages are cut within. */
START_TEST(test_stages_by_work)
{
	double share[3] = {0}, all = 0;
	struct ff_error err = {0};
	struct ff_machine m;
	struct ff_graph g, micro;
	struct ff_megatron h;
	struct ff_strategy s;

	CHECK_OK(ff_machine_load("dgx-a100-80:3", &arena, &m, &err));
	CHECK_OK(ff_zoo_build("dlrm_terabyte", 24576, NULL, 0, &arena, &g, &err));
	CHECK_OK(ff_graph_micro(&g, 8, &arena, &micro, &err));
	CHECK_OK(ff_megatron_parse("megatron:1,8,3,8", &h, &err));
	CHECK_OK(ff_start_megatron(&h, &g, &m, &arena, &s, &err));
	for (uint32_t i = 0; i < g.n_nodes; i++)
		if (ff_node_needs_config(&g, i)) {
			share[s.stage[i]] += ff_node_roofline_s(&micro, &m, i);
			all += ff_node_roofline_s(&micro, &m, i);
		}
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_msg(share[i] < 0.6 * all, "stage %u has %g", i, share[i] / all);
}
END_TEST

/* ---- cuts that are moved ---- */

/* A pipeline on the 6 devices of three nodes. */
struct pipe {
	struct ff_machine m;
	struct ff_graph g;
	struct ff_space *space;
	struct ff_strategy s;
	uint32_t order[256], n;
};

static void open_pipe(struct pipe *p, const char *net)
{
	static const struct fixture_machine nodes = {3, 2, true, (int64_t)1 << 36, 50e3, 2.5e3};
	struct ff_error err = {0};

	p->m = fixture_machine(&nodes, &arena);
	p->n = 0;
	CHECK_OK(ff_zoo_build(net, 500, NULL, 0, &arena, &p->g, &err));
	CHECK_OK(ff_space_create(&p->g, &p->m, &p->space, &err));
	ff_space_allow(p->space, FF_SPACE_ALL);
	CHECK_OK(ff_start_pipeline(p->space, &p->g, &p->m, 3, &arena, &p->s, &err));
	for (uint32_t i = 0; i < p->g.n_nodes; i++)
		if (ff_node_needs_config(&p->g, i))
			p->order[p->n++] = i;
	ck_assert_uint_lt(p->n, 256);
}

/* Whether there is a way from `a` to `b` within a stage of `s`. */
static bool leads(const struct pipe *p, const struct ff_strategy *s, uint32_t a, uint32_t b)
{
	const struct ff_node *n = &p->g.nodes[b];

	if (a == b)
		return true;
	for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
		uint32_t from = ff_node_leader(&p->g, ff_edge_source(&p->g, k));

		if (from >= a && from < b && ff_node_needs_config(&p->g, from) &&
				s->stage[from] == s->stage[b] && leads(p, s, a, from))
			return true;
	}
	return false;
}

static uint32_t first_device(const struct pipe *p, const struct ff_strategy *s, uint32_t node)
{
	return ff_config_device(&p->g.nodes[node], &s->config[node], 0);
}

/* `node` has gone to another stage, and who has to go along; all others have stayed. */
static void check_moved(
		const struct pipe *p, uint32_t node, bool later, const struct ff_strategy *s)
{
	uint32_t to = later ? p->s.stage[node] + 1u : p->s.stage[node] - 1u;
	struct ff_error err = {0};
	struct ff_graph micro;

	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t at = p->order[i];
		bool along = p->s.stage[at] == p->s.stage[node] &&
			     (later ? leads(p, &p->s, node, at) : leads(p, &p->s, at, node));

		ck_assert_uint_eq(s->stage[at], along ? to : p->s.stage[at]);
		ck_assert_uint_eq(first_device(p, s, at) / 2, s->stage[at]);
		ck_assert_uint_eq(s->config[at].n_parts, p->s.config[at].n_parts);
	}
	CHECK_OK(ff_graph_micro(&p->g, s->micro_batches, &arena, &micro, &err));
	CHECK_OK(ff_strategy_check(&micro, s, p->m.n_devices, &err));
}

/* Every operator goes to the stage before and to the next one, with those alone that stages could
 * not ascend without. */
START_TEST(test_cuts_are_moved)
{
	static const char *const nets[] = {"nmt", "branchnet", "mlp"};

	for (uint32_t k = 0; k < sizeof(nets) / sizeof(*nets); k++) {
		struct ff_error err = {0};
		struct ff_strategy s;
		struct pipe p;

		open_pipe(&p, nets[k]);
		CHECK_OK(ff_strategy_create(&p.g, &arena, &s, &err));
		for (uint32_t i = 0; i < 2 * p.n; i++) {
			uint32_t node = p.order[i / 2], stage = p.s.stage[node];
			bool there = i % 2 ? stage < 2 : stage > 0;

			ff_strategy_copy(&s, &p.s);
			ck_assert(ff_move_cut(&p.g, p.order, p.n, node, i % 2, &s) == there);
			if (there)
				check_moved(&p, node, i % 2, &s);
		}
		ff_space_destroy(p.space);
	}
}
END_TEST

/* A parameter that has devices of its own goes where its operator goes. */
START_TEST(test_cuts_take_parameters)
{
	struct ff_error err = {0};
	struct ff_strategy s;
	struct pipe p;
	uint32_t node, parameter;

	open_pipe(&p, "mlp");
	node = p.order[p.n - 1];
	while (p.g.nodes[node].n_in == p.g.nodes[node].n_data)
		node--;
	parameter = ff_edge_source(&p.g, p.g.nodes[node].in + p.g.nodes[node].n_data);
	ck_assert_uint_eq(p.s.stage[node], 2);
	p.s.config[parameter] = (struct ff_config){.n_parts = 1, .replicas = 1, .start = 5};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		p.s.config[parameter].degree[d] = 1;
	CHECK_OK(ff_strategy_create(&p.g, &arena, &s, &err));
	ff_strategy_copy(&s, &p.s);
	ck_assert(ff_move_cut(&p.g, p.order, p.n, node, false, &s));
	ck_assert_uint_eq(s.config[parameter].start, 3);
	ff_space_destroy(p.space);
}
END_TEST

/* All changes of a sweep are legal, and are some; none is left out. */
START_TEST(test_changes_of_phases)
{
	struct ff_error err = {0};
	uint32_t counts = 0, rules = 0, cuts = 0;
	struct ff_phases phases;
	struct ff_strategy s;
	struct pipe p;

	open_pipe(&p, "nmt");
	CHECK_OK(ff_strategy_create(&p.g, &arena, &s, &err));
	CHECK_OK(ff_phases_init(&phases, p.space, &p.g, &p.m, 0, 0, &arena, &err));
	for (uint32_t i = 0; i < ff_phases_changes(&phases); i++) {
		bool count, rule;

		if (!ff_phases_change(&phases, &p.s, i, &s))
			continue;
		count = s.micro_batches != p.s.micro_batches;
		rule = s.rule != p.s.rule || memcmp(s.ticks, p.s.ticks, sizeof(s.ticks)) != 0;
		counts += count;
		rules += rule;
		cuts += memcmp(s.stage, p.s.stage, p.g.n_nodes * sizeof(*s.stage)) != 0;
		ck_assert_uint_eq(count + rule, i < 6);
	}
	ck_assert_uint_eq(counts, 2);
	ck_assert_uint_eq(rules, 3);
	ck_assert_uint_ge(cuts, 4);
	ff_phases_finish(&phases);
	ff_space_destroy(p.space);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("stages");
	TCase *c = tcase_create("stages");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, test_balance);
	tcase_add_test(c, test_slow_stages);
	tcase_add_test(c, test_stages_within_segments);
	tcase_add_test(c, test_stages_by_work);
	tcase_add_test(c, test_cuts_are_moved);
	tcase_add_test(c, test_cuts_take_parameters);
	tcase_add_test(c, test_changes_of_phases);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
