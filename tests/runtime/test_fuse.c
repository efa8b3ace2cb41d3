/* Kernels that do the work of two tasks: against the two, alone and in whole steps, and where
 * the executor takes them.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/block.h"
#include "pairs.h"

#define SHAPES 60
#define SCENES 80

/* ---- kernels ---- */

/* The kernel for both, which keeps what lies between, or not. */
static void compare_fused(struct pairs_bench *t, const struct ff_work *w,
		const struct ff_work *next, bool keeps, struct ff_kernel_io *io, void *const *two,
		int64_t *cut)
{
	int64_t n = ff_region_volume(&w->out[0]);
	size_t bytes = (size_t)(n * ff_dtype_bytes(t->type));
	const struct ff_work *works[] = {w, next};
	struct ff_kernel *k = NULL;
	struct ff_error err;

	RIG_OK(t->b->kernel.fuse(t->dev, works, 2, keeps ? FF_FUSE_KEEPS : 0, &k, &err));
	if (!k)
		return;
	io->out[0] = chosen_put(t->dev, t->stream, NULL, bytes);
	io->out[1] = keeps ? chosen_put(t->dev, t->stream, NULL, bytes) : NULL;
	pairs_run(t, k, io);
	*cut += pairs_compare(t, t->type, two[1], io->out[0], n);
	if (keeps)
		pairs_compare(t, t->type, two[0], io->out[1], n);
	t->b->memory.free(t->dev, io->out[0]);
	t->b->memory.free(t->dev, io->out[1]);
}

/* Both kernels, then the ones for both. */
static void compare_kernels(struct pairs_bench *t, const struct ff_work *w,
		const struct ff_work *next, int64_t *cut)
{
	size_t bytes = (size_t)(ff_region_volume(&w->out[0]) * ff_dtype_bytes(t->type));
	void *two[] = {chosen_put(t->dev, t->stream, NULL, bytes),
			chosen_put(t->dev, t->stream, NULL, bytes)};
	struct ff_kernel_io io = {.out = {two[0]}}, second = {.in = {two[0]}, .out = {two[1]}};
	struct ff_kernel *k = NULL;
	struct ff_error err;

	for (uint32_t i = 0; i < w->node->n_in; i++)
		io.in[i] = pairs_put(t, &w->in[i], 1);
	RIG_OK(t->b->kernel.open(t->dev, w, &k, &err));
	pairs_run(t, k, &io);
	RIG_OK(t->b->kernel.open(t->dev, next, &k, &err));
	pairs_run(t, k, &second);
	compare_fused(t, w, next, false, &io, two, cut);
	compare_fused(t, w, next, true, &io, two, cut);
	for (uint32_t i = 0; i < w->node->n_in; i++)
		t->b->memory.free(t->dev, (void *)io.in[i]);
	t->b->memory.free(t->dev, two[0]);
	t->b->memory.free(t->dev, two[1]);
}

/* Of kernels for both, without and with what lies between, how many there are of each. */
static const struct {
	const char *name;
	enum pairs_follower f;
	uint32_t kernels; /* of two a pair */
	bool in_training; /* where backward reads what lies between */
} followers[] = {
		{"relu", PAIRS_RELU, 1, true},
		{"gelu by tanh", PAIRS_GELU, 2, true},
		{"gelu by tanh, odd", PAIRS_ODD_GELU, 1, false},
		{"gelu", PAIRS_ERF_GELU, 0, false},
};

START_TEST(kernels)
{
	uint64_t seed = ff_test_seed(70);
	struct ff_backend b = pairs_backend(true);
	struct pairs_bench t;
	int64_t cut = 0;
	struct ff_error err;

	pairs_offered[FF_FORWARD] = pairs_fused[FF_FORWARD] = 0;
	pairs_bench_open(&t, &b);
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct ff_strategy single;
		struct ff_arena a;
		struct ff_graph g;
		struct ff_region box;
		struct ff_work *w = calloc(2, sizeof(*w));
		uint32_t node[2];

		ck_assert_ptr_nonnull(w);
		ff_arena_init(&a);
		t.r = (struct ff_random){seed, i, 0};
		t.type = i % 2 ? FF_BF16 : FF_F32;
		pairs_graph(&t.r, t.type, 1 + (int32_t)ff_random_below(&t.r, 9), 1, followers[_i].f,
				&a, &g);
		node[0] = ff_graph_find(&g, "layer0");
		node[1] = ff_graph_find(&g, "next0");
		RIG_OK(ff_strategy_single(&g, 0, &a, &single, &err));
		for (int k = 0; k < 2; k++) {
			ff_config_box(&g.nodes[node[k]], &single.config[node[k]], 0, &box);
			ff_work_fill(&g, node[k], &box, FF_FORWARD, &w[k]);
		}
		compare_kernels(&t, &w[0], &w[1], &cut);
		free(w);
		ff_arena_finish(&a);
	}
	pairs_bench_close(&t);
	printf("# %s: %u of %u are fused, %d numbers cut off\n", followers[_i].name,
			pairs_fused[FF_FORWARD], pairs_offered[FF_FORWARD], (int)cut);
	ck_assert_uint_eq(pairs_offered[FF_FORWARD], 2 * SHAPES);
	if (pairs_has_all()) {
		ck_assert_uint_eq(pairs_fused[FF_FORWARD], followers[_i].kernels * SHAPES);
		if (followers[_i].f == PAIRS_RELU)
			ck_assert_int_gt(cut, SHAPES);
	}
}
END_TEST

/* ---- executors ---- */

START_TEST(drawn_strategies)
{
	uint64_t seed = ff_test_seed(71);

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;

		scene_open(&s, FF_F32, 6, &r);
		pairs_compare_steps(&s);
		scene_close(&s);
	}
}
END_TEST

START_TEST(drawn_layers)
{
	uint64_t seed = ff_test_seed(73);
	uint32_t all = 0, most = 0;

	for (uint32_t i = 0; i < ff_test_rounds(SCENES / 2); i++) {
		struct ff_random r = {seed, i + 1000 * (uint64_t)_i, 0};
		uint32_t layers = 1 + ff_random_below(&r, 3), devices = 1 + ff_random_below(&r, 3);
		uint32_t micro_batches = 1 + ff_random_below(&r, 2), here;
		bool recomputed = ff_random_below(&r, 2);
		struct scene s;

		pairs_scene(&s, &r, followers[_i].f, layers, devices, micro_batches, recomputed);
		pairs_compare_steps(&s);
		here = pairs_fused[FF_FORWARD];
		printf("# case %u: %u devices, %u micro-batches%s%s: %u of %u\n", i, devices,
				micro_batches, recomputed ? ", recomputed" : "",
				s.machine.overlap ? ", overlap" : "", here,
				layers * devices * micro_batches);
		if (pairs_has_all() && !recomputed)
			ck_assert_uint_eq(here, followers[_i].in_training
								? layers * devices * micro_batches
								: 0);
		if (pairs_has_all() && !recomputed) /* and so it is predicted */
			ck_assert_uint_eq(here, pairs_predicted(&s.graph, FF_FORWARD) * devices *
								micro_batches);
		all += here;
		most += layers * devices * micro_batches;
		scene_close(&s);
	}
	printf("# %s: %u fused of %u, and what is recomputed\n", followers[_i].name, all, most);
	if (pairs_has_all() && followers[_i].in_training)
		ck_assert_uint_ge(2 * all, most);
	if (!followers[_i].kernels)
		ck_assert_uint_eq(all, 0);
}
END_TEST

static int64_t (*honest_workspace)(const struct ff_kernel *k);

static int64_t greedy_workspace(const struct ff_kernel *k)
{
	return pairs_fused[FF_FORWARD] + pairs_fused[FF_BACKWARD] ? INT64_MAX : honest_workspace(k);
}

/* Not fused where FF_FUSE says no, or where the kernel for both needs more scratch than there is.
 */
START_TEST(not_fused)
{
	struct ff_backend with = pairs_backend(true), without = pairs_backend(false), greedy = with;

	honest_workspace = with.kernel.workspace;
	greedy.kernel.workspace = greedy_workspace;
	for (uint32_t i = 0; i < 6; i++) {
		struct ff_random r = {ff_test_seed(72), i, 0};
		uint32_t plain;
		struct scene s;

		pairs_scene(&s, &r, i % 2 ? PAIRS_GELU : PAIRS_RELU, 2, 1 + i % 3, 1, false);
		plain = pairs_step_runs(&s, &without);
		memset(pairs_fused, 0, sizeof(pairs_fused));
		ck_assert_uint_eq(pairs_step_runs(&s, &greedy), plain);
		if (pairs_has_all())
			ck_assert_uint_gt(pairs_fused[FF_FORWARD], 0);
		ck_assert_int_eq(setenv("FF_FUSE", "0", 1), 0);
		ck_assert_uint_eq(pairs_step_runs(&s, &with), plain);
		ck_assert_int_eq(unsetenv("FF_FUSE"), 0);
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fuse");
	TCase *t = tcase_create("fuse");

	tcase_set_timeout(t, 0);
	tcase_add_loop_test(t, kernels, 0, sizeof(followers) / sizeof(followers[0]));
	tcase_add_test(t, drawn_strategies);
	tcase_add_loop_test(t, drawn_layers, 0, sizeof(followers) / sizeof(followers[0]));
	tcase_add_test(t, not_fused);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
