/* Property test: every kernel of a backend (chosen.h), forward and backward, on
 * random parts of random nodes, against the operators' definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "draw_windows.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/strategy.h"
#include "naive.h"
#include "typed.h"

/* Of the largest magnitude; of bfloat16, beside half a unit in its own last place. */
#define TOLERANCE 1e-4

static const struct ff_backend *backend;
static uint64_t seed;

/* One node, one part of it, and all its tensors. */
struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node;
	struct ff_work work;
	struct naive naive;
	struct ff_device *dev;
	struct ff_stream *stream;
	void *saved; /* what forward left for backward */
	void *kept[FF_MAX_KEPT];
	double *before; /* what lies where a gradient is to be made of it, or NULL */
	bool ties;      /* inputs from few values, so that maxima meet */
	bool positive;
};

static int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

static bool coin(struct trial *t)
{
	return ff_random_below(&t->r, 2);
}

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

static void draw_shape(struct trial *t, uint32_t rank, int32_t *shape)
{
	for (uint32_t i = 0; i < rank; i++)
		shape[i] = draw(t, 1, rank > 4 ? 4 : 9);
	if (rank == 2)
		shape[1] = draw(t, 1, 70);
}

/* The same elements with neighbouring axes joined, axes split and ones added. */
static void draw_reshape(
		struct trial *t, union ff_attrs *attrs, const int32_t *shape, uint32_t rank)
{
	struct ff_reshape_attrs *a = &attrs->reshape;
	int64_t rest = naive_volume(rank - 1, shape + 1);

	a->rank = draw(t, 1, FF_MAX_RANK);
	if (a->rank == 1 && rest > 1)
		a->rank = 2;
	a->shape[0] = shape[0];
	for (int32_t i = 1; i < a->rank; i++) {
		int32_t size = (int32_t)rest;

		while (i < a->rank - 1 && (size > 1 || rest > 1)) {
			size = draw(t, 1, 12);
			if (rest % size == 0)
				break;
		}
		a->shape[i] = size;
		rest /= size;
	}
}

/* Of the operators among them that have some. */
static void draw_unary(struct trial *t, enum ff_op op, struct ff_unary_attrs *a)
{
	static const double exponents[] = {2, 3, -1, 0, 1, 0.5, -1.5, 2.25};

	if (op == FF_OP_GELU)
		a->form = draw(t, 0, 1);
	if (op == FF_OP_LEAKY_RELU)
		a->a = draw(t, 0, 2) * 0.375;
	if (op == FF_OP_POW)
		a->a = exponents[draw(t, 0, 7)];
	if (op == FF_OP_SCALE) {
		a->a = draw(t, -3, 3) * 0.75;
		a->b = draw(t, -2, 2) * 0.5;
	}
	if (op == FF_OP_CLIP && coin(t))
		a->a = draw(t, -3, 0) * 0.5;
	if (op == FF_OP_CLIP && coin(t))
		a->b = draw(t, 0, 3) * 0.5;
	/* powers of what is negative, where there are such */
	t->positive = op == FF_OP_LOG || op == FF_OP_SQRT ||
		      (op == FF_OP_POW && (a->a < 2 || a->a > 2));
	t->positive = t->positive && !(op == FF_OP_POW && a->a == 3);
}

/* Rows of few elements, and now and then of so many that they are several runs. */
static void draw_norm(struct trial *t, enum ff_op op, union ff_attrs *attrs, int32_t *shape,
		uint32_t rank)
{
	struct ff_norm_attrs *a = &attrs->norm;
	int64_t row;

	if (op == FF_OP_GROUP_NORM) {
		a->groups = draw(t, 1, 4);
		shape[1] = a->groups * draw(t, 1, 5);
	} else if (op == FF_OP_BATCH_NORM) {
		shape[0] = draw(t, 0, 9) ? draw(t, 2, 9) : draw(t, 100, 200);
		a->group = coin(t) ? draw(t, 2, 2 * shape[0]) : 0;
		if (a->group && shape[0] % a->group == 1)
			shape[0]++; /* of one there may be no variance */
		a->sync = !a->group;
	} else {
		a->axes = draw(t, 1, (int32_t)rank - 1);
	}
	if (draw(t, 0, 19) == 0 && a->axes && rank == 2) {
		shape[0] = draw(t, 1, 2);
		shape[1] = draw(t, 1000, 1500);
	}
	row = op == FF_OP_BATCH_NORM   ? naive_volume(rank, shape) / shape[1]
	      : op == FF_OP_GROUP_NORM ? naive_volume(rank - 1, shape + 1) / a->groups
				       : naive_volume((uint32_t)a->axes, shape + rank - a->axes);
	a->affine = draw(t, 0, 3) > 0;
	a->bias = op != FF_OP_RMS_NORM && coin(t);
	/* where little remains of a row, its gradient would be rounding */
	a->epsilon = row > 4 && coin(t) ? 1e-5 : 0.1;
}

static uint32_t add_input(struct ff_builder *b, const char *name, uint32_t rank,
		const int32_t *shape, int32_t classes)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_INPUT);

	attrs.input.rank = (int32_t)rank;
	memcpy(attrs.input.shape, shape, rank * sizeof(*shape));
	attrs.input.dtype = classes > 0;
	attrs.input.classes = classes;
	return ff_builder_add(b, FF_OP_INPUT, name, &attrs, NULL, 0);
}

static uint32_t add_linear(struct ff_builder *b, uint32_t x, int32_t out_features)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_LINEAR);

	attrs.linear.out_features = out_features;
	return ff_builder_add(b, FF_OP_LINEAR, "linear", &attrs, &x, 1);
}

/* Ends the graph behind node `x` with what a graph must have. */
static void add_loss(struct ff_builder *b, uint32_t x, int32_t batch)
{
	union ff_attrs attrs = ff_attrs_preset(FF_OP_RESHAPE);
	uint32_t both[2];

	attrs.reshape.rank = 2;
	attrs.reshape.shape[0] = 0;
	attrs.reshape.shape[1] = -1;
	both[0] = add_linear(b, ff_builder_add(b, FF_OP_RESHAPE, "flat", &attrs, &x, 1), 2);
	both[1] = add_input(b, "labels", 1, &batch, 1);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, both, 2);
}

static void build_loss(struct trial *t, struct ff_builder *b)
{
	int32_t rank = draw(t, 2, 5), shape[FF_MAX_RANK], labels[FF_MAX_RANK];
	union ff_attrs a = ff_attrs_preset(FF_OP_SOFTMAX_CROSS_ENTROPY);
	uint32_t in[2];

	draw_shape(t, (uint32_t)rank, shape);
	shape[1] = draw(t, 1, 12);
	labels[0] = shape[0];
	for (int32_t i = 2; i < rank; i++)
		labels[i - 1] = shape[i];
	in[0] = add_linear(b, add_input(b, "x", (uint32_t)rank, shape, 0), shape[rank - 1]);
	in[1] = add_input(b, "labels", (uint32_t)rank - 1, labels, shape[1]);
	a.loss.weight = coin(t) ? 1 : 0.5;
	a.loss.ignore = coin(t) ? -1 : draw(t, 0, shape[1] - 1);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "node", &a, in, 2);
}

static void build_point_loss(struct trial *t, struct ff_builder *b, enum ff_op op)
{
	int32_t rank = draw(t, 2, 5), shape[FF_MAX_RANK];
	union ff_attrs a = ff_attrs_preset(op);
	uint32_t in[2];

	draw_shape(t, (uint32_t)rank, shape);
	if (draw(t, 0, 9) == 0)
		shape[rank - 1] = draw(t, 2000, 9000);
	in[0] = add_linear(b, add_input(b, "x", (uint32_t)rank, shape, 0), shape[rank - 1]);
	in[1] = add_input(b, "targets", (uint32_t)rank, shape, 0);
	a.loss.weight = coin(t) ? 1 : 0.5;
	ff_builder_add(b, op, "node", &a, in, 2);
}

static void build_other(struct trial *t, struct ff_builder *b, enum ff_op op)
{
	static const char *const names[NAIVE_INPUTS] = {"x0", "x1", "x2", "x3"};
	union ff_attrs attrs = ff_attrs_preset(op);
	int32_t shape[FF_MAX_RANK];
	uint32_t in[NAIVE_INPUTS], rank, n_in = 1, node;

	bool norm = op == FF_OP_LAYER_NORM || op == FF_OP_RMS_NORM || op == FF_OP_GROUP_NORM ||
		    op == FF_OP_BATCH_NORM;

	rank = (uint32_t)draw(t, op == FF_OP_CONCAT || op == FF_OP_LINEAR || norm ? 2 : 1,
			op == FF_OP_LINEAR ? 5 : 6);
	draw_shape(t, rank, shape);
	if (draw_windows(&t->r, op, &attrs, shape, &rank))
		t->ties = ff_op_row(op)->flags == 0 && coin(t);
	if (op == FF_OP_LINEAR) {
		attrs.linear.out_features = draw(t, 1, 40);
		attrs.linear.bias = coin(t);
	}
	if (op == FF_OP_RESHAPE)
		draw_reshape(t, &attrs, shape, rank);
	draw_unary(t, op, &attrs.unary);
	if (norm)
		draw_norm(t, op, &attrs, shape, rank);
	if (op == FF_OP_DROPOUT)
		attrs.dropout = (struct ff_dropout_attrs){draw(t, 0, 3) * 0.25, draw(t, 0, 1)};
	if (op == FF_OP_CONCAT)
		attrs.concat.axis = draw(t, 1, (int32_t)rank - 1);
	if (op == FF_OP_CONCAT || op == FF_OP_ADD)
		n_in = (uint32_t)draw(t, 2, NAIVE_INPUTS);
	for (uint32_t i = 0; i < n_in; i++) {
		if (op == FF_OP_CONCAT)
			shape[attrs.concat.axis] = draw(t, 1, 6);
		in[i] = add_input(b, names[i], rank, shape, 0);
	}
	node = ff_builder_add(b, op, "node", &attrs, in, n_in);
	add_loss(b, node, shape[0]);
}

/* A part of a random config, or any box of the iteration space. */
static void draw_box(struct trial *t, struct ff_region *box)
{
	struct ff_config c = {.replicas = 1};
	uint32_t parts = 1;

	for (uint32_t i = 0; i < FF_MAX_DIMS; i++) {
		c.degree[i] = 1;
		if (i < t->node->n_dims && coin(t))
			c.degree[i] = (uint16_t)draw(t, 1,
					t->node->dim[i].extent < 5 ? t->node->dim[i].extent : 5);
		parts *= c.degree[i];
	}
	ff_config_box(t->node, &c, ff_random_below(&t->r, parts), box);
	if (coin(t))
		return;
	for (uint32_t i = 0; i < t->node->n_dims; i++) {
		int32_t extent = t->node->dim[i].extent;

		box->lo[i] = draw(t, 0, extent - 1);
		box->hi[i] = draw(t, box->lo[i] + 1, extent);
	}
}

/* Gradients of parameters are always wanted, of the data where it is random; where backward may be
 * computed in two it is so now and then. */
static void draw_work(struct trial *t, enum ff_pass pass)
{
	uint32_t node = (uint32_t)(t->node - t->graph.nodes);
	struct ff_work *w = &t->work;
	struct ff_region box;

	draw_box(t, &box);
	ff_work_fill(&t->graph, node, &box, pass, w);
	for (uint32_t i = 0; i < t->node->n_data; i++)
		w->need_din[i] = pass == FF_BACKWARD && coin(t) &&
				 !((ff_op_row(t->node->op)->flags & FF_OP_LOSS) && i > 0) &&
				 !(t->node->op == FF_OP_BATCH_NORM && i == 0);
	if (pass == FF_BACKWARD && (ff_op_row(t->node->op)->flags & FF_OP_HALVES))
		ff_work_keep(w, (enum ff_grads)draw(t, FF_GRADS_ALL, FF_GRADS_PARAMS));
}

static double *new_whole(struct trial *t, const struct ff_operand *o)
{
	return ff_arena_array(&t->arena, (size_t)naive_volume(o->rank, o->shape), sizeof(double));
}

static double *random_whole(struct trial *t, const struct ff_operand *o)
{
	int64_t n = naive_volume(o->rank, o->shape);
	double *v = new_whole(t, o);

	for (int64_t i = 0; i < n; i++) {
		double u = ff_random_unit(&t->r) * 4 - 2;

		if (t->positive)
			u = fabs(u) + 0.25;
		v[i] = typed_round(o->dtype, (float)(t->ties ? floor(u) : u));
	}
	return v;
}

/* Labels, and what the prelude finds of all logits of each. */
static void fill_loss(struct trial *t, double *labels, double *all, double *own)
{
	const struct ff_operand *logits = &t->node->in_map[0], *o = &t->node->in_map[1];
	struct ff_region positions = {.rank = o->rank};
	int32_t at[FF_MAX_RANK] = {0};

	memcpy(positions.hi, o->shape, sizeof(o->shape));
	do {
		int64_t i = naive_index(o, at);
		int32_t from[FF_MAX_RANK] = {at[0]}, label = draw(t, -1, logits->shape[1] - 1);

		memcpy(from + 2, at + 1, (o->rank - 1) * sizeof(*at));
		labels[i] = label;
		if (label < 0)
			labels[i] = label = t->node->attrs.loss.ignore;
		t->naive.valid += label != t->node->attrs.loss.ignore;
		all[2 * i] = own[2 * i] = own[2 * i + 1] = -INFINITY;
		all[2 * i + 1] = -1;
		for (from[1] = 0; from[1] < logits->shape[1]; from[1]++) {
			double x = t->naive.in[0][naive_index(logits, from)];

			all[2 * i] = fmax(all[2 * i], x);
			if (from[1] == label)
				own[2 * i] = x;
			if (from[1] < label)
				own[2 * i + 1] = fmax(own[2 * i + 1], x);
		}
		for (from[1] = 0; from[1] < logits->shape[1]; from[1]++)
			all[2 * i + 1] +=
					exp(t->naive.in[0][naive_index(logits, from)] - all[2 * i]);
	} while (naive_next(&positions, at));
}

/* Some targets are no number. */
static void fill_targets(struct trial *t, double *target)
{
	const struct ff_operand *o = &t->node->in_map[1];
	int64_t n = naive_volume(o->rank, o->shape);

	for (int64_t i = 0; i < n; i++) {
		if (draw(t, 0, 7) == 0)
			target[i] = NAN;
		t->naive.valid += !isnan(target[i]);
	}
}

/* Data whose mean is now and then far from zero; what the prelude finds of all of it. */
static void fill_batch(struct trial *t, double *x, double *moments)
{
	const struct ff_operand *o = &t->node->in_map[0], *m = &t->node->in_map[1];
	double offset = o->dtype == FF_F32 && coin(t) ? 50 : 0;
	int64_t n = naive_volume(o->rank, o->shape), inner = 1;

	for (uint32_t i = 2; i < o->rank; i++)
		inner *= o->shape[i];
	for (int64_t i = 0; i < n; i++)
		x[i] = typed_round(o->dtype, (float)(x[i] + offset));
	for (int64_t k = 0; moments && k < naive_volume(m->rank - 1, m->shape); k++) {
		double *own = moments + 4 * k;

		memset(own, 0, 4 * sizeof(*own));
		for (int64_t i = 0; i < n; i++)
			if (naive_moments(t->node, i / inner) == k) {
				own[0]++;
				own[1] += x[i];
			}
		own[1] = (double)(float)(own[1] / own[0]);
		for (int64_t i = 0; i < n; i++)
			if (naive_moments(t->node, i / inner) == k)
				own[2] += (x[i] - own[1]) * (x[i] - own[1]);
		own[2] = (double)(float)own[2];
	}
}

static void fill_naive(struct trial *t)
{
	const struct ff_node *n = t->node;
	const struct ff_op_row *row = ff_op_row(n->op);
	struct naive *x = &t->naive;

	*x = (struct naive){.w = &t->work, .seed = seed + 3, .training = draw(t, 0, 3) > 0};
	x->step = ff_random_u32(&t->r);
	for (uint32_t i = 0; i < n->n_in; i++) {
		x->in[i] = random_whole(t, &n->in_map[i]);
		x->din[i] = new_whole(t, &n->in_map[i]);
	}
	if (n->op == FF_OP_SOFTMAX_CROSS_ENTROPY)
		fill_loss(t, (double *)x->in[1], (double *)x->in[2], (double *)x->in[3]);
	if (row->flags & FF_OP_LOSS && row->predicts != FF_PREDICTS_CLASSES)
		fill_targets(t, (double *)x->in[1]);
	if (n->op == FF_OP_BATCH_NORM || n->op == FF_OP_BATCH_MOMENTS)
		fill_batch(t, (double *)x->in[0], n->n_in > 1 ? (double *)x->in[1] : NULL);
	x->dout = random_whole(t, &n->out_map[0]);
	x->out = new_whole(t, &n->out_map[0]);
	t->before = NULL;
	if (n->op == FF_OP_BATCH_MOMENTS) {
		t->before = random_whole(t, &n->in_map[0]);
		memcpy(x->din[0], t->before,
				(size_t)naive_volume(n->in_map[0].rank, n->in_map[0].shape) *
						sizeof(*t->before));
	}
	naive_run(x);
}

/* NaN: what is not written shows. */
static void *device_memory(struct trial *t, int64_t bytes)
{
	return chosen_put(t->dev, t->stream, NULL, (size_t)bytes);
}

/* A dense shard of `region`, of elements of `type`; NULL when that is empty. */
static void *shard_of(struct trial *t, const struct ff_operand *o, enum ff_dtype type,
		const struct ff_region *region, const double *whole)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(type));
	int32_t at[FF_MAX_RANK];
	void *v, *shard;

	if (!bytes)
		return NULL;
	v = malloc(bytes);
	ck_assert_ptr_nonnull(v);
	memset(v, 0xff, bytes);
	memcpy(at, region->lo, sizeof(at));
	do {
		double value = whole ? whole[naive_index(o, at)] : NAN;

		typed_put(type, v, ff_region_offset(o->order, region, at), value);
	} while (naive_next(region, at));
	shard = chosen_put(t->dev, t->stream, v, bytes);
	free(v);
	return shard;
}

static void compare(struct trial *t, const char *what, const struct ff_operand *o,
		enum ff_dtype type, const struct ff_region *region, const void *device,
		const double *whole)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(type));
	int64_t n = naive_volume(o->rank, o->shape);
	int32_t at[FF_MAX_RANK];
	double largest = 0.01; /* data are about 1, of which sums may cancel */
	char key[FF_KEY_BYTES];
	void *shard;

	if (!bytes)
		return;
	shard = malloc(bytes);
	chosen_get(t->stream, shard, device, bytes);
	for (int64_t i = 0; i < n; i++)
		largest = fmax(largest, fabs(whole[i]));
	memcpy(at, region->lo, sizeof(at));
	do {
		double want = whole[naive_index(o, at)],
		       have = typed_get(type, shard, ff_region_offset(o->order, region, at));
		double rounding = type == FF_BF16 ? BF16_HALF_ULP * fabs(want) : 0;

		if (fabs(want - have) <= TOLERANCE * largest + rounding)
			continue;
		ff_work_key(&t->work, key);
		ck_abort_msg("%s at (%d, %d, %d, %d) is %g, expected %g: %s", what, at[0], at[1],
				at[2], at[3], have, want, key);
	} while (naive_next(region, at));
	free(shard);
}

static void give_back(struct trial *t, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < NAIVE_INPUTS; i++) {
		backend->memory.free(t->dev, (void *)(uintptr_t)io->in[i]);
		backend->memory.free(t->dev, io->din[i]);
	}
	backend->memory.free(t->dev, io->out[0]);
	backend->memory.free(t->dev, (void *)(uintptr_t)io->dout[0]);
	backend->memory.free(t->dev, io->workspace);
}

/* Only what the pass may touch is there, so that anything else crashes. */
static void fill_io(struct trial *t, int64_t workspace, struct ff_kernel_io *io)
{
	const struct ff_node *n = t->node;
	const struct ff_work *w = &t->work;
	const struct naive *x = &t->naive;
	const struct ff_operand *o = &n->out_map[0], *in = n->in_map;
	bool back = w->pass == FF_BACKWARD;
	uint32_t flags = ff_op_row(n->op)->flags;

	*io = (struct ff_kernel_io){.seed = x->seed,
			.step = x->step,
			.training = x->training,
			.valid = x->valid};
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (!back || ((i >= n->n_data || (flags & FF_OP_BACKWARD_IN)) &&
					     ff_grads_read(w->grads, i >= n->n_data)))
			io->in[i] = shard_of(t, &in[i], in[i].dtype, &w->in[i], x->in[i]);
		if (w->need_din[i])
			io->din[i] = shard_of(t, &in[i], (enum ff_dtype)in[i].gradient, &w->in[i],
					t->before);
	}
	if (!back || (flags & FF_OP_BACKWARD_OUT))
		io->out[0] = shard_of(t, o, o->dtype, &w->out[0], back ? x->out : NULL);
	if (back && !(flags & FF_OP_LOSS))
		io->dout[0] = shard_of(t, o, o->dtype, &w->out[0], x->dout);
	if (n->n_saved)
		io->out[1] = t->saved;
	for (uint32_t k = n->n_out - n->n_kept; k < n->n_out; k++)
		io->out[k] = t->kept[k - (n->n_out - n->n_kept)];
	if (workspace)
		io->workspace = device_memory(t, workspace);
}

/* A half of backward gets by with what the whole needs. */
static void check_half(struct trial *t, int64_t workspace)
{
	struct ff_work whole;
	struct ff_kernel *k;
	struct ff_error err;

	if (t->work.grads == FF_GRADS_ALL)
		return;
	ff_work_fill(&t->graph, (uint32_t)(t->node - t->graph.nodes), &t->work.box, FF_BACKWARD,
			&whole);
	whole.need_din[0] = true;
	check(backend->kernel.open(t->dev, &whole, &k, &err), &err);
	ck_assert_int_le(workspace, backend->kernel.workspace(k));
	backend->kernel.close(k);
}

/* Twice, with the same result, but where a gradient replaces another one. */
static void run_kernel(struct trial *t)
{
	const struct ff_node *n = t->node;
	const struct ff_work *w = &t->work;
	struct ff_kernel *k;
	struct ff_kernel_io io;
	struct ff_error err;
	int64_t workspace;

	check(backend->kernel.open(t->dev, w, &k, &err), &err);
	workspace = backend->kernel.workspace(k);
	ck_assert_int_eq(workspace % 64, 0);
	check_half(t, workspace);
	fill_io(t, workspace, &io);
	for (int again = 0; again < (t->before && w->pass == FF_BACKWARD ? 1 : 2); again++) {
		check(backend->kernel.run(t->stream, k, &io, &err), &err);
		check(backend->stream.drain(t->stream, &err), &err);
		if (w->pass == FF_FORWARD)
			compare(t, "out", &n->out_map[0], n->out_map[0].dtype, &w->out[0],
					io.out[0], t->naive.out);
		for (uint32_t i = 0; i < n->n_in; i++)
			if (w->need_din[i])
				compare(t, i < n->n_data ? "din" : "dweight", &n->in_map[i],
						(enum ff_dtype)n->in_map[i].gradient, &w->in[i],
						io.din[i], t->naive.din[i]);
	}
	give_back(t, &io);
	backend->kernel.close(k);
}

static void make_kept(struct trial *t)
{
	for (int i = 0; i < FF_MAX_KEPT; i++) {
		const struct ff_operand *o = &t->node->out_map[1 + i];
		double *all = new_whole(t, o);

		for (int32_t c = 0; c < o->shape[0]; c++)
			all[c] = i ? NAIVE_KEPT_VARIANCE : NAIVE_KEPT_MEAN;
		t->kept[i] = shard_of(t, o, FF_F32, &t->work.out[1 + i], all);
	}
}

/* After two steps: the variance that is kept is that of a sample, and of several groups each
 * counts as much as the part has of it. */
static void check_kept(struct trial *t)
{
	const struct ff_region *in = &t->work.in[0];
	double rest = (1 - t->node->attrs.norm.momentum) * (1 - t->node->attrs.norm.momentum);
	double share = (1 - rest) / ff_region_size(in, 0);

	for (int i = 0; i < FF_MAX_KEPT; i++) {
		const struct ff_operand *o = &t->node->out_map[1 + i];
		double *want = new_whole(t, o);

		for (int32_t c = 0; c < o->shape[0]; c++) {
			want[c] = rest * (i ? NAIVE_KEPT_VARIANCE : NAIVE_KEPT_MEAN);
			for (int32_t s = in->lo[0]; s < in->hi[0]; s++) {
				const double *m = t->naive.in[1] +
						  4 * naive_moments(t->node,
								      s * (int64_t)o->shape[0] + c);

				want[c] += share * (i ? m[2] / (m[0] - 1) : m[1]);
			}
		}
		compare(t, "kept", o, FF_F32, &t->work.out[1 + i], t->kept[i], want);
	}
}

/* Backward of what saves something runs after forward of the same part. */
static void run_pass(struct trial *t, enum ff_pass pass)
{
	const struct ff_node *n = t->node;

	draw_work(t, pass);
	fill_naive(t);
	if (n->n_kept)
		make_kept(t);
	else if (n->n_saved)
		t->saved = device_memory(t, ff_region_volume(&t->work.out[1]) *
							    ff_dtype_bytes(n->out_map[1].dtype));
	if (t->saved && pass == FF_BACKWARD) {
		struct ff_work backward = t->work;

		ff_work_fill(&t->graph, (uint32_t)(n - t->graph.nodes), &backward.box, FF_FORWARD,
				&t->work);
		run_kernel(t);
		t->work = backward;
	}
	run_kernel(t);
	if (n->n_kept && pass == FF_BACKWARD)
		check_kept(t);
	backend->memory.free(t->dev, t->saved);
	for (int i = 0; i < FF_MAX_KEPT; i++) {
		backend->memory.free(t->dev, t->kept[i]);
		t->kept[i] = NULL;
	}
	t->saved = NULL;
}

static void run_trial(enum ff_op op, enum ff_dtype type, uint32_t number, struct ff_device *dev,
		struct ff_stream *stream)
{
	struct trial t = {.r = {.seed = seed, .stream = ff_philox_stream(number, op)},
			.dev = dev,
			.stream = stream};
	struct ff_builder *b;
	struct ff_error err;

	ff_arena_init(&t.arena);
	check(ff_builder_create("trial", &t.arena, &b, &err), &err);
	ff_builder_set_dtype(b, type);
	if (op == FF_OP_SOFTMAX_CROSS_ENTROPY)
		build_loss(&t, b);
	else if (ff_op_row(op)->flags & FF_OP_LOSS)
		build_point_loss(&t, b, op);
	else
		build_other(&t, b, op == FF_OP_BATCH_MOMENTS ? FF_OP_BATCH_NORM : op);
	check(ff_builder_finish(b, &t.graph, &err), &err);
	t.node = &t.graph.nodes[ff_graph_find(&t.graph, "node")];
	if (op == FF_OP_BATCH_MOMENTS)
		t.node = &t.graph.nodes[ff_graph_find(&t.graph, "node.moments")];
	run_pass(&t, FF_FORWARD);
	run_pass(&t, FF_BACKWARD);
	ff_arena_finish(&t.arena);
}

static const uint16_t trials[FF_OP_COUNT] = {[FF_OP_CONV1D] = 150,
		[FF_OP_CONV2D] = 250,
		[FF_OP_CONV3D] = 150,
		[FF_OP_CONV_TRANSPOSE1D] = 150,
		[FF_OP_CONV_TRANSPOSE2D] = 250,
		[FF_OP_CONV_TRANSPOSE3D] = 150,
		[FF_OP_LINEAR] = 80,
		[FF_OP_POOL1D] = 100,
		[FF_OP_POOL2D] = 150,
		[FF_OP_POOL3D] = 100,
		[FF_OP_ADAPTIVE_POOL] = 100,
		[FF_OP_UPSAMPLE] = 150,
		[FF_OP_LOCAL_RESPONSE_NORM] = 100,
#define UNARY(e, row) [e] = 30,
		FF_UNARY_OPS(UNARY)
#undef UNARY
				[FF_OP_ADD] = 40,
		[FF_OP_CONCAT] = 100,
		[FF_OP_RESHAPE] = 300,
		[FF_OP_DROPOUT] = 60,
		[FF_OP_LAYER_NORM] = 80,
		[FF_OP_RMS_NORM] = 50,
		[FF_OP_GROUP_NORM] = 80,
		[FF_OP_BATCH_MOMENTS] = 80,
		[FF_OP_BATCH_NORM] = 80,
		[FF_OP_SOFTMAX_CROSS_ENTROPY] = 60,
#define POINT_LOSS(e, row) [e] = 60,
		FF_POINT_LOSS_OPS(POINT_LOSS)
#undef POINT_LOSS
};

/* In float32 and, where the processor has it, in bfloat16. */
START_TEST(test_against_definition)
{
	enum ff_op op = (enum ff_op)(_i % FF_OP_COUNT);
	enum ff_dtype type = _i < FF_OP_COUNT ? FF_F32 : FF_BF16;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;
	bool able;

	check(backend->device.open(0, &dev, &err), &err);
	check(backend->stream.open(dev, op % 2, &stream, &err), &err);
	able = backend->device.computes(dev, type, &err) == FF_OK;
	ck_assert(able || type == FF_BF16);
	for (uint32_t i = 0; trials[op] && i < ff_test_rounds(trials[op]) && able; i++)
		run_trial(op, type, i, dev, stream);
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("kernels");
	TCase *t = tcase_create("property");

	backend = chosen_backend();
	seed = ff_test_seed(20240601);
	tcase_set_timeout(t, 0);
	tcase_add_loop_test(t, test_against_definition, 0, 2 * FF_OP_COUNT);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
