/* Attention and its prelude, forward and backward, on random boxes of random nodes, against
 * their definitions.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "chosen.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/work.h"
#include "inputs.h"
#include "typed.h"

#define ROUNDS 120
#define INPUTS 5
#define CROWDS 4
#define CROWD 1370 /* samples */
/* Odd ones are slow on the double: kernels of our own have them, which sanitizers see in smaller
 * cases. */
#ifdef __SANITIZE_ADDRESS__
#define CROWD_KINDS 1
#else
#define CROWD_KINDS 2
#endif
#define TOLERANCE 1e-4 /* of the largest magnitude */

static const struct ff_backend *backend;

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

static int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

/* ---- graphs ---- */

/* Mostly small; now and then more than a tile of queries, keys or elements. */
static void draw_node(struct trial *t, union ff_attrs *a, int32_t shape[4][4])
{
	int32_t samples = draw(t, 1, 3), key_heads = draw(t, 1, 3);
	int32_t queries = draw(t, 0, 3) ? draw(t, 1, 9) : draw(t, 20, 150);
	int32_t keys = draw(t, 0, 3) ? draw(t, 1, 9) : draw(t, 20, 150);

	t->size = draw(t, 0, 9) ? draw(t, 1, 9) : draw(t, 120, 140);
	if (t->rounds && draw(t, 0, 3)) /* what libraries have */
		t->size = (t->size + 7) / 8 * 8;
	t->shared = draw(t, 1, 3);
	if (t->crowd) {
		samples = CROWD;
		key_heads = t->crowd;
		queries = keys = 3;
		t->size = 8;
		t->shared = 1;
	}
	t->masked = draw(t, 0, 1);
	a->attention.head_dim = t->size;
	a->attention.causal = draw(t, 0, 1);
	a->attention.scale = draw(t, 0, 1) * 0.375;
	a->attention.dropout = draw(t, 0, 1) * 0.25 * draw(t, 1, 3);
	if (t->crowd)
		a->attention.dropout = 0;
	t->scale = a->attention.scale > 0 ? (double)(float)a->attention.scale : 1 / sqrt(t->size);
	memcpy(shape[QUERY], (int32_t[]){samples, queries, key_heads * t->shared * t->size},
			3 * sizeof(int32_t));
	for (int i = KEY; i <= VALUE; i++)
		memcpy(shape[i], (int32_t[]){samples, keys, key_heads * t->size},
				3 * sizeof(int32_t));
	memcpy(shape[MASK], (int32_t[]){samples, key_heads * t->shared, queries, keys},
			4 * sizeof(int32_t));
	for (int i = 1; i < 4; i++)
		if (draw(t, 0, 1))
			shape[MASK][i] = 1;
}

/* inputs -> node -> linear -> loss */
static void build(struct trial *t, enum ff_dtype type)
{
	static const char *const names[] = {"query", "key", "value", "mask"};
	union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION), fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	int32_t shape[4][4];
	uint32_t in[4], node;
	struct ff_builder *b;
	struct ff_error err;

	draw_node(t, &a, shape);
	check(ff_builder_create("attention", &t->arena, &b, &err), &err);
	ff_builder_set_dtype(b, type);
	for (int i = 0; i < 3 + t->masked; i++)
		in[i] = add_input(b, names[i], i < MASK ? 3 : 4, shape[i], 0);
	node = ff_builder_add(b, FF_OP_ATTENTION, "node", &a, in, 3 + t->masked);
	node = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, &node, 1);
	fc.linear.out_features = 2;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &node, 1);
	in[1] = add_input(b, "labels", 1, shape[QUERY], 2);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	check(ff_builder_finish(b, &t->graph, &err), &err);
	t->node = &t->graph.nodes[ff_graph_find(&t->graph, "node")];
	t->prelude = &t->graph.nodes[ff_graph_find(&t->graph, "node.statistics")];
}

static void draw_box(struct trial *t)
{
	t->box.rank = t->node->n_dims;
	for (uint32_t d = 0; d < t->box.rank; d++) {
		int32_t extent = t->node->dim[d].extent;
		bool all = draw(t, 0, 1) || t->crowd;

		t->box.lo[d] = all ? 0 : draw(t, 0, extent - 1);
		t->box.hi[d] = all ? extent : draw(t, t->box.lo[d] + 1, extent);
	}
}

static double *random_array(struct trial *t, const struct ff_operand *o)
{
	int64_t n = volume(o);
	double *v = new_array(t, n);

	for (int64_t i = 0; i < n; i++)
		v[i] = typed_round(o->dtype, (float)ff_random_unit(&t->r) * 4 - 2);
	return v;
}

/* ---- kernels ---- */

/* A dense shard, NaN where `from` is NULL. */
static void *shard_of(struct trial *t, const struct ff_operand *o, const struct ff_region *region,
		const double *from)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(o->dtype));
	int32_t at[FF_MAX_DIMS];
	void *shard = malloc(bytes), *device;

	ck_assert_ptr_nonnull(shard);
	memset(shard, 0xff, bytes);
	memcpy(at, region->lo, sizeof(at));
	do
		if (from)
			typed_put(o->dtype, shard, ff_region_offset(o->order, region, at),
					from[index_of(o, at)]);
	while (next(region, at));
	device = chosen_put(t->dev, t->stream, shard, bytes);
	free(shard);
	return device;
}

/* Pairs (log(sum) as its largest and what is beside it) or whatever two numbers. */
static void *pairs_of(struct trial *t, const struct ff_operand *o, const struct ff_region *region,
		const double *first, const double *second)
{
	double *both = new_array(t, volume(o));

	for (int64_t i = 0; i < volume(o) / 2; i++) {
		both[2 * i] = first[i] - (second ? 0 : 0.5);
		both[2 * i + 1] = second ? second[i] : expm1(0.5);
	}
	return shard_of(t, o, region, both);
}

/* `terms`: magnitudes of what may be rounded before it is added up, or NULL. */
static void compare(struct trial *t, const char *what, const struct ff_operand *o,
		const struct ff_region *region, const void *device, const double *want,
		const double *terms)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(o->dtype));
	double rounding = o->dtype == FF_BF16 ? BF16_HALF_ULP : 0;
	double largest = 0.05 + 0.01 * t->size; /* beside what cancels */
	void *shard = malloc(bytes);
	int32_t at[FF_MAX_DIMS];

	chosen_get(t->stream, shard, device, bytes);
	for (int64_t i = 0; i < volume(o); i++)
		if (isfinite(want[i]))
			largest = fmax(largest, fabs(want[i]));
	memcpy(at, region->lo, sizeof(at));
	do {
		double have = typed_get(o->dtype, shard, ff_region_offset(o->order, region, at));
		double expected = want[index_of(o, at)];
		/* each may be rounded, and what comes of each head */
		double sum = terms && t->rounds ? 2 * terms[index_of(o, at)] : 0;

		ck_assert_msg(have == expected ||
						fabs(have - expected) <=
								TOLERANCE * largest +
										rounding * (fabs(expected) +
													   sum),
				"%s at (%d, %d, %d) is %g, expected %g", what, at[0], at[1], at[2],
				have, expected);
	} while (next(region, at));
	free(shard);
}

/* Pairs whose two numbers are the logarithm of a sum, as one. */
static void compare_logs(struct trial *t, const struct ff_operand *o,
		const struct ff_region *region, const void *device, const double *want)
{
	int64_t n = ff_region_volume(region);
	float *pairs = malloc((size_t)n * sizeof(*pairs));
	int32_t at[FF_MAX_DIMS];

	chosen_get(t->stream, pairs, device, (size_t)n * sizeof(*pairs));
	memcpy(at, region->lo, sizeof(at));
	do {
		const float *pair = pairs + ff_region_offset(o->order, region, at);
		double expected = want[index_of(o, at) / 2];

		if (at[3] == 1)
			continue;
		if (expected > -INFINITY)
			ck_assert_double_eq_tol(
					(double)pair[0] + log1p((double)pair[1]), expected, 1e-4);
		else
			ck_assert_float_eq(pair[0], -INFINITY);
	} while (next(region, at));
	free(pairs);
}

/* Twice with one result, but where something is replaced. */
static void run(struct trial *t, const struct ff_work *w, const struct ff_kernel_io *io, int times)
{
	struct ff_kernel_io ready = *io;
	struct ff_kernel *k;
	struct ff_error err;

	ready.seed = t->seed;
	ready.step = t->step;
	ready.micro = t->micro;
	ready.training = t->training;
	check(backend->kernel.open(t->dev, w, &k, &err), &err);
	if (backend->kernel.workspace(k))
		ready.workspace = chosen_put(
				t->dev, t->stream, NULL, (size_t)backend->kernel.workspace(k));
	for (int i = 0; i < times; i++) {
		check(backend->kernel.run(t->stream, k, &ready, &err), &err);
		check(backend->stream.drain(t->stream, &err), &err);
	}
	backend->kernel.close(k);
	backend->memory.free(t->dev, ready.workspace);
}

static void give_back(struct trial *t, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < INPUTS; i++) {
		backend->memory.free(t->dev, (void *)(uintptr_t)io->in[i]);
		backend->memory.free(t->dev, io->din[i]);
	}
	for (uint32_t k = 0; k < 2; k++) {
		backend->memory.free(t->dev, io->out[k]);
		backend->memory.free(t->dev, (void *)(uintptr_t)io->dout[k]);
	}
}

static struct ff_work work_of(struct trial *t, const struct ff_node *n, enum ff_pass pass)
{
	struct ff_work w;

	ff_work_fill(&t->graph, (uint32_t)(n - t->graph.nodes), &t->box, pass, &w);
	return w;
}

static void fill_data(struct trial *t, const struct ff_work *w, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < 3u + t->masked; i++)
		io->in[i] = shard_of(t, &w->node->in_map[i], &w->in[i], t->in[i]);
}

static bool all_keys(const struct trial *t)
{
	return ff_region_size(&t->box, 3) == t->node->dim[3].extent;
}

/* Of the keys of the box; where those are all, nothing. */
static void run_statistics(struct trial *t)
{
	struct ff_work w = work_of(t, t->prelude, FF_FORWARD);
	const struct ff_operand *o = t->prelude->out_map;
	double *want = new_array(t, volume(o));
	struct ff_kernel_io io = {.in = {NULL}};
	int32_t at[FF_MAX_DIMS];

	memcpy(at, t->box.lo, sizeof(at));
	do
		want[pair_of(t, at)] += exp(score(t, at));
	while (next(&t->box, at));
	for (int64_t i = 0; i < volume(o) / 2; i++)
		want[i] = all_keys(t) ? 0 : log(want[i]);
	fill_data(t, &w, &io);
	io.out[0] = shard_of(t, o, &w.out[0], NULL);
	run(t, &w, &io, 2);
	compare_logs(t, o, &w.out[0], io.out[0], want);
	give_back(t, &io);
}

static void run_forward(struct trial *t, const double *out)
{
	struct ff_work w = work_of(t, t->node, FF_FORWARD);
	const struct ff_operand *o = t->node->out_map;
	uint32_t pairs = t->node->n_data - 1;
	struct ff_kernel_io io = {.in = {NULL}};

	fill_data(t, &w, &io);
	/* a part that has all keys does not look at it */
	io.in[pairs] = all_keys(t) ? shard_of(t, &o[1], &w.in[pairs], NULL)
				   : pairs_of(t, &o[1], &w.in[pairs], t->log_sum, NULL);
	for (uint32_t k = 0; k < 2; k++)
		io.out[k] = shard_of(t, &o[k], &w.out[k], NULL);
	run(t, &w, &io, 2);
	compare(t, "out", &o[0], &w.out[0], io.out[0], out, t->terms[0]);
	compare_logs(t, &o[1], &w.out[1], io.out[1], t->log_sum);
	give_back(t, &io);
}

/* The sum of gradient times what this box has written, and the logarithm from the first keys. */
static void run_backward(struct trial *t, double *out)
{
	struct ff_work w = work_of(t, t->node, FF_BACKWARD);
	const struct ff_operand *o = t->node->out_map;
	uint32_t pairs = t->node->n_data - 1;
	double *want = new_array(t, volume(&o[1]));
	struct ff_kernel_io io = {.in = {NULL}};
	struct ff_region rows = t->box;
	int32_t at[FF_MAX_DIMS];

	for (int64_t i = 0; i < volume(o); i++)
		out[i] = typed_round(o->dtype, out[i]);
	rows.hi[3] = rows.lo[3] + 1;
	memcpy(at, rows.lo, sizeof(at));
	do {
		int64_t i = pair_of(t, at), q = query_of(t, at);

		want[2 * i] = dot(t, out, q, t->dout, q);
		want[2 * i + 1] = t->box.lo[3] ? 0 : t->log_sum[i];
	} while (next(&rows, at));
	w.need_din[pairs] = true;
	io.out[0] = shard_of(t, &o[0], &w.out[0], out);
	io.out[1] = pairs_of(t, &o[1], &w.out[1], t->log_sum, NULL);
	io.dout[0] = shard_of(t, &o[0], &w.out[0], t->dout);
	io.din[pairs] = shard_of(t, &o[1], &w.in[pairs], NULL);
	run(t, &w, &io, 2);
	compare(t, "pair", &o[1], &w.in[pairs], io.din[pairs], want, NULL);
	give_back(t, &io);
}

static void run_statistics_backward(struct trial *t, double *const din[3])
{
	static const char *const names[] = {"dquery", "dkey", "dvalue"};
	struct ff_work w = work_of(t, t->prelude, FF_BACKWARD);
	struct ff_kernel_io io = {.in = {NULL}};

	fill_data(t, &w, &io);
	io.dout[0] = pairs_of(t, t->prelude->out_map, &w.out[0], t->sum, t->log_sum);
	w.need_din[QUERY] = true;
	w.need_din[KEY] = draw(t, 0, 3);
	w.need_din[VALUE] = draw(t, 0, 3);
	for (uint32_t i = 0; i < 3; i++)
		if (w.need_din[i])
			io.din[i] = shard_of(t, &w.node->in_map[i], &w.in[i], i ? NULL : t->dout);
	run(t, &w, &io, 1);
	for (uint32_t i = 0; i < 3; i++)
		if (w.need_din[i])
			compare(t, names[i], &w.node->in_map[i], &w.in[i], io.din[i], din[i],
					t->terms[1 + i]);
	give_back(t, &io);
}

/* Some keys hidden altogether; of some rows all. */
static void hide_some(struct trial *t)
{
	const struct ff_operand *o = &t->node->in_map[MASK];
	int64_t keys = t->masked ? o->shape[3] : 0;
	bool blind = false;

	for (int64_t i = 0; t->masked && i < volume(o); i++) {
		if (i % keys == 0)
			blind = draw(t, 0, 7) == 0;
		if (blind || (i % keys && draw(t, 0, 5) == 0))
			t->in[MASK][i] = -INFINITY;
	}
}

static void run_trial(struct trial *t, enum ff_dtype type)
{
	double *out, *din[3];

	ff_arena_init(&t->arena);
	t->rounds = type == FF_BF16 && !strcmp(backend->name, "cuda");
	build(t, type);
	draw_box(t);
	t->seed = ff_random_u32(&t->r);
	t->step = (uint64_t)draw(t, 0, 9);
	t->micro = (uint32_t)draw(t, 0, 2);
	t->training = draw(t, 0, 4);
	for (uint32_t i = 0; i < 3u + t->masked; i++)
		t->in[i] = random_array(t, &t->node->in_map[i]);
	hide_some(t);
	t->dout = random_array(t, t->node->out_map);
	out = new_array(t, volume(t->node->out_map));
	for (int i = 0; i < 3; i++)
		din[i] = new_array(t, volume(&t->node->in_map[i]));
	for (int i = 0; i < 4; i++)
		t->terms[i] = new_array(t, volume(i ? &t->node->in_map[i - 1] : t->node->out_map));
	define_rows(t);
	define(t, out, din);
	run_statistics(t);
	run_forward(t, out);
	run_backward(t, out);
	run_statistics_backward(t, din);
	ff_arena_finish(&t->arena);
}

/* More heads than one graph of a library may have, where those of a sample have an even number of
 * rows, or an odd one. */
START_TEST(crowds)
{
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;

	check(backend->device.open(0, &dev, &err), &err);
	check(backend->stream.open(dev, false, &stream, &err), &err);
	for (uint32_t i = 0; i < ff_test_rounds(CROWDS) &&
			     backend->device.computes(dev, FF_BF16, &err) == FF_OK;
			i++) {
		struct trial t = {.r = {ff_test_seed(96), i, 0},
				.dev = dev,
				.stream = stream,
				.crowd = 4 - _i};

		run_trial(&t, FF_BF16);
	}
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

START_TEST(kernels)
{
	enum ff_dtype type = _i ? FF_BF16 : FF_F32;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;

	check(backend->device.open(0, &dev, &err), &err);
	check(backend->stream.open(dev, _i, &stream, &err), &err);
	for (uint32_t i = 0; i < ff_test_rounds(ROUNDS) &&
			     backend->device.computes(dev, type, &err) == FF_OK;
			i++) {
		struct trial t = {.r = {ff_test_seed(71), i, 0}, .dev = dev, .stream = stream};

		run_trial(&t, type);
	}
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("attention");
	TCase *c = tcase_create("kernels");

	backend = chosen_backend();
	tcase_set_timeout(c, 0);
	tcase_add_loop_test(c, kernels, 0, 2);
	tcase_add_loop_test(c, crowds, 0, CROWD_KINDS);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
