/* Kernels of operators that pick and move elements, and of those that broadcast, forward and
 * backward, on random boxes of random nodes, against their definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_set_num_threads(n) ((void)(n))
#endif

#include "chosen.h"
#include "inputs.h"
#include "trial.h"
#include "typed.h"

#define ROUNDS 400
#define WIDE (LARGE - 1) /* a stream whose shapes take several tiles of a GPU's blocks */

static const struct ff_backend *backend;
static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

/* ---- graphs ---- */

/* What experts read of rows of this shape: these, or slots and shares; and who has the slots. */
static uint32_t add_experts(
		struct trial *t, struct ff_builder *b, enum ff_op op, int32_t *shape, uint32_t *in)
{
	int32_t experts = draw(t, 1, 5), slots = draw(t, 1, shape[1]);
	int32_t shares[] = {shape[0], shape[1], experts}, places[] = {shape[0], experts, slots};
	uint32_t n = 0;

	shape[2] *= draw(t, 0, 1) ? 8 : 1;
	if (op == FF_OP_DISPATCH) {
		in[n++] = add_input(b, "x", 3, shape, 0);
	} else {
		in[n++] = add_input(
				b, "x", 4, (int32_t[]){shape[0], experts * shape[2], slots, 1}, 0);
		in[n++] = add_input(b, "shares", 3, shares, 0);
	}
	in[n++] = add_input(b, "places", 3, places, shape[1]);
	return n;
}

/* input -> node -> everything it writes, joined -> linear -> loss */
static void build(struct trial *t, enum ff_op op, enum ff_dtype type)
{
	union ff_attrs a = ff_attrs_preset(op), fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}}, join = {{0}};
	static const int32_t least[FF_OP_COUNT] = {[FF_OP_SLICE] = 2,
			[FF_OP_SPLIT] = 2,
			[FF_OP_PAD] = 2,
			[FF_OP_GATHER] = 2,
			[FF_OP_EXPAND] = 2,
			[FF_OP_REDUCE_SUM] = 2,
			[FF_OP_REDUCE_MEAN] = 2,
			[FF_OP_REDUCE_MAX] = 2,
			[FF_OP_MATMUL] = 2,
			[FF_OP_ROPE] = 3,
			[FF_OP_DISPATCH] = 3,
			[FF_OP_COMBINE] = 3};
	int32_t shape[FF_MAX_RANK] = {0}, other[FF_MAX_RANK];
	bool slots = op == FF_OP_DISPATCH || op == FF_OP_COMBINE;
	int32_t rank = draw(t, least[op] ? least[op] : 1,
			op == FF_OP_ROPE || slots ? 3
			: op == FF_OP_EMBEDDING   ? 5
						  : 6);
	uint32_t in[MAX_IN], part[MAX_OUT], node, n_in, n_out;
	struct ff_builder *b;
	struct ff_error err;
	bool two, none;

	for (int32_t i = 0; i < rank; i++)
		shape[i] = draw(t, 1, rank > 4 ? 4 : 9);
	shape[0] *= t->r.stream == LARGE ? 1000 : 1;
	if (t->r.stream == WIDE) {
		rank = op == FF_OP_EMBEDDING ? 2 : 3;
		shape[0] = draw(t, 2, 3);
		shape[1] = rank == 2 ? draw(t, 700, 1100) : draw(t, 60, 100);
		shape[2] = draw(t, 60, 100);
	}
	points_attrs(t, op, rank, shape, other, &a);
	if (t->r.stream == WIDE && op == FF_OP_EMBEDDING && draw(t, 0, 1))
		a.embedding.vocabulary = 3000;
	two = op == FF_OP_MATMUL || (points_binary(op) && !a.binary.rank);
	fc.linear.out_features = 2;
	join.concat.axis = 1;
	check(ff_builder_create("rows", &t->arena, &b, &err), &err);
	ff_builder_set_dtype(b, type);
	n_in = two ? 2 : 1;
	if (slots)
		n_in = add_experts(t, b, op, shape, in);
	else
		in[0] = add_input(b, "x", rank, shape,
				op == FF_OP_EMBEDDING ? a.embedding.vocabulary
				: op == FF_OP_CAST    ? 1 << 20
						      : 0);
	if (two)
		in[1] = add_input(b, "y", rank, other, 0);
	none = op == FF_OP_CONSTANT_OF || (op == FF_OP_EXPAND && a.expand.own_rank);
	node = ff_builder_add(b, op, "node", &a, in, none ? 0 : n_in);
	n_out = op == FF_OP_SPLIT ? (uint32_t)a.split.parts : 1;
	for (uint32_t i = 0; i < n_out; i++)
		part[i] = ff_builder_add(b, FF_OP_RESHAPE, ff_arena_printf(&t->arena, "flat%u", i),
				&flat, (uint32_t[]){FF_PORT(node, i)}, 1);
	if (none)
		part[n_out++] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	node = ff_builder_add(b, FF_OP_CONCAT, "join", &join, part, n_out);
	node = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &node, 1);
	in[1] = add_input(b, "labels", 1, shape, 2);
	in[0] = node;
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	check(ff_builder_finish(b, &t->graph, &err), &err);
	t->node = &t->graph.nodes[ff_graph_find(&t->graph, "node")];
}

/* Random numbers are such as the operand's type has. */
static double *whole(struct trial *t, const struct ff_operand *o, bool random)
{
	int64_t n = volume(o);
	double *v = ff_arena_array(&t->arena, (size_t)n, sizeof(*v));

	ck_assert_ptr_nonnull(v);
	for (int64_t i = 0; i < n && random; i++)
		v[i] = typed_round(o->dtype, (float)ff_random_unit(&t->r) * 4 - 2);
	return v;
}

/* Slots that some of the places have, each at most one of an expert. */
static void draw_places(struct trial *t, uint32_t in)
{
	const struct ff_operand *o = &t->node->in_map[in];
	int32_t places = t->node->out_map[1].shape[1];

	for (int64_t i = 0; i < volume(o); i += o->shape[2]) {
		int32_t next = draw(t, 0, places - 1);

		for (int32_t s = 0; s < o->shape[2]; s++)
			t->in[in][i + s] = draw(t, 0, 3) ? (next + s) % places : -1;
	}
	for (int64_t i = 0; i < volume(&t->node->out_map[1]); i++)
		t->out[1][i] = -1;
}

static void define(struct trial *t, enum ff_pass pass)
{
	const struct ff_node *n = t->node;
	struct ff_region box = {.rank = n->n_dims};
	int32_t at[FF_MAX_DIMS];

	for (uint32_t d = 0; d < n->n_dims; d++) {
		bool all = draw(t, 0, 1);

		box.lo[d] = all ? 0 : draw(t, 0, n->dim[d].extent - 1);
		box.hi[d] = all ? n->dim[d].extent : draw(t, box.lo[d] + 1, n->dim[d].extent);
	}
	ff_work_fill(&t->graph, (uint32_t)(n - t->graph.nodes), &box, pass, &t->work);
	for (uint32_t i = 0; i < n->n_in; i++) {
		t->in[i] = whole(t, &n->in_map[i], true);
		t->din[i] = whole(t, &n->in_map[i], false);
		t->work.need_din[i] = pass == FF_BACKWARD && n->in_map[i].dtype != FF_I32 &&
				      !(i && n->n_prelude) && draw(t, 0, 3);
	}
	for (uint32_t k = 0; k < n->n_out; k++) {
		t->out[k] = whole(t, &n->out_map[k], false);
		t->dout[k] = whole(t, &n->out_map[k], true);
	}
	for (int64_t i = 0; n->op == FF_OP_DIV && i < volume(&n->in_map[1]); i++)
		t->in[1][i] += t->in[1][i] < 0 ? -0.25 : 0.25;
	for (int64_t i = 0; n->op == FF_OP_DIV && i < volume(&n->in_map[1]); i++)
		t->in[1][i] = typed_round(n->in_map[1].dtype, t->in[1][i]);
	/* equal ones too */
	for (int64_t i = 0; (n->op == FF_OP_MIN || n->op == FF_OP_MAX) && i < volume(n->in_map);
			i++)
		t->in[0][i] = draw(t, 0, 2) ? t->in[0][i] : t->in[1][0];
	for (int64_t i = 0; n->op == FF_OP_REDUCE_MAX && i < volume(n->in_map); i++)
		t->in[0][i] = draw(t, 0, 1) ? floor(t->in[0][i]) : t->in[0][i];
	for (int64_t i = 0; n->op == FF_OP_EMBEDDING && i < volume(&n->in_map[0]); i++)
		t->in[0][i] = draw(t, -1, n->attrs.embedding.vocabulary - 1);
	for (int64_t i = 0; n->op == FF_OP_CAST && i < volume(&n->in_map[0]); i++)
		t->in[0][i] = draw(t, -(1 << 20), 1 << 20);
	if (n->op == FF_OP_DISPATCH || n->op == FF_OP_COMBINE)
		draw_places(t, n->n_data - 1);
	memcpy(at, box.lo, sizeof(at));
	do
		points_define(t, at);
	while (next(&box, at));
}

/* ---- kernels ---- */

/* A dense shard of `region`, NaN where `from` is NULL; NULL when it is empty. */
static void *shard_of(struct trial *t, const struct ff_operand *o, enum ff_dtype type,
		const struct ff_region *region, const double *from)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(type));
	int32_t at[FF_MAX_DIMS];
	void *shard, *device;

	if (!bytes)
		return NULL;
	shard = malloc(bytes);
	ck_assert_ptr_nonnull(shard);
	memset(shard, 0xff, bytes);
	memcpy(at, region->lo, sizeof(at));
	do {
		int64_t i = ff_region_offset(o->order, region, at);

		if (from)
			typed_put(type, shard, i, from[index_of(o, at)]);
	} while (next(region, at));
	device = chosen_put(t->dev, t->stream, shard, bytes);
	free(shard);
	return device;
}

/* Of bfloat16 to within half a unit in the last place. */
static void compare(struct trial *t, const char *what, const struct ff_operand *o,
		enum ff_dtype type, const struct ff_region *region, const void *device,
		const double *want)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(type));
	double unit = type == FF_BF16 ? BF16_HALF_ULP : 1e-5;
	char key[FF_KEY_BYTES];
	int32_t at[FF_MAX_DIMS];
	void *shard;

	if (!bytes)
		return;
	shard = malloc(bytes);
	chosen_get(t->stream, shard, device, bytes);
	memcpy(at, region->lo, sizeof(at));
	do {
		double have = typed_get(type, shard, ff_region_offset(o->order, region, at));
		double expected = want[index_of(o, at)];

		if (fabs(have - expected) <= unit * fabs(expected) + 1e-5)
			continue;
		ff_work_key(&t->work, key);
		ck_abort_msg("%s at (%d, %d, %d, %d) is %g, expected %g: %s", what, at[0], at[1],
				at[2], at[3], have, expected, key);
	} while (next(region, at));
	free(shard);
}

/* Only what the pass may touch is there. */
static void fill_io(struct trial *t, struct ff_kernel_io *io)
{
	const struct ff_node *n = t->node;
	const struct ff_work *w = &t->work;
	const struct ff_operand *in = n->in_map, *out = n->out_map;
	bool back = w->pass == FF_BACKWARD;
	bool keeps = ff_op_row(n->op)->flags & FF_OP_BACKWARD_IN;

	memset(io, 0, sizeof(*io));
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (!back || (points_binary(n->op) ? i >= n->n_data || keeps
						   : i < n->n_data && keeps))
			io->in[i] = shard_of(t, &in[i], in[i].dtype, &w->in[i], t->in[i]);
		if (w->need_din[i])
			io->din[i] = shard_of(
					t, &in[i], (enum ff_dtype)in[i].gradient, &w->in[i], NULL);
	}
	for (uint32_t k = 0; k < n->n_out; k++) {
		if (!back)
			io->out[k] = shard_of(t, &out[k], out[k].dtype, &w->out[k], NULL);
		else if (k + n->n_saved >= n->n_out)
			io->out[k] = shard_of(t, &out[k], out[k].dtype, &w->out[k], t->out[k]);
		else
			io->dout[k] = shard_of(t, &out[k], out[k].dtype, &w->out[k], t->dout[k]);
		if (back && (ff_op_row(n->op)->flags & FF_OP_BACKWARD_OUT))
			io->out[k] = shard_of(t, &out[k], out[k].dtype, &w->out[k], t->out[k]);
	}
}

static void give_back(struct trial *t, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < MAX_IN; i++) {
		backend->memory.free(t->dev, (void *)(uintptr_t)io->in[i]);
		backend->memory.free(t->dev, io->din[i]);
	}
	for (uint32_t k = 0; k < MAX_OUT; k++) {
		backend->memory.free(t->dev, io->out[k]);
		backend->memory.free(t->dev, (void *)(uintptr_t)io->dout[k]);
	}
}

static int run_kernel(struct trial *t, const struct ff_kernel_io *io, struct ff_error *err)
{
	struct ff_kernel_io ready = *io;
	struct ff_kernel *k;
	int code;

	check(backend->kernel.open(t->dev, &t->work, &k, err), err);
	if (backend->kernel.workspace(k))
		ready.workspace = chosen_put(
				t->dev, t->stream, NULL, (size_t)backend->kernel.workspace(k));
	code = backend->kernel.run(t->stream, k, &ready, err);
	if (code == FF_OK)
		code = backend->stream.drain(t->stream, err);
	backend->kernel.close(k);
	backend->memory.free(t->dev, ready.workspace);
	return code;
}

/* What the prelude of a largest writes of one part of the axes, with what the others wrote. */
static void add_statistics(struct trial *t, const struct ff_work *w, float *all)
{
	struct trial part = *t;
	struct ff_kernel_io io = {0};
	struct ff_error err;
	size_t bytes = (size_t)ff_region_volume(&w->out[0]) * sizeof(float);
	float *own = malloc(bytes);

	part.work = *w;
	io.in[0] = shard_of(t, t->node->in_map, t->node->in_map[0].dtype, &w->in[0], t->in[0]);
	io.out[0] = chosen_put(t->dev, t->stream, NULL, bytes);
	check(run_kernel(&part, &io, &err), &err);
	chosen_get(t->stream, own, io.out[0], bytes);
	ff_reduce(FF_REDUCE_TIES, FF_F32, (int64_t)(bytes / sizeof(float)), own, all);
	free(own);
	give_back(t, &io);
}

/* Pairs of nothing. */
static float *nothing_of(int64_t n)
{
	float *all = malloc((size_t)n * sizeof(*all));

	ck_assert_ptr_nonnull(all);
	for (int64_t i = 0; i < n; i++)
		all[i] = -INFINITY;
	return all;
}

/* Preludes of parts of all that is reduced find together what the definition does, exactly. */
static void run_statistics(struct trial *t)
{
	uint32_t prelude = ff_node_prelude(&t->graph, (uint32_t)(t->node - t->graph.nodes));
	const struct ff_operand *pairs = &t->node->in_map[1];
	struct ff_region box = t->work.box, grid = {.rank = box.rank};
	int32_t part[FF_MAX_DIMS] = {0}, at[FF_MAX_DIMS];
	struct ff_work w;
	float *all = NULL;

	for (uint32_t d = 0; d < box.rank; d++) {
		int32_t extent = t->node->dim[d].extent;
		bool whole = t->node->dim[d].label != FF_DIM_REDUCTION;

		grid.hi[d] = whole ? 1 : draw(t, 1, extent < 3 ? extent : 3);
	}
	do {
		for (uint32_t d = 0; d < box.rank; d++) {
			int32_t extent = t->node->dim[d].extent;
			uint32_t n = (uint32_t)grid.hi[d], i = (uint32_t)part[d];

			if (t->node->dim[d].label != FF_DIM_REDUCTION)
				continue;
			box.lo[d] = ff_part_start(extent, n, i);
			box.hi[d] = ff_part_start(extent, n, i + 1);
		}
		ff_work_fill(&t->graph, prelude, &box, FF_FORWARD, &w);
		if (!all)
			all = nothing_of(ff_region_volume(&w.out[0]));
		add_statistics(t, &w, all);
	} while (next(&grid, part));
	memcpy(at, w.out[0].lo, sizeof(at));
	for (int64_t i = 0; i < ff_region_volume(&w.out[0]); i++, next(&w.out[0], at))
		ck_assert((double)all[i] == t->in[1][index_of(pairs, at)]);
	free(all);
}

static void run_pass(struct trial *t, enum ff_pass pass)
{
	const struct ff_node *n = t->node;
	struct ff_kernel_io io;
	struct ff_error err;

	define(t, pass);
	if (n->op == FF_OP_REDUCE_MAX && pass == FF_FORWARD)
		run_statistics(t);
	fill_io(t, &io);
	check(run_kernel(t, &io, &err), &err);
	for (uint32_t k = 0; k < n->n_out && pass == FF_FORWARD; k++)
		compare(t, "out", &n->out_map[k], n->out_map[k].dtype, &t->work.out[k], io.out[k],
				t->out[k]);
	for (uint32_t i = 0; i < n->n_in; i++)
		if (t->work.need_din[i])
			compare(t, "din", &n->in_map[i], (enum ff_dtype)n->in_map[i].gradient,
					&t->work.in[i], io.din[i], t->din[i]);
	give_back(t, &io);
}

static void trial_open(
		struct trial *t, uint64_t seed, uint64_t stream, enum ff_op op, enum ff_dtype type)
{
	struct ff_error err;

	memset(t, 0, sizeof(*t));
	t->r = (struct ff_random){seed, stream, 0};
	ff_arena_init(&t->arena);
	check(backend->device.open(0, &t->dev, &err), &err);
	check(backend->stream.open(t->dev, false, &t->stream, &err), &err);
	build(t, op, type);
}

static void trial_close(struct trial *t)
{
	backend->stream.close(t->stream);
	backend->device.close(t->dev);
	ff_arena_finish(&t->arena);
}

static const enum ff_op ops[] = {
#define BINARY(e, row) e,
		FF_BINARY_OPS(BINARY)
#undef BINARY
				FF_OP_SLICE,
		FF_OP_SPLIT, FF_OP_TRANSPOSE, FF_OP_EMBEDDING, FF_OP_REDUCE_SUM, FF_OP_REDUCE_MEAN,
		FF_OP_REDUCE_MAX, FF_OP_MATMUL, FF_OP_PAD, FF_OP_EXPAND, FF_OP_GATHER, FF_OP_CAST,
		FF_OP_CONSTANT_OF, FF_OP_ROPE, FF_OP_DISPATCH, FF_OP_COMBINE};

START_TEST(kernels)
{
	enum ff_dtype rounded = chosen_rounded();
	uint64_t seed = ff_test_seed(30);

	for (uint32_t i = 0; i < ff_test_rounds(ROUNDS); i++) {
		struct trial t;

		trial_open(&t, seed + (uint64_t)_i, i, ops[_i], i % 2 ? rounded : FF_F32);
		run_pass(&t, FF_FORWARD);
		run_pass(&t, FF_BACKWARD);
		trial_close(&t);
	}
}
END_TEST

/* Shapes and types as they come: both sides of a transposition, and features, in pairs and not. */
START_TEST(several_tiles)
{
	static const enum ff_op of[] = {FF_OP_TRANSPOSE, FF_OP_EMBEDDING};

	for (uint32_t i = 0; i < 4; i++) {
		struct trial t;

		trial_open(&t, ff_test_seed(33) + i, WIDE, of[_i],
				i % 2 ? chosen_rounded() : FF_F32);
		run_pass(&t, FF_FORWARD);
		run_pass(&t, FF_BACKWARD);
		trial_close(&t);
	}
}
END_TEST

/* Rows are added up in the order of the ids, however many threads do it. */
START_TEST(embedding_does_not_depend_on_threads)
{
	float *gradient[2];
	struct trial t;

	trial_open(&t, ff_test_seed(31), LARGE, FF_OP_EMBEDDING, FF_F32);
	for (int i = 0; i < 2; i++) {
		struct ff_kernel_io io;
		struct ff_error err;
		int64_t n;

		t.r = (struct ff_random){1, 2, 0};
		define(&t, FF_BACKWARD);
		t.work.need_din[1] = true;
		fill_io(&t, &io);
		omp_set_num_threads(i ? 1 : 4);
		check(run_kernel(&t, &io, &err), &err);
		n = ff_region_volume(&t.work.in[1]);
		gradient[i] = ff_arena_array(&t.arena, (size_t)n, sizeof(float));
		chosen_get(t.stream, gradient[i], io.din[1], (size_t)n * sizeof(float));
		if (i)
			ck_assert_mem_eq(gradient[0], gradient[1], (size_t)n * sizeof(float));
		give_back(&t, &io);
	}
	trial_close(&t);
}
END_TEST

START_TEST(embedding_refuses_ids)
{
	for (int i = 0; i < 2; i++) {
		struct ff_kernel_io io;
		struct ff_error err;
		struct trial t;
		int32_t bad, *last;

		trial_open(&t, ff_test_seed(32), (uint64_t)i, FF_OP_EMBEDDING, FF_F32);
		define(&t, FF_FORWARD);
		fill_io(&t, &io);
		bad = i ? -2 : t.node->attrs.embedding.vocabulary;
		last = (int32_t *)(uintptr_t)io.in[0] + ff_region_volume(&t.work.in[0]) - 1;
		chosen_set(t.stream, last, &bad, sizeof(bad));
		ck_assert_int_eq(run_kernel(&t, &io, &err), FF_E_INPUT);
		ck_assert_ptr_nonnull(
				strstr(err.text, i ? ": id -2 is not in -1.." : " is not in -1.."));
		give_back(&t, &io);
		trial_close(&t);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("rows");
	TCase *c = tcase_create("kernels");

	backend = chosen_backend();
	tcase_set_timeout(c, 0);
	tcase_add_loop_test(c, kernels, 0, sizeof(ops) / sizeof(ops[0]));
	if (chosen_is_cpu())
		tcase_add_test(c, embedding_does_not_depend_on_threads);
	tcase_add_test(c, embedding_refuses_ids);
	tcase_add_loop_test(c, several_tiles, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
