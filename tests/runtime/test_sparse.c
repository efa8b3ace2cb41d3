/* Sparse gradients of tables: the same bits as dense ones, under random strategies, and updates of
 * the rows that were looked up alone.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "chosen.h"
#include "ff/builder.h"
#include "scene.h"

#define CASES 120
#define BUCKET 4096 /* bytes: tables share buckets, with others and with layers */

static uint32_t of_rows, of_all;

static int counting_update(
		struct ff_stream *s, const struct ff_update *u, uint32_t n, struct ff_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		of_rows += u[i].rows != NULL;
		of_all += !u[i].rows;
		ck_assert(!u[i].rows ||
				ff_optimizer_skips(u[i].optimizer, (double[FF_SETTING_COUNT]){0}));
	}
	return chosen_backend()->math.update(s, u, n, err);
}

/* Some ids a sample, now and then more of all than the table has rows. */
static uint32_t add_table(struct ff_builder *b, struct ff_arena *a, struct ff_random *r,
		uint32_t number, int32_t batch)
{
	int32_t rows = 3 + (int32_t)ff_random_below(r, 60), n = 1 + (int32_t)ff_random_below(r, 3);
	int32_t classes = 1 + (int32_t)ff_random_below(r, (uint32_t)rows);
	union ff_attrs ids = {.input = {2, {batch, n}, FF_I32, classes}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs table = {.embedding = {rows, 1 + (int32_t)ff_random_below(r, 40), 1}};
	uint32_t x = ff_builder_add(
			b, FF_OP_INPUT, ff_arena_printf(a, "ids%u", number), &ids, NULL, 0);

	x = ff_builder_add(
			b, FF_OP_EMBEDDING, ff_arena_printf(a, "table%u", number), &table, &x, 1);
	return ff_builder_add(b, FF_OP_RESHAPE, ff_arena_printf(a, "flat%u", number), &flat, &x, 1);
}

static void make_graph(
		struct ff_random *r, enum ff_dtype type, struct ff_arena *a, struct ff_graph *ret)
{
	int32_t batch = 4 + 2 * (int32_t)ff_random_below(r, 4);
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), join = ff_attrs_preset(FF_OP_CONCAT);
	union ff_attrs labels = {.input = {1, {batch}, FF_I32, 3}};
	uint32_t in[4], n = 1 + ff_random_below(r, 4);
	struct ff_builder *b;
	struct ff_error err;

	RIG_OK(ff_builder_create("tables", a, &b, &err));
	ff_builder_set_dtype(b, type);
	for (uint32_t i = 0; i < n; i++)
		in[i] = add_table(b, a, r, i, batch);
	fc.linear.out_features = 3;
	if (n > 1)
		in[0] = ff_builder_add(b, FF_OP_CONCAT, "join", &join, in, n);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "labels", &labels, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

static void open_scene(struct scene *s, uint32_t number, struct ff_random *r)
{
	enum ff_dtype type = number % 3 ? FF_F32 : chosen_rounded();
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	make_graph(r, type, &s->arena, &s->graph);
	RIG_OK(random_machine(r, 1 + ff_random_below(r, 4), &s->arena, &s->machine, &err));
	if (number % 2)
		RIG_OK(random_strategy(r, &s->graph, s->machine.n_devices, &s->arena, &s->strategy,
				&s->micro, &err));
	else
		RIG_OK(ff_strategy_single(&s->graph, 0, &s->arena, &s->strategy, &err));
	RIG_OK(ff_dataset_open("synthetic:30", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	s->opt.clip = number % 5 ? 0 : 0.1;
	scene_optimizer(s, number % 4 ? FF_OPTIMIZER_SGD
				      : (enum ff_optimizer_id)(number % FF_OPTIMIZER_COUNT));
}

/* The same graph, whose gradients are dense. */
static struct ff_graph dense_of(struct scene *s)
{
	struct ff_graph g = s->graph;

	g.nodes = ff_arena_copy(&s->arena, g.nodes, g.n_nodes, sizeof(*g.nodes));
	ck_assert_ptr_nonnull(g.nodes);
	for (uint32_t i = 0; i < g.n_nodes; i++)
		g.nodes[i].sparse_rows = 0;
	return g;
}

static void check_same(const struct scene *s, const struct result *a, const struct result *b)
{
	size_t bytes = (size_t)ff_graph_parameters(&s->graph) * sizeof(float);

	ck_assert_mem_eq(a->loss, b->loss, sizeof(a->loss));
	for (int i = 0; i < SCENE_STEPS; i++)
		ck_assert_mem_eq(a->gradients[i], b->gradients[i], bytes);
	ck_assert_mem_eq(a->weights, b->weights, bytes);
}

/* Losses, gradients and weights of both, and which updates were of rows. */
START_TEST(as_dense)
{
	uint64_t seed = ff_test_seed(131);
	struct ff_backend b = *rig_backend(false);
	uint32_t sparse = 0, both = 0;

	b.math.update = counting_update;
	for (uint32_t i = 0; i < ff_test_rounds(CASES); i++) {
		struct ff_random r = {seed, i, 0};
		struct result rows, whole;
		struct scene s;

		open_scene(&s, i, &r);
		of_rows = of_all = 0;
		scene_run(&s, &s.machine, &s.strategy, &b, NULL, BUCKET, &rows);
		sparse += of_rows > 0;
		both += of_rows && of_all;
		s.graph = dense_of(&s);
		of_rows = 0;
		scene_run(&s, &s.machine, &s.strategy, &b, NULL, BUCKET, &whole);
		ck_assert_uint_eq(of_rows, 0);
		check_same(&s, &rows, &whole);
		scene_close(&s);
	}
	printf("# seed %llu: %u of %u cases had updates of rows, %u others, too\n",
			(unsigned long long)seed, sparse, ff_test_rounds(CASES), both);
	ck_assert_uint_gt(both, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("sparse");
	TCase *t = tcase_create("sparse");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, as_dense);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
