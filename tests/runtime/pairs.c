/* Pairs of operators by kernels for both: what is shared by their tests.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ff/builder.h"
#include "ff/fusion.h"
#include "ff/micro.h"
#include "typed.h"

uint32_t pairs_offered[2], pairs_fused[2], pairs_runs;

static int counting_fuse(struct ff_device *dev, const struct ff_work *const *w, uint32_t n,
		uint32_t how, struct ff_kernel **ret, struct ff_error *err)
{
	int code = chosen_backend()->kernel.fuse(dev, w, n, how, ret, err);

	pairs_offered[w[0]->pass]++;
	pairs_fused[w[0]->pass] += *ret != NULL;
	return code;
}

static int counting_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	pairs_runs++;
	return chosen_backend()->kernel.run(s, k, io, err);
}

bool pairs_has_all(void)
{
	const char *module = getenv("FF_CUDA_MODULE");

	return module && strstr(module, "double") && !getenv("FF_DOUBLE_LACKS");
}

struct ff_backend pairs_backend(bool fusing)
{
	struct ff_backend b = *rig_backend(false);

	ck_assert_ptr_nonnull(b.kernel.fuse);
	b.kernel.fuse = fusing ? counting_fuse : NULL;
	b.kernel.run = counting_run;
	return b;
}

/* ---- graphs ---- */

static uint32_t draw_follower(
		struct ff_builder *b, enum pairs_follower f, const char *name, const uint32_t *in)
{
	union ff_attrs gelu = ff_attrs_preset(FF_OP_GELU);

	gelu.unary.form = f != PAIRS_ERF_GELU;
	return f == PAIRS_RELU ? ff_builder_add(b, FF_OP_RELU, name, NULL, in, 1)
			       : ff_builder_add(b, FF_OP_GELU, name, &gelu, in, 1);
}

/* A convolution or linear layer of a drawn shape. */
static uint32_t draw_layer(struct ff_random *r, bool image, enum pairs_follower f,
		struct ff_builder *b, const char *name, uint32_t in)
{
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR), conv = ff_attrs_preset(FF_OP_CONV2D);

	if (!image) {
		fc.linear.out_features = 1 + (int32_t)ff_random_below(r, 40);
		if (f != PAIRS_RELU)
			fc.linear.out_features = 8 * (1 + (int32_t)ff_random_below(r, 5)) +
						 (f == PAIRS_ODD_GELU);
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

void pairs_graph(struct ff_random *r, enum ff_dtype type, int32_t batch, uint32_t n,
		enum pairs_follower f, struct ff_arena *a, struct ff_graph *ret)
{
	bool image = f == PAIRS_RELU && ff_random_below(r, 2);
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

/* ---- kernels ---- */

void pairs_bench_open(struct pairs_bench *t, const struct ff_backend *b)
{
	struct ff_error err;

	*t = (struct pairs_bench){.b = b};
	RIG_OK(b->device.open(0, &t->dev, &err));
	RIG_OK(b->stream.open(t->dev, false, &t->stream, &err));
}

void pairs_bench_close(struct pairs_bench *t)
{
	t->b->stream.close(t->stream);
	t->b->device.close(t->dev);
}

void *pairs_put(struct pairs_bench *t, const struct ff_region *region, double scale)
{
	int64_t n = ff_region_volume(region), bytes = n * ff_dtype_bytes(t->type);
	void *host = malloc((size_t)bytes + 1), *device;

	ck_assert_ptr_nonnull(host);
	for (int64_t i = 0; i < n; i++)
		typed_put(t->type, host, i,
				scale * ((double)ff_random_below(&t->r, 2001) / 1000 - 1));
	device = n ? chosen_put(t->dev, t->stream, host, (size_t)bytes) : NULL;
	free(host);
	return device;
}

void pairs_run(struct pairs_bench *t, struct ff_kernel *k, struct ff_kernel_io *io)
{
	int64_t bytes = t->b->kernel.workspace(k);
	struct ff_error err;

	io->workspace = chosen_put(t->dev, t->stream, NULL, (size_t)bytes + 64);
	RIG_OK(t->b->kernel.run(t->stream, k, io, &err));
	RIG_OK(t->b->stream.drain(t->stream, &err));
	t->b->memory.free(t->dev, io->workspace);
	t->b->kernel.close(k);
}

int64_t pairs_compare(struct pairs_bench *t, enum ff_dtype type, const void *two, const void *one,
		int64_t n)
{
	/* where inputs may be rounded to TF32, a GPU's libraries sum up in other orders of these */
	bool is_rough = scene_tolerance() > SCENE_TOLERANCE;
	double bound = type == FF_BF16 ? 1.0 / 128 : is_rough ? SCENE_ROUGH : 1e-5, size = 0;
	size_t bytes = (size_t)(n * ff_dtype_bytes(type));
	void *a = malloc(bytes), *b = malloc(bytes);
	int64_t zero = 0;

	ck_assert(a && b);
	chosen_get(t->stream, a, two, bytes);
	chosen_get(t->stream, b, one, bytes);
	for (int64_t i = 0; i < n; i++)
		size = fmax(size, fabs(typed_get(type, a, i)));
	for (int64_t i = 0; i < n; i++) {
		double x = typed_get(type, a, i), y = typed_get(type, b, i);

		ck_assert_msg(fabs(x - y) <= bound * size, "element %d: %.9g, but fused %.9g",
				(int)i, x, y);
		zero += y == 0;
	}
	free(a);
	free(b);
	return zero;
}

/* ---- executors ---- */

uint32_t pairs_predicted(const struct ff_graph *g, enum ff_pass pass)
{
	uint32_t fused = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];
		struct ff_region box = {.rank = n->n_dims};
		struct ff_work w;

		if (!ff_node_is_computed(g, i))
			continue;
		for (uint32_t d = 0; d < n->n_dims; d++)
			box.hi[d] = n->dim[d].extent;
		ff_work_fill(g, i, &box, pass, &w);
		fused += ff_fused_bytes(&w) >= 0;
	}
	return fused;
}

uint32_t pairs_step_runs(struct scene *s, const struct ff_backend *b)
{
	struct ff_error err;
	struct rig r;

	rig_open(&r, scene_setup(s, b));
	pairs_runs = 0;
	RIG_OK(ff_executor_step(r.x, 0, &err));
	rig_close(&r);
	return pairs_runs;
}

void pairs_scene(struct scene *s, struct ff_random *r, enum pairs_follower f, uint32_t layers,
		uint32_t devices, uint32_t micro_batches, bool recomputed)
{
	struct ff_error err;

	memset(s, 0, sizeof(*s));
	ff_arena_init(&s->arena);
	pairs_graph(r, FF_F32, 6, layers, f, &s->arena, &s->graph);
	RIG_OK(random_machine(r, devices, &s->arena, &s->machine, &err));
	RIG_OK(ff_graph_micro(&s->graph, micro_batches, &s->arena, &s->micro, &err));
	RIG_OK(ff_strategy_data_parallel(&s->micro, devices, &s->arena, &s->strategy, &err));
	s->strategy.micro_batches = micro_batches;
	for (uint32_t i = 0; i < s->graph.n_nodes && recomputed; i++)
		s->strategy.recompute[i] = !ff_node_is_loss(&s->graph, i) &&
					   !ff_node_is_source(&s->graph, i) &&
					   !ff_node_is_parameter(&s->graph, i) &&
					   ff_random_below(r, 2);
	RIG_OK(ff_dataset_open("synthetic:18", &s->graph, ff_random_u32(r), &s->data, &err));
	s->opt.seed = ff_random_u32(r);
	scene_optimizer(s, (enum ff_optimizer_id)(s->opt.seed % FF_OPTIMIZER_COUNT));
}

void pairs_compare_steps(struct scene *s)
{
	struct ff_backend with = pairs_backend(true), without = pairs_backend(false);
	struct result one, two;
	uint32_t here[2], runs;

	memset(pairs_fused, 0, sizeof(pairs_fused));
	scene_run(s, &s->machine, &s->strategy, &with, NULL, 0, &one);
	memcpy(here, pairs_fused, sizeof(here));
	scene_run(s, &s->machine, &s->strategy, &without, NULL, 0, &two);
	scene_compare(s, &one, &two);
	runs = pairs_step_runs(s, &without) - pairs_step_runs(s, &with);
	memcpy(pairs_fused, here, sizeof(here));
	/* of a GPU some may need more scratch than there is */
	ck_assert_uint_le(runs, here[FF_FORWARD] + here[FF_BACKWARD]);
	if (pairs_has_all())
		ck_assert_uint_eq(runs, here[FF_FORWARD] + here[FF_BACKWARD]);
}
