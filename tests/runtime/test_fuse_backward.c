/* Kernels that make a gradient and go on to that of the operator before: against the two, alone
 * and in whole steps, and where the executor takes them.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/block.h"
#include "ff/builder.h"
#include "ff/instance.h"
#include "ff/micro.h"
#include "launches.h"
#include "pairs.h"

#define SHAPES 60
#define SCENES 40
#define ROUGH "FF_CUDA_TF32"

/* Whether the libraries have the one epilogue that it takes; of a GPU's it is not known. */
enum has { ALL, NONE, UNKNOWN };
static enum has has_slope(void)
{
	const char *lacks = getenv("FF_DOUBLE_LACKS");

	return pairs_has_all() ? ALL : lacks && !strcmp(lacks, "slope") ? NONE : UNKNOWN;
}

/* ---- kernels ---- */

static void *blank(struct pairs_bench *t, const struct ff_region *r, enum ff_dtype type)
{
	return chosen_put(t->dev, t->stream, NULL,
			(size_t)(ff_region_volume(r) * ff_dtype_bytes(type)) + 1);
}

/* Gradients of `w`: its input's, of the type that it computes in, and its parameters'. */
static void make_gradients(struct pairs_bench *t, const struct ff_work *w, void **din)
{
	din[0] = blank(t, &w->in[0], t->type);
	for (uint32_t i = 1; i < w->node->n_in; i++)
		din[i] = blank(t, &w->in[i], FF_F32);
}

static void free_all(struct pairs_bench *t, const struct ff_work *w, void *const *what)
{
	for (uint32_t i = 0; i < w->node->n_in; i++)
		t->b->memory.free(t->dev, what[i]);
}

/* The kernel for both, which may write where the layer's input is. */
static void compare_fused(struct pairs_bench *t, const struct ff_work *w, struct ff_kernel *k,
		const struct ff_kernel_io *io, const void *din, const void *kept, bool in_place)
{
	struct ff_kernel_io both = *io;
	void *own;

	make_gradients(t, w, both.din);
	own = both.din[0];
	if (in_place)
		both.din[0] = (void *)io->in[0];
	both.in[w->node->n_in] = kept;
	pairs_run(t, k, &both);
	pairs_compare(t, t->type, din, both.din[0], ff_region_volume(&w->in[0]));
	for (uint32_t i = 1; i < w->node->n_in; i++)
		pairs_compare(t, FF_F32, io->din[i], both.din[i], ff_region_volume(&w->in[i]));
	both.din[0] = own;
	free_all(t, w, both.din);
}

/* Both kernels, then the one for both. */
static void compare_kernels(
		struct pairs_bench *t, const struct ff_work *w, const struct ff_work *next)
{
	struct ff_kernel_io io = {.dout = {pairs_put(t, &w->out[0], 1)}},
			    before = {.training = true};
	void *kept = pairs_put(t, &next->in[0], 4), *din = blank(t, &next->in[0], t->type);
	const struct ff_work *two[] = {w, next};
	struct ff_kernel *k = NULL;
	struct ff_error err;

	for (uint32_t i = 0; i < w->node->n_in; i++)
		io.in[i] = pairs_put(t, &w->in[i], 1);
	make_gradients(t, w, io.din);
	RIG_OK(t->b->kernel.open(t->dev, w, &k, &err));
	pairs_run(t, k, &io);
	before.in[0] = kept;
	before.dout[0] = io.din[0];
	before.din[0] = din;
	RIG_OK(t->b->kernel.open(t->dev, next, &k, &err));
	pairs_run(t, k, &before);
	for (int in_place = 0; in_place < 2; in_place++) {
		k = NULL;
		RIG_OK(t->b->kernel.fuse(t->dev, two, 2, 0, &k, &err));
		if (k)
			compare_fused(t, w, k, &io, din, kept, in_place);
	}
	free_all(t, w, io.din);
	free_all(t, w, (void *const *)io.in);
	t->b->memory.free(t->dev, (void *)io.dout[0]);
	t->b->memory.free(t->dev, kept);
	t->b->memory.free(t->dev, din);
}

/* Behind what a linear layer's kernel goes on: only behind gelu by tanh, of a number of features
 * that something is kept of. */
static const struct {
	const char *name;
	enum pairs_follower f;
	bool is_fused;
} followers[] = {
		{"gelu by tanh", PAIRS_GELU, true},
		{"gelu by tanh, odd", PAIRS_ODD_GELU, false},
		{"gelu", PAIRS_ERF_GELU, false},
};

static void compare_shape(struct pairs_bench *t, enum pairs_follower f)
{
	struct ff_work *w = calloc(2, sizeof(*w));
	struct ff_strategy single;
	struct ff_arena a;
	struct ff_graph g;
	struct ff_region box;
	struct ff_error err;
	uint32_t node[2];

	ck_assert_ptr_nonnull(w);
	ff_arena_init(&a);
	pairs_graph(&t->r, t->type, 1 + (int32_t)ff_random_below(&t->r, 9), 2, f, &a, &g);
	node[0] = ff_graph_find(&g, "layer1");
	node[1] = ff_graph_find(&g, "next0");
	RIG_OK(ff_strategy_single(&g, 0, &a, &single, &err));
	for (int k = 0; k < 2; k++) {
		ff_config_box(&g.nodes[node[k]], &single.config[node[k]], 0, &box);
		ff_work_fill(&g, node[k], &box, FF_BACKWARD, &w[k]);
	}
	compare_kernels(t, &w[0], &w[1]);
	free(w);
	ff_arena_finish(&a);
}

START_TEST(kernels)
{
	uint64_t seed = ff_test_seed(74);
	struct ff_backend b = pairs_backend(true);
	struct pairs_bench t;

	pairs_offered[FF_BACKWARD] = pairs_fused[FF_BACKWARD] = 0;
	pairs_bench_open(&t, &b);
	for (uint32_t i = 0; i < SHAPES; i++) {
		t.r = (struct ff_random){seed, i, 0};
		t.type = i % 2 ? FF_BF16 : FF_F32;
		compare_shape(&t, followers[_i].f);
	}
	pairs_bench_close(&t);
	printf("# %s: %u of %u are fused\n", followers[_i].name, pairs_fused[FF_BACKWARD],
			pairs_offered[FF_BACKWARD]);
	ck_assert_uint_eq(pairs_offered[FF_BACKWARD], 2 * SHAPES);
	if (has_slope() == ALL && followers[_i].is_fused)
		ck_assert_uint_eq(pairs_fused[FF_BACKWARD], 2 * SHAPES);
	if (has_slope() == NONE || !followers[_i].is_fused)
		ck_assert_uint_eq(pairs_fused[FF_BACKWARD], 0);
}
END_TEST

/* In float32 cuBLASLt's slope is too rough, unless products may be. */
START_TEST(exact)
{
	struct ff_backend b = pairs_backend(true);
	struct pairs_bench t;

	ck_assert_int_eq(unsetenv(ROUGH), 0);
	pairs_fused[FF_BACKWARD] = 0;
	pairs_bench_open(&t, &b);
	for (uint32_t i = 0; i < SHAPES; i++) {
		t.r = (struct ff_random){ff_test_seed(74), i, 0};
		t.type = FF_F32;
		compare_shape(&t, PAIRS_GELU);
	}
	pairs_bench_close(&t);
	ck_assert_int_eq(setenv(ROUGH, "1", 1), 0);
	ck_assert_uint_eq(pairs_fused[FF_BACKWARD], 0);
}
END_TEST

/* ---- executors ---- */

static bool overlap(const struct ff_buffer *a, const struct ff_buffer *b)
{
	return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The task before `task` on its device, all-reduces of buckets left out. */
static const struct ff_task *task_before(const struct ff_schedule *s, const struct ff_task *task)
{
	const uint16_t *device;
	uint16_t one;

	for (const struct ff_task *t = task; t-- > s->tasks;) {
		uint32_t n = ff_task_devices(t, &device, &one);

		for (uint32_t i = 0; i < n && !ff_task_moves_bucket(t); i++)
			if (device[i] == task->device)
				return t;
	}
	return NULL;
}

/* Which backward tasks of gelus behind one of a layer. */
enum which {
	EVERY,
	APART, /* whose gradient the memory plan has not put where the layer reads its own */
	ROOM,  /* or where that is at most half of what the layer makes */
};

/* (Parameters lie in buckets, in no one's way.) */
static uint32_t count_pairs(struct scene *s, const struct ff_backend *b, enum which which)
{
	uint32_t n = 0;
	struct rig r;

	rig_open(&r, scene_setup(s, b));
	for (uint32_t i = 0; i < r.schedule.n_tasks; i++) {
		const struct ff_schedule *plan = &r.schedule;
		const struct ff_task *t = &plan->tasks[i], *before = task_before(plan, t);
		const struct ff_buffer *dout, *between;

		if (!ff_task_computes_in(t, FF_BACKWARD) ||
				plan->graph->nodes[t->node].op != FF_OP_GELU ||
				!ff_task_computes_in(before, FF_BACKWARD))
			continue;
		dout = &plan->buffers[ff_task_dout(plan, before, 0)[t->part]];
		between = &plan->buffers[ff_task_din(plan, before, 0)[t->part]];
		n += which == EVERY || (which == ROOM && 2 * dout->bytes <= between->bytes) ||
		     !overlap(dout, &plan->buffers[ff_task_din(plan, t, 0)[t->part]]);
	}
	rig_close(&r);
	return n;
}

START_TEST(drawn_layers)
{
	uint64_t seed = ff_test_seed(75);
	struct ff_backend b = pairs_backend(false);
	uint32_t all = 0, most = 0;

	for (uint32_t i = 0; i < ff_test_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		uint32_t layers = 1 + ff_random_below(&r, 3), devices = 1 + ff_random_below(&r, 3);
		uint32_t micro_batches = 1 + ff_random_below(&r, 2), pairs, free;
		bool recomputed = ff_random_below(&r, 2);
		struct scene s;

		pairs_scene(&s, &r, PAIRS_GELU, layers, devices, micro_batches, recomputed);
		pairs_compare_steps(&s);
		pairs = count_pairs(&s, &b, EVERY);
		free = count_pairs(&s, &b, ROOM);
		printf("# case %u: %u devices, %u micro-batches%s%s: %u of %u with room, %u in "
		       "all\n",
				i, devices, micro_batches, recomputed ? ", recomputed" : "",
				s.machine.overlap ? ", overlap" : "", pairs_fused[FF_BACKWARD],
				free, pairs);
		if (!recomputed)
			ck_assert_uint_eq(pairs, pairs_predicted(&s.graph, FF_BACKWARD) * devices *
								 micro_batches);
		if (has_slope() != UNKNOWN)
			ck_assert_uint_eq(pairs_fused[FF_BACKWARD], has_slope() == ALL ? free : 0);
		all += pairs_fused[FF_BACKWARD];
		most += pairs;
		scene_close(&s);
	}
	printf("# %u of %u are fused\n", all, most);
	if (has_slope() == ALL)
		ck_assert_uint_gt(all, 0);
}
END_TEST

/* Steps that are launched have what is copied ahead of kernels in them, and what these read. */
START_TEST(launched)
{
	struct ff_backend b = pairs_backend(true), without = pairs_backend(false);
	uint32_t copied = 0;

	/* on, however few there are to be, until something was copied */
	for (uint32_t i = 0; i < ff_test_rounds(16) || (!copied && i < 16); i++) {
		struct ff_random r = {ff_test_seed(78), i, 0};
		struct launched captured, apart;
		struct scene s;

		pairs_scene(&s, &r, PAIRS_GELU, 3, 1, 1 + i % 2, false);
		memset(pairs_fused, 0, sizeof(pairs_fused));
		launch_train(&s, &s.machine, &s.strategy, &b, NULL, NULL, &captured);
		ck_assert(captured.captured);
		copied += pairs_fused[FF_BACKWARD] > count_pairs(&s, &without, APART);
		launch_train(&s, &s.machine, &s.strategy, &b, NULL, "0", &apart);
		ck_assert(launch_same(&s, &captured, &apart));
		scene_close(&s);
	}
	if (has_slope() == ALL)
		ck_assert_uint_gt(copied, 0);
}
END_TEST

/* ---- where it is not to be ---- */

/* Two devices share out samples, but for what a case says. */
enum obstacle {
	NOTHING,
	MICRO_BATCHES,
	BY_FEATURE,    /* the layer in front makes some of them, that behind reads as many: no
			* obstacle */
	TWO_READERS,   /* two layers read what gelu wrote */
	PARTIAL_SUMS,  /* the layer behind is cut by what it makes */
	CUT_OTHERWISE, /* gelu by feature, the layer behind by sample */
	RECOMPUTED,    /* what gelu reads, in between */
	OBSTACLES
};

static const struct {
	const char *name;
	uint32_t fused;
} cases[OBSTACLES] = {
		[NOTHING] = {"none", 2},
		[MICRO_BATCHES] = {"micro-batches", 4},
		[BY_FEATURE] = {"features shared out", 2},
		[TWO_READERS] = {"two readers", 0},
		[PARTIAL_SUMS] = {"partial sums", 0},
		[CUT_OTHERWISE] = {"cut otherwise", 0},
		[RECOMPUTED] = {"recomputed", 0},
};

static uint32_t add_linear(struct ff_builder *b, const char *name, int32_t features, uint32_t in)
{
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);

	fc.linear.out_features = features;
	return ff_builder_add(b, FF_OP_LINEAR, name, &fc, &in, 1);
}

/* The layer behind makes so much less than it reads that there is always room. */
static void make_graph(enum obstacle o, struct ff_arena *a, struct ff_graph *ret)
{
	union ff_attrs x = {.input = {.rank = 2, .shape = {8, 12}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {8}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs tanh = ff_attrs_preset(FF_OP_GELU);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2], gelu;

	tanh.unary.form = 1;
	RIG_OK(ff_builder_create("obstacles", a, &b, &err));
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = add_linear(b, "front", 32, in[0]);
	gelu = ff_builder_add(b, FF_OP_GELU, "gelu", &tanh, in, 1);
	in[0] = add_linear(b, "behind", 8, gelu);
	in[1] = o == TWO_READERS ? add_linear(b, "other", 8, gelu) : in[0];
	if (o == TWO_READERS)
		in[0] = ff_builder_add(b, FF_OP_ADD, "sum", NULL, in, 2);
	in[0] = add_linear(b, "last", 3, in[0]);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

/* `name` is cut in two along dim `d` and no other. */
static void cut(struct scene *s, const char *name, uint32_t d)
{
	struct ff_config *c = &s->strategy.config[ff_graph_find(&s->graph, name)];

	ck_assert_uint_eq(c->n_parts, 2);
	c->degree[0] = 1;
	c->stride[0] = 0;
	c->degree[d] = 2;
	c->stride[d] = 1;
}

static void open_case(struct scene *s, enum obstacle o, struct ff_random *r)
{
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	make_graph(o, &s->arena, &s->graph);
	RIG_OK(random_machine(r, 2, &s->arena, &s->machine, &err));
	RIG_OK(ff_graph_micro(&s->graph, o == MICRO_BATCHES ? 2 : 1, &s->arena, &s->micro, &err));
	RIG_OK(ff_strategy_data_parallel(&s->micro, 2, &s->arena, &s->strategy, &err));
	s->strategy.micro_batches = o == MICRO_BATCHES ? 2 : 1;
	s->strategy.recompute[ff_graph_find(&s->graph, "front")] = o == RECOMPUTED;
	if (o == BY_FEATURE) {
		cut(s, "front", 1);
		cut(s, "behind", 2);
	}
	if (o == BY_FEATURE || o == CUT_OTHERWISE)
		cut(s, "gelu", 1);
	if (o == PARTIAL_SUMS)
		cut(s, "behind", 1);
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	scene_optimizer(s, (enum ff_optimizer_id)(s->opt.seed % FF_OPTIMIZER_COUNT));
}

START_TEST(obstacles)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct ff_random r = {ff_test_seed(76), i, 0};
		struct scene s;

		open_case(&s, (enum obstacle)_i, &r);
		pairs_compare_steps(&s);
		printf("# %s: %u are fused\n", cases[_i].name, pairs_fused[FF_BACKWARD]);
		if (has_slope() == ALL)
			ck_assert_uint_eq(pairs_fused[FF_BACKWARD], cases[_i].fused);
		if (has_slope() == NONE || !cases[_i].fused)
			ck_assert_uint_eq(pairs_fused[FF_BACKWARD], 0);
		scene_close(&s);
	}
}
END_TEST

/* An all-reduce of what the layer behind has made stands in between, and is none. */
START_TEST(small_buckets)
{
	struct ff_backend with = pairs_backend(true), without = pairs_backend(false);

	for (uint32_t i = 0; i < 4; i++) {
		struct ff_random r = {ff_test_seed(79), i, 0};
		struct result one, two;
		struct scene s;
		struct rig rig;
		struct rig_setup setup;
		uint32_t at = 0;

		open_case(&s, NOTHING, &r);
		setup = scene_setup(&s, &without);
		setup.bucket_bytes = 64;
		rig_open(&rig, setup);
		while (!ff_task_computes_in(&rig.schedule.tasks[at], FF_BACKWARD) ||
				rig.schedule.tasks[at].node != ff_graph_find(&s.graph, "gelu"))
			at++;
		ck_assert(ff_task_moves_bucket(&rig.schedule.tasks[at - 1]));
		rig_close(&rig);
		pairs_fused[FF_BACKWARD] = 0;
		scene_run(&s, &s.machine, &s.strategy, &with, NULL, 64, &one);
		if (has_slope() == ALL)
			ck_assert_uint_eq(pairs_fused[FF_BACKWARD], 2);
		scene_run(&s, &s.machine, &s.strategy, &without, NULL, 64, &two);
		scene_compare(&s, &one, &two);
		scene_close(&s);
	}
}
END_TEST

/* ---- scratch ---- */

#define MORE 1024 /* bytes that kernels for two are said to need, and write */

static const struct ff_kernel *of_two[16], *roomy;
static uint32_t n_of_two;

static bool is_of_two(const struct ff_kernel *k)
{
	uint32_t i = 0;

	while (i < n_of_two && of_two[i] != k)
		i++;
	return i < n_of_two;
}

static int marking_fuse(struct ff_device *dev, const struct ff_work *const *w, uint32_t n,
		uint32_t how, struct ff_kernel **ret, struct ff_error *err)
{
	int code = w[0]->pass == FF_FORWARD
				   ? FF_OK
				   : chosen_backend()->kernel.fuse(dev, w, n, how, ret, err);

	if (*ret) {
		ck_assert_uint_lt(n_of_two, sizeof(of_two) / sizeof(of_two[0]));
		of_two[n_of_two++] = *ret;
	}
	return code;
}

/* Forward kernels need more, so that the memory plan has as much. */
static int marking_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	int code = chosen_backend()->kernel.open(dev, w, ret, err);

	roomy = w->pass == FF_FORWARD ? *ret : NULL;
	return code;
}

static int64_t marking_workspace(const struct ff_kernel *k)
{
	return chosen_backend()->kernel.workspace(k) + (is_of_two(k)                ? MORE
								       : k == roomy ? 64 << 10
										    : 0);
}

/* What a kernel for two has as scratch is no number when it is done. */
static int marking_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	int code = chosen_backend()->kernel.run(s, k, io, err);
	int64_t own = ff_align64(chosen_backend()->kernel.workspace(k));

	if (code < 0 || !is_of_two(k))
		return code;
	return chosen_backend()->move.fill(s, (char *)io->workspace + own, FF_F32,
			MORE / FF_F32_BYTES, 0x7fc00000, err);
}

/* Parameters' gradients of a second micro-batch lie behind the scratch of the kernel that makes
 * them, of which one for two may need more. */
START_TEST(more_scratch)
{
	struct ff_backend marking = pairs_backend(true), without = pairs_backend(false);
	struct ff_random r = {ff_test_seed(77), 0, 0};
	struct result one, two;
	struct scene s;

	marking.kernel.fuse = marking_fuse;
	marking.kernel.open = marking_kernel;
	marking.kernel.workspace = marking_workspace;
	marking.kernel.run = marking_run;
	n_of_two = 0;
	open_case(&s, MICRO_BATCHES, &r);
	scene_run(&s, &s.machine, &s.strategy, &marking, NULL, 0, &one);
	if (has_slope() == ALL)
		ck_assert_uint_eq(n_of_two, 4);
	n_of_two = 0;
	scene_run(&s, &s.machine, &s.strategy, &without, NULL, 0, &two);
	scene_compare(&s, &one, &two);
	scene_close(&s);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fuse_backward");
	TCase *t = tcase_create("fuse_backward");

	tcase_set_timeout(t, 0);
	tcase_add_loop_test(t, kernels, 0, sizeof(followers) / sizeof(followers[0]));
	tcase_add_test(t, exact);
	tcase_add_test(t, drawn_layers);
	tcase_add_test(t, launched);
	tcase_add_loop_test(t, obstacles, 0, OBSTACLES);
	tcase_add_test(t, small_buckets);
	tcase_add_test(t, more_scratch);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	if (setenv(ROUGH, "1", 1))
		return 1;
	return chosen_main(suite);
}
