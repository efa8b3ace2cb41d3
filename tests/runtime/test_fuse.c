/* Kernels that do the work of two tasks: against the two, alone and in whole steps, and where
 * the executor takes them.  SPDX-License-Identifier: Apache-2.0 */
#include "chosen.h"

#include <math.h>
#include <string.h>

#include "ff/block.h"
#include "ff/builder.h"
#include "ff/micro.h"
#include "scene.h"
#include "typed.h"

#define SHAPES 60
#define SCENES 80

static uint32_t fused, offered, runs;

static int counting_fuse(struct ff_device *dev, const struct ff_work *w, const struct ff_work *next,
		bool keeps, struct ff_kernel **ret, struct ff_error *err)
{
	int code = chosen_backend()->fuse(dev, w, next, keeps, ret, err);

	offered++;
	fused += *ret != NULL;
	return code;
}

static int counting_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	runs++;
	return chosen_backend()->run(s, k, io, err);
}

/* On the double, which has all that is asked for unless it is told otherwise; of a GPU's libraries
 * that is not known. */
static bool has_all(void)
{
	const char *module = getenv("FF_CUDA_MODULE");

	return module && strstr(module, "double") && !getenv("FF_DOUBLE_LACKS");
}

static struct ff_backend backend_with(bool fusing)
{
	struct ff_backend b = *rig_backend(false);

	ck_assert_ptr_nonnull(b.fuse);
	b.fuse = fusing ? counting_fuse : NULL;
	b.run = counting_run;
	return b;
}

/* ---- kernels ---- */

/* What is behind each layer of a graph. */
enum follower {
	RELU,
	GELU,     /* by tanh */
	ODD_GELU, /* the same, of a number of features that nothing can be kept of */
	ERF_GELU, /* the exact one, which is none of cuBLASLt's */
};

static uint32_t draw_follower(
		struct ff_builder *b, enum follower f, const char *name, const uint32_t *in)
{
	union ff_attrs gelu = ff_attrs_preset(FF_OP_GELU);

	gelu.unary.form = f != ERF_GELU;
	return f == RELU ? ff_builder_add(b, FF_OP_RELU, name, NULL, in, 1)
			 : ff_builder_add(b, FF_OP_GELU, name, &gelu, in, 1);
}

/* A convolution or linear layer of a drawn shape. */
static uint32_t draw_layer(struct ff_random *r, bool image, enum follower f, struct ff_builder *b,
		const char *name, uint32_t in)
{
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), conv = ff_attrs_preset(FF_OP_CONV2D);

	if (!image) {
		fc.linear.out_features = 1 + (int32_t)ff_random_below(r, 40);
		if (f != RELU)
			fc.linear.out_features =
					8 * (1 + (int32_t)ff_random_below(r, 5)) + (f == ODD_GELU);
		fc.linear.bias = (int32_t)ff_random_below(r, 2);
		return ff_builder_add(b, FF_OP_LINEAR, name, &fc, &in, 1);
	}
	conv.conv.out_channels = 1 + (int32_t)ff_random_below(r, 17);
	conv.conv.kernel[0] = conv.conv.kernel[1] = 1 + 2 * (int32_t)ff_random_below(r, 2);
	for (int i = 0; i < 2; i++)
		conv.conv.pad[0][i] = conv.conv.pad[1][i] = conv.conv.kernel[0] / 2;
	conv.conv.bias = (int32_t)ff_random_below(r, 2);
	return ff_builder_add(b, FF_OP_CONV2D, name, &conv, &in, 1);
}

/* Such with what follows each, `n` of them: layer0, next0 and so on; and what trains them. */
static void draw_graph(struct ff_random *r, enum ff_dtype type, int32_t batch, uint32_t n,
		enum follower f, struct ff_arena *a, struct ff_graph *ret)
{
	bool image = f == RELU && ff_random_below(r, 2);
	int32_t wide = 1 + (int32_t)ff_random_below(r, 33),
		side = 3 + (int32_t)ff_random_below(r, 6);
	union ff_attrs x = {.input = {.rank = image ? 4 : 2, .shape = {batch, wide, side, side}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	RIG_OK(ff_builder_create("fused", a, &b, &err));
	ff_builder_set_dtype(b, type);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	for (uint32_t i = 0; i < n; i++) {
		in[0] = draw_layer(r, image, f, b, ff_arena_printf(a, "layer%u", i), in[0]);
		in[0] = draw_follower(b, f, ff_arena_printf(a, "next%u", i), in);
	}
	if (image)
		in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = 3;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "last", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	RIG_OK(ff_builder_finish(b, ret, &err));
}

/* Memory for one kernel after the other. */
struct bench {
	const struct ff_backend *b;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_random r;
	enum ff_dtype type;
};

static void *put(struct bench *t, const struct ff_region *region)
{
	int64_t n = ff_region_volume(region), bytes = n * ff_dtype_bytes(t->type);
	void *host = malloc((size_t)bytes + 1), *device;

	ck_assert_ptr_nonnull(host);
	for (int64_t i = 0; i < n; i++)
		typed_put(t->type, host, i, (double)ff_random_below(&t->r, 2001) / 1000 - 1);
	device = n ? chosen_put(t->dev, t->stream, host, (size_t)bytes) : NULL;
	free(host);
	return device;
}

static void run(struct bench *t, struct ff_kernel *k, struct ff_kernel_io *io)
{
	int64_t bytes = t->b->workspace(k);
	struct ff_error err;

	io->workspace = chosen_put(t->dev, t->stream, NULL, (size_t)bytes + 64);
	RIG_OK(t->b->run(t->stream, k, io, &err));
	RIG_OK(t->b->drain(t->stream, &err));
	t->b->free(t->dev, io->workspace);
	t->b->kernel_close(k);
}

/* Elements that are apart by more than rounding; how many the second one has made zero. */
static void compare(struct bench *t, const void *two, const void *one, int64_t n, int64_t *cut)
{
	double bound = t->type == FF_BF16 ? 1.0 / 128 : 1e-5, size = 0;
	size_t bytes = (size_t)(n * ff_dtype_bytes(t->type));
	void *a = malloc(bytes), *b = malloc(bytes);

	ck_assert(a && b);
	chosen_get(t->stream, a, two, bytes);
	chosen_get(t->stream, b, one, bytes);
	for (int64_t i = 0; i < n; i++)
		size = fmax(size, fabs(typed_get(t->type, a, i)));
	for (int64_t i = 0; i < n; i++) {
		double x = typed_get(t->type, a, i), y = typed_get(t->type, b, i);

		ck_assert_msg(fabs(x - y) <= bound * size, "element %d: %.9g, but fused %.9g",
				(int)i, x, y);
		*cut += y == 0;
	}
	free(a);
	free(b);
}

/* The kernel for both, which keeps what lies between, or not. */
static void compare_fused(struct bench *t, const struct ff_work *w, const struct ff_work *next,
		bool keeps, struct ff_kernel_io *io, void *const *two, int64_t *cut)
{
	int64_t n = ff_region_volume(&w->out[0]), none = 0;
	size_t bytes = (size_t)(n * ff_dtype_bytes(t->type));
	struct ff_kernel *k = NULL;
	struct ff_error err;

	RIG_OK(t->b->fuse(t->dev, w, next, keeps, &k, &err));
	if (!k)
		return;
	io->out[0] = chosen_put(t->dev, t->stream, NULL, bytes);
	io->out[1] = keeps ? chosen_put(t->dev, t->stream, NULL, bytes) : NULL;
	run(t, k, io);
	compare(t, two[1], io->out[0], n, cut);
	if (keeps)
		compare(t, two[0], io->out[1], n, &none);
	t->b->free(t->dev, io->out[0]);
	t->b->free(t->dev, io->out[1]);
}

/* Both kernels, then the ones for both. */
static void compare_kernels(
		struct bench *t, const struct ff_work *w, const struct ff_work *next, int64_t *cut)
{
	size_t bytes = (size_t)(ff_region_volume(&w->out[0]) * ff_dtype_bytes(t->type));
	void *two[] = {chosen_put(t->dev, t->stream, NULL, bytes),
			chosen_put(t->dev, t->stream, NULL, bytes)};
	struct ff_kernel_io io = {.out = {two[0]}}, second = {.in = {two[0]}, .out = {two[1]}};
	struct ff_kernel *k = NULL;
	struct ff_error err;

	for (uint32_t i = 0; i < w->node->n_in; i++)
		io.in[i] = put(t, &w->in[i]);
	RIG_OK(t->b->kernel(t->dev, w, &k, &err));
	run(t, k, &io);
	RIG_OK(t->b->kernel(t->dev, next, &k, &err));
	run(t, k, &second);
	compare_fused(t, w, next, false, &io, two, cut);
	compare_fused(t, w, next, true, &io, two, cut);
	for (uint32_t i = 0; i < w->node->n_in; i++)
		t->b->free(t->dev, (void *)io.in[i]);
	t->b->free(t->dev, two[0]);
	t->b->free(t->dev, two[1]);
}

/* Of kernels for both, without and with what lies between, how many there are of each. */
static const struct {
	const char *name;
	enum follower f;
	uint32_t kernels; /* of two a pair */
	bool in_training; /* where backward reads what lies between */
} followers[] = {
		{"relu", RELU, 1, true},
		{"gelu by tanh", GELU, 2, true},
		{"gelu by tanh, odd", ODD_GELU, 1, false},
		{"gelu", ERF_GELU, 0, false},
};

START_TEST(kernels)
{
	uint64_t seed = ff_test_seed(70);
	struct ff_backend b = backend_with(true);
	struct bench t = {.b = &b};
	int64_t cut = 0;
	struct ff_error err;

	offered = fused = 0;
	RIG_OK(b.open(0, &t.dev, &err));
	RIG_OK(b.stream(t.dev, false, &t.stream, &err));
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
		draw_graph(&t.r, t.type, 1 + (int32_t)ff_random_below(&t.r, 9), 1, followers[_i].f,
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
	b.stream_close(t.stream);
	b.close(t.dev);
	printf("# %s: %u of %u are fused, %d numbers cut off\n", followers[_i].name, fused, offered,
			(int)cut);
	ck_assert_uint_eq(offered, 2 * SHAPES);
	if (has_all()) {
		ck_assert_uint_eq(fused, followers[_i].kernels * SHAPES);
		if (followers[_i].f == RELU)
			ck_assert_int_gt(cut, SHAPES);
	}
}
END_TEST

/* ---- executors ---- */

/* Runs of kernels in one step. */
static uint32_t step_runs(struct scene *s, const struct ff_backend *b)
{
	struct ff_error err;
	struct rig r;

	rig_open(&r, &s->graph, &s->machine, &s->strategy, b, NULL, s->data, s->optimizer, &s->opt,
			0, &s->arena);
	runs = 0;
	RIG_OK(ff_executor_step(r.x, 0, &err));
	rig_close(&r);
	return runs;
}

/* Data parallelism over micro-batches, some operators computed again. */
static void open_layers(struct scene *s, struct ff_random *r, enum follower f, uint32_t layers,
		uint32_t devices, uint32_t micro_batches, bool again)
{
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	draw_graph(r, FF_F32, 6, layers, f, &s->arena, &s->graph);
	RIG_OK(random_machine(r, devices, &s->arena, &s->machine, &err));
	RIG_OK(ff_graph_micro(&s->graph, micro_batches, &s->arena, &s->micro, &err));
	RIG_OK(ff_strategy_data_parallel(&s->micro, devices, &s->arena, &s->strategy, &err));
	s->strategy.micro_batches = micro_batches;
	for (uint32_t i = 0; i < s->graph.n_nodes && again; i++)
		s->strategy.recompute[i] = !ff_node_is_loss(&s->graph, i) &&
					   !ff_node_is_source(&s->graph, i) &&
					   !ff_node_is_parameter(&s->graph, i) &&
					   ff_random_below(r, 2);
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	scene_optimizer(s, (enum ff_optimizer_id)(s->opt.seed % FF_OPTIMIZER_COUNT));
}

/* With and without on the same schedule; returns how many pairs are fused. */
static uint32_t compare_steps(struct scene *s)
{
	struct ff_backend with = backend_with(true), without = backend_with(false);
	struct result one, two;
	uint32_t here;

	fused = 0;
	scene_run(s, &s->machine, &s->strategy, &with, NULL, 0, &one);
	here = fused;
	scene_run(s, &s->machine, &s->strategy, &without, NULL, 0, &two);
	scene_compare(s, &one, &two);
	ck_assert_uint_eq(step_runs(s, &without) - step_runs(s, &with), here);
	return here;
}

START_TEST(drawn_strategies)
{
	uint64_t seed = ff_test_seed(71);

	for (uint32_t i = 0; i < chosen_rounds(SCENES); i++) {
		struct ff_random r = {seed, i, 0};
		struct scene s;

		scene_open(&s, FF_F32, 6, &r);
		compare_steps(&s);
		scene_close(&s);
	}
}
END_TEST

START_TEST(drawn_layers)
{
	uint64_t seed = ff_test_seed(73);
	uint32_t all = 0, most = 0;

	for (uint32_t i = 0; i < chosen_rounds(SCENES / 2); i++) {
		struct ff_random r = {seed, i + 1000 * (uint64_t)_i, 0};
		uint32_t layers = 1 + ff_random_below(&r, 3), devices = 1 + ff_random_below(&r, 3);
		uint32_t micro_batches = 1 + ff_random_below(&r, 2), here;
		bool again = ff_random_below(&r, 2);
		struct scene s;

		open_layers(&s, &r, followers[_i].f, layers, devices, micro_batches, again);
		here = compare_steps(&s);
		printf("# case %u: %u devices, %u micro-batches%s%s: %u of %u\n", i, devices,
				micro_batches, again ? ", again" : "",
				s.machine.overlap ? ", overlap" : "", here,
				layers * devices * micro_batches);
		if (has_all() && !again)
			ck_assert_uint_eq(here, followers[_i].in_training
								? layers * devices * micro_batches
								: 0);
		all += here;
		most += layers * devices * micro_batches;
		scene_close(&s);
	}
	printf("# %s: %u fused of %u, and what is computed again\n", followers[_i].name, all, most);
	if (has_all() && followers[_i].in_training)
		ck_assert_uint_ge(2 * all, most);
	if (!followers[_i].kernels)
		ck_assert_uint_eq(all, 0);
}
END_TEST

static int64_t (*honest_workspace)(const struct ff_kernel *k);

static int64_t greedy_workspace(const struct ff_kernel *k)
{
	return fused ? INT64_MAX : honest_workspace(k);
}

/* Not fused where FF_FUSE says no, or where the kernel for both needs more scratch than there is.
 */
START_TEST(not_fused)
{
	struct ff_backend with = backend_with(true), without = backend_with(false), greedy = with;

	honest_workspace = with.workspace;
	greedy.workspace = greedy_workspace;
	for (uint32_t i = 0; i < 6; i++) {
		struct ff_random r = {ff_test_seed(72), i, 0};
		uint32_t plain;
		struct scene s;

		open_layers(&s, &r, i % 2 ? GELU : RELU, 2, 1 + i % 3, 1, false);
		plain = step_runs(&s, &without);
		fused = 0;
		ck_assert_uint_eq(step_runs(&s, &greedy), plain);
		if (has_all())
			ck_assert_uint_gt(fused, 0);
		ck_assert_int_eq(setenv("FF_FUSE", "0", 1), 0);
		ck_assert_uint_eq(step_runs(&s, &with), plain);
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
