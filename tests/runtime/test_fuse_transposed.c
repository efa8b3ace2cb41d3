/* Kernels of a linear layer that transpose what they write, and read such a gradient: against the
 * two, alone and in whole steps.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/block.h"
#include "ff/builder.h"
#include "ff/micro.h"
#include "pairs.h"

#define SHAPES 40
#define SCENES 30
#define ROOM 64 /* bytes that a gradient is further on than what it lies over in part */

/* ---- graphs ---- */

/* A layer of words and a loss over them; `even`: places are such that rows of them are a multiple
 * of 16 bytes, in any type and any half. */
static void make_graph(struct ff_random *r, enum ff_dtype type, int32_t batch, bool even,
		struct ff_arena *a, struct ff_graph *ret)
{
	int32_t places = even ? 16 * (1 + (int32_t)ff_random_below(r, 3)) : 9;
	int32_t words = 9 + (int32_t)ff_random_below(r, 40);
	int32_t wide = 1 + (int32_t)ff_random_below(r, 20);
	union ff_attrs x = {.input = {.rank = 3, .shape = {batch, places, wide}}};
	union ff_attrs y = {.input = {.rank = 2,
					    .shape = {batch, places},
					    .dtype = FF_I32,
					    .classes = words}};
	union ff_attrs turned = {.transpose = {3, {0, 2, 1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	RIG_OK(ff_builder_create("words", a, &b, &err));
	ff_builder_set_dtype(b, type);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	fc.linear.out_features = 8;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "first", &fc, in, 1);
	fc.linear.out_features = words;
	fc.linear.bias = (int32_t)ff_random_below(r, 2);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "logits", &fc, in, 1);
	in[0] = ff_builder_add(b, FF_OP_TRANSPOSE, "classes", &turned, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

/* The layer and the transposition, whole. */
static void fill_works(const struct ff_graph *g, enum ff_pass pass, struct ff_work *ret)
{
	const char *const names[] = {"logits", "classes"};

	for (int i = 0; i < 2; i++) {
		uint32_t node = ff_graph_find(g, names[i]);
		struct ff_region box = {.rank = g->nodes[node].n_dims};

		for (uint32_t d = 0; d < box.rank; d++)
			box.hi[d] = g->nodes[node].dim[d].extent;
		ff_work_fill(g, node, &box, pass, &ret[i]);
	}
}

/* ---- kernels ---- */

static void *blank(struct pairs_bench *t, int64_t n, enum ff_dtype type)
{
	return chosen_put(t->dev, t->stream, NULL, (size_t)(n * ff_dtype_bytes(type)) + 1);
}

static void compare_forward(struct pairs_bench *t, const struct ff_work *w)
{
	int64_t n = ff_region_volume(&w[0].out[0]);
	void *two[] = {blank(t, n, t->type), blank(t, n, t->type)}, *one;
	struct ff_kernel_io io = {.out = {two[0]}}, second = {.in = {two[0]}, .out = {two[1]}};
	const struct ff_work *both[] = {&w[0], &w[1]};
	struct ff_kernel *k = NULL;
	struct ff_error err;

	for (uint32_t i = 0; i < w[0].node->n_in; i++)
		io.in[i] = pairs_put(t, &w[0].in[i], 1);
	RIG_OK(t->b->kernel.open(t->dev, &w[0], &k, &err));
	pairs_run(t, k, &io);
	RIG_OK(t->b->kernel.open(t->dev, &w[1], &k, &err));
	pairs_run(t, k, &second);
	k = NULL;
	RIG_OK(t->b->kernel.fuse(t->dev, both, 2, FF_FUSE_KEEPS, &k, &err));
	ck_assert_ptr_null(k);
	RIG_OK(t->b->kernel.fuse(t->dev, both, 2, 0, &k, &err));
	one = io.out[0] = blank(t, n, t->type);
	if (k) {
		pairs_run(t, k, &io);
		pairs_compare(t, t->type, two[1], one, n);
	}
	for (uint32_t i = 0; i < w[0].node->n_in; i++)
		t->b->memory.free(t->dev, (void *)io.in[i]);
	t->b->memory.free(t->dev, two[0]);
	t->b->memory.free(t->dev, two[1]);
	t->b->memory.free(t->dev, one);
}

static void make_gradients(struct pairs_bench *t, const struct ff_work *w, void **din)
{
	din[0] = blank(t, ff_region_volume(&w->in[0]), t->type);
	for (uint32_t i = 1; i < w->node->n_in; i++)
		din[i] = blank(t, ff_region_volume(&w->in[i]), FF_F32);
}

static void free_all(struct pairs_bench *t, const struct ff_work *w, void *const *what)
{
	for (uint32_t i = 0; i < w->node->n_in; i++)
		t->b->memory.free(t->dev, what[i]);
}

/* The kernel for both, which may write the input's gradient over part of the one that it reads. */
static void compare_fused(struct pairs_bench *t, const struct ff_work *w, struct ff_kernel *k,
		const struct ff_kernel_io *io, const void *behind, bool late)
{
	int64_t n = ff_region_volume(&w->out[0]), of_data = ff_region_volume(&w->in[0]);
	size_t bytes = (size_t)(n * ff_dtype_bytes(t->type));
	char *copy = blank(t, n + of_data + ROOM, t->type), *host = malloc(bytes);
	struct ff_kernel_io both = {.dout = {io->dout[0], copy}};
	struct ff_error err;
	void *own;

	ck_assert_ptr_nonnull(host);
	memcpy(both.in, io->in, sizeof(both.in));
	chosen_get(t->stream, host, behind, bytes);
	RIG_OK(t->b->move.upload(t->stream, copy, host, bytes, &err));
	RIG_OK(t->b->stream.drain(t->stream, &err));
	make_gradients(t, w, both.din);
	own = both.din[0];
	if (late)
		both.din[0] = copy + ROOM;
	pairs_run(t, k, &both);
	pairs_compare(t, t->type, io->din[0], both.din[0], of_data);
	for (uint32_t i = 1; i < w->node->n_in; i++)
		pairs_compare(t, FF_F32, io->din[i], both.din[i], ff_region_volume(&w->in[i]));
	both.din[0] = own;
	free_all(t, w, both.din);
	t->b->memory.free(t->dev, copy);
	free(host);
}

static void compare_backward(struct pairs_bench *t, const struct ff_work *w)
{
	void *behind = pairs_put(t, &w[1].out[0], 1);
	void *between = blank(t, ff_region_volume(&w[0].out[0]), t->type);
	struct ff_kernel_io first = {.dout = {behind}, .din = {between}},
			    io = {.dout = {between}, .training = true};
	const struct ff_work *both[] = {&w[1], &w[0]};
	struct ff_kernel *k = NULL;
	struct ff_error err;

	for (uint32_t i = 0; i < w[0].node->n_in; i++)
		io.in[i] = pairs_put(t, &w[0].in[i], 1);
	make_gradients(t, w, io.din);
	RIG_OK(t->b->kernel.open(t->dev, &w[1], &k, &err));
	pairs_run(t, k, &first);
	RIG_OK(t->b->kernel.open(t->dev, &w[0], &k, &err));
	pairs_run(t, k, &io);
	k = NULL;
	RIG_OK(t->b->kernel.fuse(t->dev, both, 2, FF_FUSE_KEEPS, &k, &err));
	ck_assert_ptr_null(k);
	for (int late = 0; late < 2; late++) {
		k = NULL;
		RIG_OK(t->b->kernel.fuse(t->dev, both, 2, late ? FF_FUSE_LATE : 0, &k, &err));
		if (k)
			compare_fused(t, w, k, &io, behind, late);
	}
	free_all(t, w, io.din);
	free_all(t, w, (void *const *)io.in);
	t->b->memory.free(t->dev, behind);
	t->b->memory.free(t->dev, between);
}

START_TEST(kernels)
{
	struct ff_backend b = pairs_backend(true);
	struct pairs_bench t;
	uint32_t even = 0;

	memset(pairs_fused, 0, sizeof(pairs_fused));
	pairs_bench_open(&t, &b);
	for (uint32_t i = 0; i < SHAPES; i++) {
		struct ff_work *w = calloc(4, sizeof(*w));
		struct ff_arena a;
		struct ff_graph g;

		ck_assert_ptr_nonnull(w);
		ff_arena_init(&a);
		t.r = (struct ff_random){ff_test_seed(80), i, 0};
		t.type = i % 2 ? FF_BF16 : FF_F32;
		make_graph(&t.r, t.type, 1 + (int32_t)ff_random_below(&t.r, 4), i % 3, &a, &g);
		fill_works(&g, FF_FORWARD, w);
		fill_works(&g, FF_BACKWARD, w + 2);
		compare_forward(&t, w);
		compare_backward(&t, w + 2);
		even += i % 3 > 0;
		free(w);
		ff_arena_finish(&a);
	}
	pairs_bench_close(&t);
	printf("# %u forward, %u backward of %u shapes\n", pairs_fused[FF_FORWARD],
			pairs_fused[FF_BACKWARD], even);
	ck_assert_uint_le(pairs_fused[FF_FORWARD], even);
	ck_assert_uint_le(pairs_fused[FF_BACKWARD], 2 * even);
	if (pairs_has_all()) {
		ck_assert_uint_eq(pairs_fused[FF_FORWARD], even);
		ck_assert_uint_eq(pairs_fused[FF_BACKWARD], 2 * even);
	}
}
END_TEST

/* ---- executors ---- */

enum cut { SAMPLES, WORDS, PLACES, CUTS };

/* Two operators alike along a dim, number `d` of the layer's and `e` of the transposition's. */
static void cut_both(struct scene *s, uint32_t d, uint32_t e)
{
	const char *const names[] = {"logits", "classes"};

	for (int i = 0; i < 2; i++) {
		struct ff_config *c = &s->strategy.config[ff_graph_find(&s->graph, names[i])];

		ck_assert_uint_eq(c->n_parts, 2);
		c->degree[0] = 1;
		c->stride[0] = 0;
		c->degree[i ? e : d] = 2;
		c->stride[i ? e : d] = 1;
	}
}

static void open_case(struct scene *s, struct ff_random *r, enum cut cut, uint32_t devices,
		uint32_t micro_batches)
{
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	make_graph(r, FF_F32, 4, true, &s->arena, &s->graph);
	RIG_OK(random_machine(r, devices, &s->arena, &s->machine, &err));
	RIG_OK(ff_graph_micro(&s->graph, micro_batches, &s->arena, &s->micro, &err));
	RIG_OK(ff_strategy_data_parallel(&s->micro, devices, &s->arena, &s->strategy, &err));
	s->strategy.micro_batches = micro_batches;
	if (cut == WORDS)
		cut_both(s, 2, 1);
	if (cut == PLACES)
		cut_both(s, 1, 2);
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	scene_optimizer(s, (enum ff_optimizer_id)(s->opt.seed % FF_OPTIMIZER_COUNT));
}

/* Each device's pairs of each micro-batch, both ways, wherever the memory plan puts them; cut by
 * words parts of the gradient are added up behind the layer. */
START_TEST(steps)
{
	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {ff_test_seed(81), i, 0};
		enum cut cut = (enum cut)(i % CUTS);
		uint32_t devices = cut == SAMPLES ? 1 + ff_random_below(&r, 2) : 2;
		uint32_t micro_batches = 1 + ff_random_below(&r, 2), all = devices * micro_batches;
		struct scene s;

		open_case(&s, &r, cut, devices, micro_batches);
		pairs_compare_steps(&s);
		printf("# case %u: %u devices, %u micro-batches, cut %d: %u forward, %u backward "
		       "of %u\n",
				i, devices, micro_batches, cut, pairs_fused[FF_FORWARD],
				pairs_fused[FF_BACKWARD], all);
		if (pairs_has_all()) {
			ck_assert_uint_eq(pairs_fused[FF_FORWARD], all);
			ck_assert_uint_eq(pairs_fused[FF_BACKWARD], all);
			ck_assert_uint_eq(pairs_predicted(&s.graph, FF_FORWARD), 1);
			ck_assert_uint_eq(pairs_predicted(&s.graph, FF_BACKWARD), 0);
		}
		scene_close(&s);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fuse_transposed");
	TCase *t = tcase_create("fuse_transposed");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, kernels);
	tcase_add_test(t, steps);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
