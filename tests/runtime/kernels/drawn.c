/* Random nodes for tests of kernels.  SPDX-License-Identifier: Apache-2.0 */
#include "drawn.h"

#include <string.h>

#include "draw_windows.h"

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
	t->positive = op == FF_OP_LOG || op == FF_OP_SQRT || op == FF_OP_LGAMMA ||
		      op == FF_OP_DIGAMMA || (op == FF_OP_POW && (a->a < 2 || a->a > 2));
	t->inside = op == FF_OP_ASIN || op == FF_OP_ACOS;
	t->positive = t->positive && !(op == FF_OP_POW && a->a == 3);
}

/* Rows of few elements, and now and then so many of either that they are several runs. */
static void draw_norm(struct trial *t, enum ff_op op, union ff_attrs *attrs, int32_t *shape,
		uint32_t rank)
{
	struct ff_norm_attrs *a = &attrs->norm;
	int64_t row;

	if (op == FF_OP_GROUP_NORM) {
		a->groups = draw(t, 1, 4);
		shape[1] = a->groups * draw(t, 1, 5);
	} else if (op == FF_OP_BATCH_NORM) {
		shape[0] = draw(t, 0, 3) ? draw(t, 2, 9) : draw(t, 130, 200);
		if (coin(t)) /* as GPUs read several at once */
			shape[1] = 8 * draw(t, 1, rank < 4 ? 20 : 3);
		a->group = coin(t) ? draw(t, 2, 2 * shape[0]) : 0;
		if (a->group && shape[0] % a->group == 1)
			shape[0]++; /* of one there may be no variance */
		a->sync = !a->group;
	} else {
		a->axes = draw(t, 1, (int32_t)rank - 1);
	}
	if (a->axes && coin(t))
		shape[rank - 1] = 8 * draw(t, 1, 3);
	if (draw(t, 0, 4) == 0 && a->axes) {
		bool wide = coin(t), packs = coin(t);

		for (uint32_t i = 0; i < rank; i++)
			shape[i] = 1;
		a->axes = 1;
		shape[0] = wide ? draw(t, 1, 2) : draw(t, 100, 400);
		if (packs)
			shape[rank - 1] = 8 * (wide ? draw(t, 100, 300) : draw(t, 1, 20));
		else
			shape[rank - 1] = wide ? draw(t, 1000, 1500) : draw(t, 1, 70);
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

void build_loss(struct trial *t, struct ff_builder *b)
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

void build_point_loss(struct trial *t, struct ff_builder *b, enum ff_op op)
{
	int32_t rank = draw(t, 2, 5), shape[FF_MAX_RANK];
	union ff_attrs a = ff_attrs_preset(op);
	uint32_t in[2];

	draw_shape(t, (uint32_t)rank, shape);
	if (draw(t, 0, 9) == 0)
		shape[rank - 1] = draw(t, 2000, 9000);
	in[0] = add_linear(b, add_input(b, "x", (uint32_t)rank, shape, 0), shape[rank - 1]);
	in[1] = add_input(b, "targets", (uint32_t)rank, shape, op == FF_OP_MEAN && coin(t) ? 9 : 0);
	a.loss.weight = coin(t) ? 1 : 0.5;
	if (op == FF_OP_MEAN)
		a.loss.ignore = draw(t, -2, 5);
	ff_builder_add(b, op, "node", &a, in, 2);
}

void build_other(struct trial *t, struct ff_builder *b, enum ff_op op)
{
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
		attrs.linear.out_features = coin(t) ? 8 * draw(t, 1, 10) : draw(t, 1, 40);
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
		n_in = (uint32_t)draw(t, 2, op == FF_OP_CONCAT && coin(t) ? NAIVE_INPUTS : 4);
	for (uint32_t i = 0; i < n_in; i++) {
		if (op == FF_OP_CONCAT)
			shape[attrs.concat.axis] = draw(t, 1, 6);
		in[i] = add_input(b, ff_arena_printf(&t->arena, "x%u", i), rank, shape, 0);
	}
	node = ff_builder_add(b, op, "node", &attrs, in, n_in);
	add_loss(b, node, shape[0]);
}
