/* Limits of a space, plans carried over, and shapes.  SPDX-License-Identifier: Apache-2.0 */
#include "../../planner/space/limits.h"

#include <stdlib.h>
#include <unistd.h>

#include "../../planner/hand/resume.h"
#include "../../planner/space/pins.h"
#include "../../planner/space/shapes.h"
#include "../check_main.h"
#include "ff/micro.h"
#include "ff/strategy_file.h"
#include "ff/zoo.h"
#include "fixture.h"

#define GIB ((int64_t)1 << 30)

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

static struct ff_graph gpt(uint64_t batch, const char *layers)
{
	const char *const sets[] = {layers, "width=64", "heads=4", "sequence=16", "vocabulary=101"};
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", batch, sets, 5, &arena, &g, &err));
	return g;
}

static struct ff_machine machine(uint32_t nodes, uint32_t per_node)
{
	return fixture_machine(&(struct fixture_machine){nodes, per_node, true, 16 * GIB, 4e4, 1e4},
			&arena);
}

static struct ff_space *open_space(const struct ff_graph *g, const struct ff_machine *m,
		struct ff_limits l, const char *const *pins, uint32_t n)
{
	struct ff_error err = {0};
	struct ff_space *s;

	CHECK_OK(ff_space_create(g, m, &s, &err));
	ff_space_allow(s, FF_SPACE_ALL);
	if (n)
		CHECK_OK(ff_pins_parse(pins, n, g, m, &arena, &l.pin, &err));
	CHECK_OK(ff_space_limit(s, &l, &err));
	return s;
}

static uint32_t degree(const struct ff_node *n, const struct ff_config *c, const char *dim)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (!strcmp(n->dim[d].name, dim))
			return c->degree[d];
	return 0;
}

START_TEST(test_draws_are_as_pinned)
{
	static const char *const pins[] = {"fc1:out_feature=4", "fc2:out_feature=2@5,1"};
	struct ff_graph g = fixture_mlp(64, 32, 64, 32, &arena);
	struct ff_machine m = machine(2, 4);
	struct ff_space *s = open_space(&g, &m, (struct ff_limits){0}, pins, 2);
	uint32_t fc1 = ff_graph_find(&g, "fc1"), fc2 = ff_graph_find(&g, "fc2"), samples = 0;
	struct ff_random r = {.seed = 1};
	struct ff_config c;

	ck_assert_uint_gt(ff_space_count(s, fc1), 1);
	for (uint64_t i = 0; i < ff_space_count(s, fc1); i++) {
		ff_space_config(s, fc1, i, &c);
		ck_assert_uint_eq(degree(&g.nodes[fc1], &c, "out_feature"), 4);
		samples += degree(&g.nodes[fc1], &c, "sample") == 2;
	}
	ck_assert_uint_gt(samples, 0);
	for (int i = 0; i < 500; i++) {
		ff_space_draw(s, fc1, &r, &c);
		ck_assert_uint_eq(degree(&g.nodes[fc1], &c, "out_feature"), 4);
		ck_assert(ff_space_admits(s, fc1, &c));
	}
	ck_assert_uint_eq(ff_space_count(s, fc2), 1);
	ff_space_draw(s, fc2, &r, &c);
	ck_assert_uint_eq(c.n_parts, 2);
	ck_assert_uint_eq(ff_config_device(&g.nodes[fc2], &c, 0), 5);
	ck_assert_uint_eq(ff_config_device(&g.nodes[fc2], &c, 1), 1);
	ff_space_destroy(s);
}
END_TEST

/* ---- what searches look at ---- */

/* All that is visited keeps to the limits, as counted here. */
struct visits {
	const struct ff_graph *g;
	const struct ff_machine *m;
	uint32_t most_micro, n, heads, crossed, staged, cut;
};

static bool crosses(const struct visits *v, const struct ff_node *n, const struct ff_config *c)
{
	for (uint32_t p = 0; p < c->n_parts; p++)
		for (uint32_t q = 0; q < p; q++) {
			uint32_t a[FF_MAX_DIMS], b[FF_MAX_DIMS];
			bool alike = p / ff_config_cells(c) == q / ff_config_cells(c);

			ff_config_coords(n, c, p, a);
			ff_config_coords(n, c, q, b);
			for (uint32_t d = 0; d < n->n_dims; d++)
				alike = alike && (n->dim[d].label != FF_DIM_SAMPLE || a[d] == b[d]);
			if (alike && v->m->node_of[ff_config_device(n, c, p)] !=
							v->m->node_of[ff_config_device(n, c, q)])
				return true;
		}
	return false;
}

static void count_visit(void *ctx, const struct ff_strategy *s, struct ff_evaluation e)
{
	struct visits *v = ctx;

	(void)e;
	v->n++;
	if (s->micro_batches > v->most_micro)
		v->most_micro = s->micro_batches;
	for (uint32_t i = 0; i < v->g->n_nodes; i++) {
		const struct ff_node *n = &v->g->nodes[i];
		const struct ff_config *c = &s->config[i];

		if (!ff_node_needs_config(v->g, i))
			continue;
		v->staged += s->stage[i] > 0;
		v->crossed += crosses(v, n, c);
		v->heads += strstr(n->name, "attention.heads") && degree(n, c, "head") != 2;
		v->cut += degree(n, c, "out_feature") > 1;
	}
}

static struct visits visit(const struct ff_graph *g, const struct ff_machine *m, struct ff_limits l,
		const char *const *pins, uint32_t n_pins)
{
	struct visits v = {.g = g, .m = m};
	struct ff_search_options opt = {
			.proposals = 1500, .seeds = 1, .visit = count_visit, .visit_ctx = &v};
	struct ff_space *s = open_space(g, m, l, pins, n_pins);
	struct ff_search_result found;
	struct ff_evaluator *evaluator;
	struct ff_pricer *pricer;
	struct ff_error err = {0};

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &pricer, &err));
	CHECK_OK(ff_evaluator_create(g, m, pricer, 0, 0, &evaluator, &err));
	opt.pricer = pricer;
	CHECK_OK(ff_search_mcmc(s, evaluator, g, m, &opt, &arena, &found, &err));
	ck_assert(ff_space_admits_strategy(s, &found.best));
	ff_evaluator_destroy(evaluator);
	ff_space_destroy(s);
	ff_pricer_destroy(pricer);
	ck_assert_uint_ge(v.n, 1500);
	ck_assert_uint_gt(v.cut, 0);
	return v;
}

START_TEST(test_searches_keep_to_limits)
{
	static const char *const pins[] = {"*.attention.heads:head=2"};
	struct ff_graph g = gpt(32, "layers=2");
	struct ff_machine m = machine(2, 4);
	struct visits v = visit(&g, &m, (struct ff_limits){0}, NULL, 0);

	ck_assert(v.staged && v.crossed && v.heads && v.most_micro > 2);
	v = visit(&g, &m, (struct ff_limits){.no_pipeline = true}, NULL, 0);
	ck_assert(!v.staged && v.crossed && v.heads);
	v = visit(&g, &m, (struct ff_limits){.tensor_inside_node = true}, NULL, 0);
	ck_assert(v.staged && !v.crossed && v.heads && v.most_micro > 2);
	v = visit(&g, &m, (struct ff_limits){.max_micro = 2}, NULL, 0);
	ck_assert(v.crossed && v.heads && v.most_micro <= 2);
	v = visit(&g, &m, (struct ff_limits){0}, pins, 1);
	ck_assert(v.staged && v.crossed && !v.heads);
	v = visit(&g, &m,
			(struct ff_limits){.no_pipeline = true,
					.tensor_inside_node = true,
					.max_micro = 1},
			pins, 1);
	ck_assert(!v.staged && !v.crossed && !v.heads && v.most_micro == 1);
}
END_TEST

/* ---- plans carried over ---- */

static struct ff_strategy hand(
		const char *name, const struct ff_graph *g, const struct ff_machine *m)
{
	struct ff_error err = {0};
	struct ff_space *s;
	struct ff_strategy ret;

	CHECK_OK(ff_space_create(g, m, &s, &err));
	ff_space_allow(s, FF_SPACE_ALL);
	CHECK_OK(ff_init_strategy(name, s, g, m, 0, &arena, &ret, &err));
	ff_space_destroy(s);
	return ret;
}

/* Writes `name` for g on m, and reads it for `to` on `on`. */
static struct ff_strategy carry(const char *name, const struct ff_graph *g,
		const struct ff_machine *m, const struct ff_graph *to, const struct ff_machine *on,
		struct ff_resumed *told)
{
	struct ff_strategy_info info = {.machine = "test", .devices = m->n_devices};
	struct ff_strategy s = hand(name, g, m), ret;
	char path[] = "carried-XXXXXX";
	struct ff_error err = {0};
	int fd = mkstemp(path);
	struct ff_space *space = open_space(to, on, (struct ff_limits){0}, NULL, 0);
	struct ff_out o;

	ck_assert_int_ge(fd, 0);
	close(fd);
	ff_out_init(&o);
	ff_strategy_write(g, &s, &info, &o);
	CHECK_OK(ff_out_save(&o, path, &err));
	ff_out_finish(&o);
	CHECK_OK(ff_resume_load(path, space, to, false, &arena, &ret, told, &err));
	unlink(path);
	ff_space_destroy(space);
	return ret;
}

static void check_equal(
		const struct ff_graph *g, const struct ff_strategy *a, const struct ff_strategy *b)
{
	ck_assert_uint_eq(a->micro_batches, b->micro_batches);
	ck_assert_int_eq(a->rule, b->rule);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		ck_assert_msg(ff_config_equal(&g->nodes[i], &a->config[i], &b->config[i]), "%s",
				g->nodes[i].name);
		ck_assert_uint_eq(a->stage[i], b->stage[i]);
		ck_assert(a->recompute[i] == b->recompute[i]);
	}
}

START_TEST(test_plans_are_carried_over)
{
	static const struct {
		uint32_t nodes;
		const char *there;
	} to[] = {{2, "megatron:2,2,2,2,zero-1,recompute"},
			{4, "megatron:2,4,2,2,zero-1,recompute"},
			{8, "megatron:2,8,2,2,zero-1,recompute"},
			{1, "megatron:2,1,2,2,zero-1,recompute"}};
	struct ff_graph g = gpt(64, "layers=4"), half = gpt(32, "layers=4");
	struct ff_machine m = machine(2, 4);

	for (uint32_t i = 0; i < 4; i++) {
		struct ff_machine on = machine(to[i].nodes, 4);
		struct ff_resumed told;
		struct ff_strategy want = hand(to[i].there, &g, &on),
				   got = carry(to[0].there, &g, &m, &g, &on, &told);
		char text[200];

		check_equal(&g, &got, &want);
		ff_resumed_tell(&told, sizeof(text), text);
		ck_assert_str_eq(text, "");
		got = carry(to[0].there, &g, &m, &half, &on, &told);
		check_equal(&half, &got, &want);
		ck_assert_uint_eq(told.unfit + told.unnamed + told.unknown, 0);
	}
}
END_TEST

/* Of another network what has the same names; of a small batch fewer micro-batches. */
START_TEST(test_what_is_not_carried_over)
{
	struct ff_graph g = gpt(64, "layers=4"), deep = gpt(64, "layers=6"),
			small = gpt(8, "layers=4");
	struct ff_machine m = machine(2, 4), odd = machine(1, 6);
	struct ff_resumed told;
	struct ff_strategy s = carry("megatron:2,4,1,8", &g, &m, &deep, &m, &told);
	uint32_t node = ff_graph_find(&deep, "block5.mlp.up");
	char text[200];

	ck_assert_uint_eq(told.unfit + told.unknown, 0);
	ck_assert_uint_gt(told.unnamed, 10);
	ck_assert_uint_gt(told.kept, 30);
	ck_assert_uint_eq(degree(&deep.nodes[node], &s.config[node], "sample"), 8);
	s = carry("megatron:2,4,1,8", &deep, &m, &g, &m, &told);
	ck_assert_uint_gt(told.unknown, 10);
	s = carry("megatron:2,4,1,8", &g, &m, &small, &m, &told);
	ck_assert_uint_eq(s.micro_batches, 2); /* of 4 samples, one for each share */
	ck_assert_uint_eq(told.unfit, 0);
	ff_resumed_tell(&told, sizeof(text), text);
	ck_assert_str_eq(text, "; 8 micro-batches are 2");
	carry("megatron:2,2,2,2", &g, &m, &g, &odd, &told);
	ck_assert_uint_gt(told.unfit, 10); /* the second stage was on devices 4 to 7 */
	ff_resumed_tell(&told, sizeof(text), text);
	ck_assert_ptr_nonnull(strstr(text, "do not fit here"));
}
END_TEST

/* ---- shapes ---- */

START_TEST(test_shapes)
{
	struct ff_graph g = gpt(64, "layers=4");
	struct ff_machine m = machine(2, 4);
	struct ff_strategy a = hand("data-parallel", &g, &m), b = hand("megatron:2,4,1,1", &g, &m),
			   c = hand("megatron:2,2,2,2", &g, &m), d = hand("zero-1", &g, &m);
	struct ff_strategy other = hand("data-parallel", &g, &m);
	uint32_t norm = ff_graph_find(&g, "block1.norm1");
	struct ff_error err = {0};
	struct ff_shapes s;

	other.config[norm] = b.config[norm]; /* next to no arithmetic */
	CHECK_OK(ff_shapes_init(&s, &g, 3, &arena, &err));
	ff_shapes_add(&s, &a, 5);
	ff_shapes_add(&s, &b, 4);
	ff_shapes_add(&s, &other, 6);
	ck_assert_uint_eq(s.n, 2);
	ff_shapes_add(&s, &other, 3); /* a's shape, and better */
	ck_assert_uint_eq(s.n, 2);
	ck_assert(s.step_us[0] == 3 && s.step_us[1] == 4);
	check_equal(&g, &s.plan[0], &other);
	check_equal(&g, &s.plan[1], &b);
	ff_shapes_add(&s, &c, 7);
	ff_shapes_add(&s, &d, 8); /* there is no more room */
	ck_assert(s.n == 3 && s.step_us[2] == 7);
	ff_shapes_add(&s, &d, 3.5);
	ck_assert(s.n == 3 && s.step_us[1] == 3.5 && s.step_us[2] == 4);
	check_equal(&g, &s.plan[1], &d);
	check_equal(&g, &s.plan[2], &b);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("limits");
	TCase *t = tcase_create("limits");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_draws_are_as_pinned);
	tcase_add_test(t, test_searches_keep_to_limits);
	tcase_add_test(t, test_plans_are_carried_over);
	tcase_add_test(t, test_what_is_not_carried_over);
	tcase_add_test(t, test_shapes);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
