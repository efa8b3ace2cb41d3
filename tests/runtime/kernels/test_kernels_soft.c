/* Softmax and its logarithm along an axis that is cut: their preludes, what is exchanged, and the
 * kernels behind it, forward and backward, against the definition.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "box_points.h"
#include "chosen.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/work.h"
#include "typed.h"

#define ROUNDS 200
#define MAX_PARTS 4

static const struct ff_backend *backend;

struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	uint32_t node, prelude, axis;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_region box[MAX_PARTS]; /* of the parts, which differ along the axis alone */
	uint32_t parts;
	double *x, *y, *dy, *dx; /* whole tensors in the order of their axes */
	float *pairs;            /* of all parts, as a part's shard of them lies */
	float *dpairs;
};

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

static int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

/* x -> node -> flat -> linear -> loss */
static void build(struct trial *t, enum ff_op op, enum ff_dtype type)
{
	union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x, a = ff_attrs_preset(op);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	x.input.rank = draw(t, 2, FF_MAX_RANK);
	for (int32_t i = 0; i < x.input.rank; i++)
		x.input.shape[i] = draw(t, 1, x.input.rank > 4 ? 4 : 7);
	a.softmax.axis = draw(t, 1, x.input.rank - 1);
	t->axis = (uint32_t)a.softmax.axis;
	/* rows of several runs, and many rows side by side */
	if (x.input.rank < 4 && draw(t, 0, 4) == 0)
		x.input.shape[draw(t, 1, x.input.rank - 1)] = draw(t, 500, 1500);
	if (draw(t, 0, 3) == 0)
		x.input.shape[t->axis] = draw(t, 30, 100);
	y.input = (struct ff_input_attrs){
			.rank = 1, .shape = {x.input.shape[0]}, .dtype = FF_I32, .classes = 2};
	fc.linear.out_features = 2;
	check(ff_builder_create("soft", &t->arena, &b, &err), &err);
	ff_builder_set_dtype(b, type);
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = ff_builder_add(b, op, "node", &a, in, 1);
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "labels", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	check(ff_builder_finish(b, &t->graph, &err), &err);
	t->node = ff_graph_find(&t->graph, "node");
	t->prelude = ff_graph_find(&t->graph, "node.statistics");
}

static const struct ff_operand *data_of(const struct trial *t)
{
	return &t->graph.nodes[t->node].in_map[0];
}

static int64_t index_of(const struct ff_operand *o, const int32_t *at)
{
	int64_t i = 0;

	for (uint32_t k = 0; k < o->rank; k++)
		i = i * o->shape[k] + at[k];
	return i;
}

/* Some of every axis; of the softmax' own all, in parts. */
static void cut(struct trial *t)
{
	const struct ff_operand *o = data_of(t);
	int32_t extent = o->shape[t->axis];
	struct ff_region box = {.rank = o->rank};

	for (uint32_t i = 0; i < o->rank; i++) {
		box.lo[i] = draw(t, 0, 1) ? 0 : draw(t, 0, o->shape[i] - 1);
		box.hi[i] = draw(t, 0, 1) ? o->shape[i] : draw(t, box.lo[i] + 1, o->shape[i]);
	}
	t->parts = (uint32_t)draw(t, 1, extent < MAX_PARTS ? extent : MAX_PARTS);
	for (uint32_t k = 0; k < t->parts; k++) {
		t->box[k] = box;
		t->box[k].lo[t->axis] = ff_part_start(extent, t->parts, k);
		t->box[k].hi[t->axis] = ff_part_start(extent, t->parts, k + 1);
	}
}

/* Now and then a part that has nothing, as masks make it. */
static void define(struct trial *t)
{
	const struct ff_node *n = &t->graph.nodes[t->node];
	const struct ff_operand *o = data_of(t);
	bool log_of = n->op == FF_OP_LOG_SOFTMAX, masked = t->parts > 1 && draw(t, 0, 3) == 0;
	struct ff_region row = t->box[0];
	int32_t at[FF_MAX_DIMS];
	int64_t volume = 1;

	for (uint32_t i = 0; i < o->rank; i++)
		volume *= o->shape[i];
	t->x = ff_arena_array(&t->arena, (size_t)volume, sizeof(double));
	t->y = ff_arena_array(&t->arena, (size_t)volume, sizeof(double));
	t->dy = ff_arena_array(&t->arena, (size_t)volume, sizeof(double));
	t->dx = ff_arena_array(&t->arena, (size_t)volume, sizeof(double));
	for (int64_t i = 0; i < volume; i++) {
		t->x[i] = typed_round(o->dtype, (float)ff_random_unit(&t->r) * 8 - 4);
		t->dy[i] = typed_round(o->dtype, (float)ff_random_unit(&t->r) * 2 - 1);
	}
	row.hi[t->axis] = row.lo[t->axis] + 1;
	memcpy(at, row.lo, sizeof(at));
	do {
		double most = -INFINITY, sum = 0, all = 0;
		int32_t extent = o->shape[t->axis], first = masked ? t->box[0].hi[t->axis] : 0;

		for (int32_t i = 0; i < first && !log_of; i++) {
			at[t->axis] = i;
			t->x[index_of(o, at)] = -INFINITY;
		}
		for (int pass = 0; pass < 4; pass++)
			for (at[t->axis] = 0; at[t->axis] < extent; at[t->axis]++) {
				int64_t i = index_of(o, at);
				double y = exp(t->x[i] - most) / sum;

				if (pass == 0)
					most = fmax(most, t->x[i]);
				else if (pass == 1)
					sum += exp(t->x[i] - most);
				else if (pass == 2)
					all += log_of ? t->dy[i] : t->dy[i] * y;
				else
					t->dx[i] = log_of ? t->dy[i] - y * all
							  : y * (t->dy[i] - all);
				if (pass == 3)
					t->y[i] = log_of ? t->x[i] - most - log(sum) : y;
			}
		at[t->axis] = row.lo[t->axis];
	} while (next(&row, at));
}

/* ---- kernels ---- */

static void *put(struct trial *t, const struct ff_region *region, const double *from)
{
	const struct ff_operand *o = data_of(t);
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(o->dtype));
	void *shard = malloc(bytes), *device;
	int32_t at[FF_MAX_DIMS];

	memset(shard, 0xff, bytes);
	memcpy(at, region->lo, sizeof(at));
	do {
		if (from)
			typed_put(o->dtype, shard, ff_region_offset(o->order, region, at),
					from[index_of(o, at)]);
	} while (next(region, at));
	device = chosen_put(t->dev, t->stream, from ? shard : NULL, bytes);
	free(shard);
	return device;
}

static void compare(struct trial *t, const char *what, const struct ff_region *region,
		const void *device, const double *want)
{
	const struct ff_operand *o = data_of(t);
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(o->dtype));
	double unit = o->dtype == FF_BF16 ? BF16_HALF_ULP : 1e-5;
	void *shard = malloc(bytes);
	int32_t at[FF_MAX_DIMS];

	chosen_get(t->stream, shard, device, bytes);
	memcpy(at, region->lo, sizeof(at));
	do {
		double have = typed_get(o->dtype, shard, ff_region_offset(o->order, region, at));
		double expected = want[index_of(o, at)];

		ck_assert_msg(fabs(have - expected) <= unit * fabs(expected) + 1e-5,
				"%s at (%d, %d, %d, %d) is %g, expected %g, axis %u in %u parts",
				what, at[0], at[1], at[2], at[3], have, expected, t->axis,
				t->parts);
	} while (next(region, at));
	free(shard);
}

static void run(struct trial *t, const struct ff_work *w, struct ff_kernel_io *io)
{
	struct ff_kernel *k;
	struct ff_error err;

	check(backend->kernel.open(t->dev, w, &k, &err), &err);
	if (backend->kernel.workspace(k))
		io->workspace = chosen_put(
				t->dev, t->stream, NULL, (size_t)backend->kernel.workspace(k));
	check(backend->kernel.run(t->stream, k, io, &err), &err);
	check(backend->stream.drain(t->stream, &err), &err);
	backend->kernel.close(k);
	backend->memory.free(t->dev, io->workspace);
}

/* What the preludes of all parts write becomes one. */
static void run_statistics(struct trial *t)
{
	int64_t n = 0;

	for (uint32_t k = 0; k < t->parts; k++) {
		struct ff_kernel_io io = {0};
		struct ff_work w;
		float *own;

		ff_work_fill(&t->graph, t->prelude, &t->box[k], FF_FORWARD, &w);
		n = ff_region_volume(&w.out[0]);
		if (!k)
			t->pairs = ff_arena_array(&t->arena, (size_t)n, sizeof(float));
		own = ff_arena_array(&t->arena, (size_t)n, sizeof(float));
		io.in[0] = put(t, &w.in[0], t->x);
		io.out[0] = chosen_put(t->dev, t->stream, NULL, (size_t)n * sizeof(float));
		run(t, &w, &io);
		chosen_get(t->stream, own, io.out[0], (size_t)n * sizeof(float));
		if (k)
			ff_reduce(FF_REDUCE_LOG_SUM_EXP, FF_F32, n, own, t->pairs);
		else
			memcpy(t->pairs, own, (size_t)n * sizeof(float));
		backend->memory.free(t->dev, (void *)(uintptr_t)io.in[0]);
		backend->memory.free(t->dev, io.out[0]);
	}
}

/* Forward, or what backward adds up of all parts. */
static void run_node(struct trial *t, enum ff_pass pass)
{
	for (uint32_t k = 0; k < t->parts; k++) {
		struct ff_kernel_io io = {0};
		struct ff_work w;
		size_t bytes;
		float *own;

		ff_work_fill(&t->graph, t->node, &t->box[k], pass, &w);
		w.need_din[1] = pass == FF_BACKWARD;
		w.need_din[0] = false;
		bytes = (size_t)ff_region_volume(&w.in[1]) * sizeof(float);
		io.in[0] = put(t, &w.in[0], t->x);
		io.in[1] = chosen_put(t->dev, t->stream, t->pairs, bytes);
		if (pass == FF_FORWARD)
			io.out[0] = put(t, &w.out[0], NULL);
		else
			io.dout[0] = put(t, &w.out[0], t->dy);
		io.din[1] = chosen_put(t->dev, t->stream, NULL, bytes);
		run(t, &w, &io);
		if (pass == FF_FORWARD)
			compare(t, "y", &w.out[0], io.out[0], t->y);
		own = ff_arena_array(&t->arena, bytes / sizeof(float), sizeof(float));
		chosen_get(t->stream, own, io.din[1], bytes);
		if (!k)
			t->dpairs = ff_arena_array(&t->arena, bytes / sizeof(float), sizeof(float));
		for (size_t i = 0; i < bytes / sizeof(float); i++)
			t->dpairs[i] += own[i];
		backend->memory.free(t->dev, (void *)(uintptr_t)io.in[0]);
		backend->memory.free(t->dev, (void *)(uintptr_t)io.in[1]);
		backend->memory.free(t->dev, io.out[0]);
		backend->memory.free(t->dev, (void *)(uintptr_t)io.dout[0]);
		backend->memory.free(t->dev, io.din[1]);
	}
}

/* In place of the gradient of y. */
static void run_slope(struct trial *t)
{
	for (uint32_t k = 0; k < t->parts; k++) {
		struct ff_kernel_io io = {0};
		struct ff_work w;

		ff_work_fill(&t->graph, t->prelude, &t->box[k], FF_BACKWARD, &w);
		w.need_din[0] = true;
		io.in[0] = put(t, &w.in[0], t->x);
		io.dout[0] = chosen_put(t->dev, t->stream, t->dpairs,
				(size_t)ff_region_volume(&w.out[0]) * sizeof(float));
		io.din[0] = put(t, &w.in[0], t->dy);
		run(t, &w, &io);
		compare(t, "dx", &w.in[0], io.din[0], t->dx);
		backend->memory.free(t->dev, (void *)(uintptr_t)io.in[0]);
		backend->memory.free(t->dev, (void *)(uintptr_t)io.dout[0]);
		backend->memory.free(t->dev, io.din[0]);
	}
}

START_TEST(kernels)
{
	uint64_t seed = ff_test_seed(61);
	enum ff_dtype type = _i / 2 ? FF_BF16 : FF_F32;

	for (uint32_t i = 0; i < ff_test_rounds(ROUNDS); i++) {
		struct trial t = {.r = {seed + (uint64_t)_i, i, 0}};
		struct ff_error err;

		ff_arena_init(&t.arena);
		check(backend->device.open(0, &t.dev, &err), &err);
		check(backend->stream.open(t.dev, false, &t.stream, &err), &err);
		build(&t, _i % 2 ? FF_OP_LOG_SOFTMAX : FF_OP_SOFTMAX, type);
		cut(&t);
		define(&t);
		run_statistics(&t);
		run_node(&t, FF_FORWARD);
		run_node(&t, FF_BACKWARD);
		run_slope(&t);
		backend->stream.close(t.stream);
		backend->device.close(t.dev);
		ff_arena_finish(&t.arena);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("soft");
	TCase *c = tcase_create("kernels");

	backend = chosen_backend();
	tcase_set_timeout(c, 0);
	tcase_add_loop_test(c, kernels, 0, 4);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
