/* Random graphs.  SPDX-License-Identifier: Apache-2.0 */
#include "random_graph.h"

#include <stdio.h>
#include <string.h>

#include "ff/builder.h"
#include "random_maker.h"

#define RANDOM_CLASSES 5

static int32_t between(struct maker *m, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(m->r, (uint32_t)(hi - lo + 1));
}

static bool is_conv(enum ff_op op)
{
	return op >= FF_OP_CONV1D && op <= FF_OP_CONV3D;
}

/* `like`: whose parameters to share, or NULL. */
static struct value *add_like(struct maker *m, enum ff_op op, const union ff_attrs *attrs,
		const struct value *const *in, uint32_t n_in, const struct value *shape,
		const struct layer *like)
{
	struct value *v = &m->value[m->n++];
	const char *name = ff_arena_printf(m->a, "%s%u", ff_op_row(op)->name, m->names++);
	const char *own[FF_MAX_PARAMS] = {NULL};
	uint32_t nodes[4];

	for (uint32_t i = 0; i < n_in; i++) {
		nodes[i] = in[i]->node;
		((struct value *)in[i])->used = true;
	}
	*v = *shape;
	v->used = false;
	/* all of them, or but one */
	for (uint32_t i = 0; like && i < FF_MAX_PARAMS; i++)
		if (ff_random_below(m->r, 4))
			own[i] = like->param[i];
	v->node = ff_builder_add_tied(m->b, op, name, attrs, nodes, n_in, own);
	if ((op == FF_OP_LINEAR || is_conv(op)) && !like) {
		struct layer *l = &m->layer[m->n_layers++];

		*l = (struct layer){.op = op, .name = name, .attrs = *attrs, .in = *in[0]};
		for (uint32_t i = 0; i < FF_MAX_PARAMS; i++)
			l->param[i] = ff_arena_printf(m->a, "%s.%s", name, ff_op_row(op)->param[i]);
	}
	return v;
}

static struct value *add(struct maker *m, enum ff_op op, const union ff_attrs *attrs,
		const struct value *const *in, uint32_t n_in, const struct value *shape)
{
	return add_like(m, op, attrs, in, n_in, shape, NULL);
}

/* Something to work on, preferably what nobody reads yet; `rank` 0: any, of
 * which there always is one. */
static struct value *pick(struct maker *m, uint32_t rank)
{
	struct value *found = NULL;
	uint32_t seen = 0;

	for (int fresh = (int)ff_random_below(m->r, 4) > 0; fresh >= 0 && !found; fresh--)
		for (uint32_t i = 0; i < m->n; i++) {
			struct value *v = &m->value[i];

			if ((rank && v->rank != rank) || (fresh && v->used))
				continue;
			if (!ff_random_below(m->r, ++seen))
				found = v;
		}
	return found || rank ? found : &m->value[0];
}

struct value *random_add(struct maker *m, enum ff_op op, const union ff_attrs *attrs,
		const struct value *const *in, uint32_t n_in, const struct value *shape)
{
	return add(m, op, attrs, in, n_in, shape);
}

struct value *random_pick_rank(struct maker *m, uint32_t rank)
{
	return pick(m, rank);
}

struct value *random_pick(struct maker *m)
{
	return pick(m, 0);
}

/* Numbers between two bounds, made of any. */
static const struct value *add_within(
		struct maker *m, const struct value *in, double low, double high)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_SCALE);

	a.unary.a = (high - low) / 2;
	a.unary.b = (high + low) / 2;
	in = add(m, FF_OP_TANH, NULL, &in, 1, in);
	return add(m, FF_OP_SCALE, &a, &in, 1, in);
}

/* A function of one element.  Of what is not bounded or not positive some would make numbers
 * that no strategy's sums agree on, as beside a step of a floor: before those goes a tanh or a
 * sigmoid. */
static void add_unary(struct maker *m)
{
	static const enum ff_op ops[] = {
#define UNARY(e, row) e,
			FF_UNARY_OPS(UNARY)
#undef UNARY
	};
	static const double exponents[] = {2, 3, -1, 0.5, 1.75};
	enum ff_op op = ops[ff_random_below(m->r, sizeof(ops) / sizeof(ops[0]))];
	const struct value *in = pick(m, 0);
	union ff_attrs a = ff_attrs_preset(op);

	if (op == FF_OP_GELU)
		a.unary.form = between(m, 0, 1);
	if (op == FF_OP_SCALE) {
		a.unary.a = 0.5 * between(m, -3, 3);
		a.unary.b = 0.25 * between(m, -2, 2);
	}
	if (op == FF_OP_CLIP) {
		a.unary.a = -0.25 * between(m, 1, 4);
		a.unary.b = 0.25 * between(m, 1, 4);
	}
	if (op == FF_OP_POW)
		a.unary.a = exponents[ff_random_below(m->r, 5)];
	if (op == FF_OP_LOG || op == FF_OP_SQRT || op == FF_OP_POW)
		in = add(m, FF_OP_SIGMOID, NULL, &in, 1, in);
	if (op == FF_OP_EXP)
		in = add(m, FF_OP_TANH, NULL, &in, 1, in);
	if (op == FF_OP_ASIN || op == FF_OP_ACOS)
		in = add_within(m, in, -0.75, 0.75);
	if (op == FF_OP_FLOOR || op == FF_OP_ROUND)
		in = add_within(m, in, 1.05, 1.45);
	if (op == FF_OP_LGAMMA || op == FF_OP_DIGAMMA)
		in = add_within(m, in, 0.5, 2.5);
	add(m, op, &a, &in, 1, in);
}

static void add_elementwise(struct maker *m)
{
	static const enum ff_op ops[] = {FF_OP_RELU, FF_OP_TANH, FF_OP_SIGMOID, FF_OP_DROPOUT};
	const struct value *in = pick(m, 0);
	enum ff_op op = ops[ff_random_below(m->r, 4)];
	union ff_attrs a = ff_attrs_preset(op);

	if (op == FF_OP_DROPOUT)
		a.dropout.p = 0.25 * between(m, 1, 3);
	add(m, op, op == FF_OP_DROPOUT ? &a : NULL, &in, 1, in);
}

static void add_linear(struct maker *m)
{
	const struct value *in = pick(m, (uint32_t)between(m, 2, 3));
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	struct value out;

	if (!in)
		return;
	out = *in;
	a.linear.out_features = between(m, 2, 9);
	a.linear.bias = between(m, 0, 3) > 0;
	out.shape[out.rank - 1] = a.linear.out_features;
	add(m, FF_OP_LINEAR, &a, &in, 1, &out);
}

/* Whether parameters of `l` fit what would be made of `v`. */
static bool fits(const struct layer *l, const struct value *v)
{
	if (l->op == FF_OP_LINEAR)
		return v->rank == 2 || v->rank == 3
				       ? v->shape[v->rank - 1] == l->in.shape[l->in.rank - 1]
				       : false;
	if (v->rank != l->in.rank || v->shape[1] != l->in.shape[1])
		return false;
	for (uint32_t i = 0; i + 2 < v->rank; i++)
		if (v->shape[2 + i] + l->attrs.conv.pad[0][i] + l->attrs.conv.pad[1][i] <
				l->attrs.conv.dilation[i] * (l->attrs.conv.kernel[i] - 1) + 1)
			return false;
	return true;
}

/* Parameters of an earlier layer again, for its own input or another. */
static void add_tied(struct maker *m)
{
	const struct value *in = NULL;
	const struct ff_conv_attrs *c;
	const struct layer *l;
	uint32_t seen = 0;
	struct value out;

	if (!m->n_layers)
		return;
	l = &m->layer[ff_random_below(m->r, m->n_layers)];
	c = &l->attrs.conv;
	for (uint32_t i = 0; i < m->n; i++)
		if (fits(l, &m->value[i]) && !ff_random_below(m->r, ++seen))
			in = &m->value[i];
	out = *in;
	if (l->op == FF_OP_LINEAR) {
		out.shape[out.rank - 1] = l->attrs.linear.out_features;
	} else {
		out.shape[1] = c->out_channels;
		for (uint32_t i = 0; i + 2 < in->rank; i++)
			out.shape[2 + i] = random_window(in->shape[2 + i], c->kernel[i],
					c->stride[i], c->pad[0][i] + c->pad[1][i], c->dilation[i]);
	}
	add_like(m, l->op, &l->attrs, &in, 1, &out, l);
}

/* Images to rows of vectors or to vectors, rows to vectors. */
static void add_reshape(struct maker *m)
{
	const struct value *in = pick(m, between(m, 0, 2) ? 4 : 3);
	union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);
	struct value out;

	if (!in)
		return;
	out = *in;
	if (in->rank == 4 && between(m, 0, 1)) {
		a.reshape = (struct ff_reshape_attrs){.rank = 3, .shape = {0, 0, -1}};
		out.rank = 3;
		out.shape[2] = in->shape[2] * in->shape[3];
	} else {
		a.reshape = (struct ff_reshape_attrs){.rank = 2, .shape = {0, -1}};
		out.rank = 2;
		for (uint32_t i = 2; i < in->rank; i++)
			out.shape[1] *= in->shape[i];
	}
	add(m, FF_OP_RESHAPE, &a, &in, 1, &out);
}

/* Whether two tensors agree in every axis but `axis`. */
static bool agree(const struct value *a, const struct value *b, uint32_t axis)
{
	if (a->rank != b->rank)
		return false;
	for (uint32_t i = 0; i < a->rank; i++)
		if (i != axis && a->shape[i] != b->shape[i])
			return false;
	return true;
}

/* Two or three tensors that fit, one of them perhaps twice. */
static void add_join(struct maker *m)
{
	const struct value *in[3] = {pick(m, 0)};
	bool sum = between(m, 0, 1);
	uint32_t axis = (uint32_t)between(m, 1, (int32_t)in[0]->rank - 1), n = 1;
	union ff_attrs a = {.concat = {.axis = (int32_t)axis}};
	struct value out = *in[0];

	for (uint32_t k = ff_random_below(m->r, m->n), i = 0; i < m->n && n < 3; i++) {
		const struct value *v = &m->value[(k + i) % m->n];

		if (agree(v, in[0], sum ? FF_NONE : axis) && (v != in[0] || between(m, 0, 5) == 0))
			in[n++] = v;
	}
	if (n == 1)
		return;
	for (uint32_t i = 1; i < n && !sum; i++)
		out.shape[axis] += in[i]->shape[axis];
	add(m, sum ? FF_OP_ADD : FF_OP_CONCAT, sum ? NULL : &a, in, n, &out);
}

/* One that has one element along some axes of `in`. */
static struct value *add_narrow(struct maker *m, const struct value *in)
{
	struct value *v = (struct value *)in;

	for (int32_t i = 1; i < (int32_t)in->rank; i++) {
		int32_t start = between(m, 0, v->shape[i] - 1);
		union ff_attrs a = {.slice = {i, start, start + 1}};
		struct value out = *v;

		out.shape[i] = 1;
		if (between(m, 0, 1))
			v = add(m, FF_OP_SLICE, &a, (const struct value *const *)&v, 1, &out);
	}
	return v;
}

/* The shape of a parameter that broadcasts to `in`. */
static void draw_parameter(struct maker *m, const struct value *in, struct ff_binary_attrs *a)
{
	a->rank = between(m, 1, (int32_t)in->rank);
	for (int32_t i = 0; i < a->rank; i++) {
		int32_t axis = (int32_t)in->rank - a->rank + i;

		a->shape[i] = axis && between(m, 0, 2) ? in->shape[axis] : 1;
	}
}

/* Of two tensors of one shape, perhaps one of them twice; of one and what broadcasts to it; of
 * one and a parameter. */
static void add_binary(struct maker *m)
{
	static const enum ff_op ops[] = {FF_OP_ADD, FF_OP_SUB, FF_OP_MUL, FF_OP_MUL, FF_OP_DIV,
			FF_OP_MIN, FF_OP_MAX, FF_OP_ATAN2};
	uint32_t drawn = ff_random_below(m->r, 8);
	const struct value *in[2] = {pick(m, 0)}, out = *in[0];
	int kind = between(m, 0, 2);
	/* by a parameter, which gets no gradient: what is computed may have another sign, rounded
	 */
	enum ff_op op = drawn == 3 && kind == 2 ? FF_OP_MASK : ops[drawn];
	bool divides = op == FF_OP_DIV || op == FF_OP_ATAN2;
	union ff_attrs a = ff_attrs_preset(op);

	in[1] = in[0];
	for (uint32_t k = ff_random_below(m->r, m->n), i = 0; i < m->n && in[1] == in[0]; i++)
		if (agree(&m->value[(k + i) % m->n], in[0], FF_NONE))
			in[1] = &m->value[(k + i) % m->n];
	if (kind == 1)
		in[1] = add_narrow(m, in[1]);
	if (kind == 2)
		draw_parameter(m, in[0], &a.binary);
	/* a divisor well away from zero */
	if (divides && kind < 2) {
		in[1] = add(m, FF_OP_TANH, NULL, &in[1], 1, in[1]);
		in[1] = add(m, FF_OP_EXP, NULL, &in[1], 1, in[1]);
	}
	if (kind == 1 && !divides && between(m, 0, 1)) {
		const struct value *first = in[0];

		in[0] = in[1];
		in[1] = first;
	}
	add(m, op, &a, in, kind == 2 ? 1 : 2, &out);
}

/* Sum, mean or largest of some axes, which mostly stay, of one element. */
static void add_reduce(struct maker *m)
{
	static const enum ff_op ops[] = {FF_OP_REDUCE_SUM, FF_OP_REDUCE_MEAN, FF_OP_REDUCE_MAX};
	enum ff_op op = ops[ff_random_below(m->r, 3)];
	const struct value *in = pick(m, 0);
	union ff_attrs a = ff_attrs_preset(op);
	int32_t axis = between(m, 1, (int32_t)in->rank - 1);
	struct value out = *in;

	a.reduce.keep = in->rank < 4 || between(m, 0, 2);
	for (int32_t i = 1; i < (int32_t)in->rank; i++)
		if (i == axis || (a.reduce.keep && between(m, 0, 1)))
			a.reduce.axis[a.reduce.n_axes++] = i;
	for (int32_t i = 0; i < a.reduce.n_axes; i++)
		out.shape[a.reduce.axis[i]] = 1;
	for (int32_t i = axis; !a.reduce.keep && i + 1 < (int32_t)in->rank; i++)
		out.shape[i] = in->shape[i + 1];
	out.rank -= !a.reduce.keep;
	add(m, op, &a, &in, 1, &out);
}

/* The products of rows, or of images, with themselves; of all or some, or of one for many. */
static void add_matmul(struct maker *m)
{
	const struct value *in[2] = {pick(m, between(m, 0, 2) ? 4 : 3)};
	union ff_attrs a = ff_attrs_preset(FF_OP_MATMUL);
	struct value out;
	uint32_t last;

	if (!in[0])
		return;
	/* small numbers: products of sums of products grow fast */
	in[0] = add(m, FF_OP_TANH, NULL, in, 1, in[0]);
	in[1] = in[0];
	last = in[0]->rank - 1;
	out = *in[0];
	if (last == 3 && between(m, 0, 1)) {
		union ff_attrs one = {.slice = {1, 0, 1}};
		struct value narrow = *in[0];

		narrow.shape[1] = 1;
		in[1] = add(m, FF_OP_SLICE, &one, in, 1, &narrow);
	}
	a.matmul.transpose_a = between(m, 0, 1);
	a.matmul.transpose_b = !a.matmul.transpose_a;
	out.shape[last] = out.shape[last - 1] =
			in[0]->shape[a.matmul.transpose_a ? last : last - 1];
	add(m, FF_OP_MATMUL, &a, in, 2, &out);
}

static void add_softmax(struct maker *m)
{
	const struct value *in = pick(m, 0);
	union ff_attrs a = {.softmax = {between(m, 1, (int32_t)in->rank - 1)}};

	add(m, between(m, 0, 1) ? FF_OP_SOFTMAX : FF_OP_LOG_SOFTMAX, &a, &in, 1, in);
}

static void add_slice(struct maker *m)
{
	const struct value *in = pick(m, 0);
	int32_t axis = between(m, 1, (int32_t)in->rank - 1);
	int32_t start = between(m, 0, in->shape[axis] - 1);
	union ff_attrs a = {.slice = {axis, start, between(m, start + 1, in->shape[axis])}};
	struct value out = *in;

	out.shape[axis] = a.slice.stop - a.slice.start;
	add(m, FF_OP_SLICE, &a, &in, 1, &out);
}

/* As many parts as divide an axis, of those that are few. */
static void add_split(struct maker *m)
{
	const struct value *in = pick(m, 0);
	int32_t axis = between(m, 1, (int32_t)in->rank - 1), parts = 4;
	union ff_attrs a = {.split = {axis, 1}};
	struct value out = *in, *first;

	while (in->shape[axis] % parts)
		parts--;
	a.split.parts = parts;
	out.shape[axis] /= parts;
	first = add(m, FF_OP_SPLIT, &a, &in, 1, &out);
	for (int32_t i = 1; i < parts; i++) {
		m->value[m->n] = *first;
		m->value[m->n++].node = FF_PORT(first->node, i);
	}
}

static void add_transpose(struct maker *m)
{
	const struct value *in = pick(m, 0);
	union ff_attrs a = {.transpose = {.rank = (int32_t)in->rank}};
	struct value out = *in;

	for (int32_t i = 0; i < (int32_t)in->rank; i++) {
		int32_t k = i ? between(m, 1, i) : 0;

		a.transpose.perm[i] = a.transpose.perm[k];
		a.transpose.perm[k] = i;
	}
	for (uint32_t i = 0; i < in->rank; i++)
		out.shape[i] = in->shape[a.transpose.perm[i]];
	add(m, FF_OP_TRANSPOSE, &a, &in, 1, &out);
}

/* Ids, themselves and as numbers, and their vectors, whose table a linear layer may share. */
static void add_words(struct maker *m, int32_t batch)
{
	const char *tied[FF_MAX_PARAMS] = {"embedding.weight"};
	int32_t words = between(m, 3, 9), features = between(m, 2, 6), n = between(m, 1, 3);
	union ff_attrs ids = {.input = {2, {batch, n}, FF_I32, words}};
	union ff_attrs table = {.embedding = {words, features, batch * n < words}};
	union ff_attrs linear = ff_attrs_preset(FF_OP_LINEAR);
	struct value *v = &m->value[m->n++];
	uint32_t node = ff_builder_add(m->b, FF_OP_INPUT, "ids", &ids, NULL, 0);

	*v = (struct value){.rank = 3, .shape = {batch, n, features}};
	v->node = ff_builder_add(m->b, FF_OP_EMBEDDING, "embedding", &table, &node, 1);
	if (between(m, 0, 1)) { /* and as numbers, about as large as others */
		union ff_attrs small = {.unary = {.a = 0.25}};
		uint32_t cast = ff_builder_add(m->b, FF_OP_CAST, "numbers", NULL, &node, 1);

		m->value[m->n] = (struct value){.rank = 2, .shape = {batch, n}};
		m->value[m->n++].node =
				ff_builder_add(m->b, FF_OP_SCALE, "small", &small, &cast, 1);
	}
	if (between(m, 0, 1))
		return;
	linear.linear.out_features = words;
	v->used = true;
	node = v->node;
	v = &m->value[m->n++];
	*v = (struct value){.rank = 3, .shape = {batch, n, words}};
	v->node = ff_builder_add_tied(m->b, FF_OP_LINEAR, "words", &linear, &node, 1, tied);
}

/* Whether there is a variance of each of its channels, of so many samples (0: all). */
static bool has_variance(const struct value *in, int32_t group)
{
	int32_t batch = in->shape[0], last = group ? (batch - 1) % group + 1 : batch;

	for (uint32_t i = 2; i < in->rank; i++)
		last *= in->shape[i];
	return last > 1;
}

/* Rows may be of two elements, of which an epsilon that is small would make signs; with this one
 * no norm makes differences larger. */
static void add_norm_of(struct maker *m, enum ff_op op, const struct value *in)
{
	union ff_attrs a = ff_attrs_preset(op);
	int32_t groups = between(m, 1, 3);

	a.norm.epsilon = 1;
	a.norm.affine = between(m, 0, 3) > 0;
	if (op == FF_OP_GROUP_NORM)
		a.norm.groups = in->shape[1] % groups ? 1 : groups;
	else if (op != FF_OP_BATCH_NORM)
		a.norm.axes = between(m, 1, (int32_t)in->rank - 1);
	if (op == FF_OP_BATCH_NORM)
		a.norm.group = m->norm_group;
	a.norm.sync = !a.norm.group;
	add(m, op, &a, &in, 1, in);
}

static void add_norm(struct maker *m)
{
	static const enum ff_op ops[] = {FF_OP_LAYER_NORM, FF_OP_RMS_NORM, FF_OP_GROUP_NORM,
			FF_OP_BATCH_NORM, FF_OP_BATCH_NORM};
	const struct value *in = pick(m, 0);
	bool batch = m->batch_norms && has_variance(in, m->norm_group);

	add_norm_of(m, ops[ff_random_below(m->r, batch ? 5 : 3)], in);
}

/* Those that are there twice are drawn twice as often. */
void random_any(struct maker *m)
{
	static void (*const makers[])(struct maker * m) = {random_conv, random_conv,
			random_conv_transpose, random_pool, random_resize, random_response,
			add_elementwise, add_elementwise, add_linear, add_reshape, add_tied,
			add_binary, add_slice, add_split, add_transpose, add_unary, add_reduce,
			add_matmul, add_softmax, add_norm, add_norm, random_move, random_move,
			random_sequence, random_route, random_attention, random_attention, add_join,
			add_join};

	makers[ff_random_below(m->r, sizeof(makers) / sizeof(makers[0]))](m);
}

/* Vectors of all that nobody reads, joined; classes of those. */
static void add_end(struct maker *m, int32_t batch)
{
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs join = {.concat = {.axis = 1}}, linear = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs labels = {.input = {.rank = 1,
						 .shape = {batch},
						 .dtype = FF_I32,
						 .classes = RANDOM_CLASSES}};
	uint32_t open[MAX_VALUES], n_open = 0, last[2];
	union ff_attrs loss = ff_attrs_preset(FF_OP_SOFTMAX_CROSS_ENTROPY);
	struct value shape = {.rank = 2, .shape = {batch}};

	for (uint32_t i = 0, n = m->n; i < n; i++) {
		const struct value *v = &m->value[i];

		if (!v->used)
			open[n_open++] = v->rank == 2 ? v->node
						      : add(m, FF_OP_RESHAPE, &flat, &v, 1, &shape)
									 ->node;
	}
	last[0] = n_open == 1 ? open[0]
			      : ff_builder_add(m->b, FF_OP_CONCAT, "all", &join, open, n_open);
	linear.linear.out_features = RANDOM_CLASSES;
	last[0] = ff_builder_add(m->b, FF_OP_LINEAR, "logits", &linear, last, 1);
	last[1] = ff_builder_add(m->b, FF_OP_INPUT, "labels", &labels, NULL, 0);
	loss.loss.smoothing = ff_random_below(m->r, 3) ? 0 : 0.25;
	if (ff_random_below(m->r, 3) == 0) {
		loss.loss.weight = 0.5;
		loss.loss.ignore = between(m, 0, RANDOM_CLASSES - 1);
	}
	ff_builder_add(m->b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", &loss, last, 2);
}

/* Another loss, of something that others may read too, bounded; its targets may be the data. */
static void add_other_loss(struct maker *m)
{
	static const enum ff_op losses[] = {
#define POINT_LOSS(e, row) e,
			FF_POINT_LOSS_OPS(POINT_LOSS)
#undef POINT_LOSS
	};
	enum ff_op op = losses[between(m, 0, sizeof(losses) / sizeof(losses[0]) - 1)];
	const struct value *x = pick(m, 0);
	union ff_attrs loss = ff_attrs_preset(op), a = ff_attrs_preset(FF_OP_INPUT);
	uint32_t in[2];

	x = add(m, FF_OP_TANH, NULL, &x, 1, x);
	loss.loss.weight = 0.25 * between(m, 1, 8);
	a.input.rank = (int32_t)x->rank;
	memcpy(a.input.shape, x->shape, sizeof(x->shape));
	in[0] = x->node;
	in[1] = agree(x, &m->value[0], FF_NONE) && between(m, 0, 1)
				? m->value[0].node
				: ff_builder_add(m->b, FF_OP_INPUT, "targets", &a, NULL, 0);
	ff_builder_add(m->b, op, "other_loss", &loss, in, 2);
}

int random_graph(struct ff_random *r, enum ff_dtype type, uint32_t max_ops, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	struct maker m = {.r = r, .a = a};
	struct value image = {.rank = 4};
	union ff_attrs attrs = {.input = {.rank = 4, .dtype = FF_F32}};
	int code = ff_builder_create("random", a, &m.b, err);
	uint32_t ops;
	int32_t norms;

	if (code < 0)
		return code;
	ff_builder_set_dtype(m.b, type);
	norms = between(&m, 0, 2);
	m.batch_norms = norms < 2;
	m.norm_group = norms == 1 ? between(&m, 1, 3) : 0;
	image.shape[0] = between(&m, 1, 7);
	image.shape[1] = between(&m, 1, 4);
	image.shape[2] = between(&m, 3, 8);
	image.shape[3] = between(&m, 3, 8);
	memcpy(attrs.input.shape, image.shape, sizeof(image.shape));
	add(&m, FF_OP_INPUT, &attrs, NULL, 0, &image);
	random_conv(&m); /* so that gradients flow */
	if (m.norm_group && has_variance(&m.value[m.n - 1], m.norm_group))
		add_norm_of(&m, FF_OP_BATCH_NORM, &m.value[m.n - 1]);
	if (between(&m, 0, 3) == 0)
		add_words(&m, image.shape[0]);
	ops = 1 + ff_random_below(r, max_ops);
	for (uint32_t i = 0; i < ops && m.n < MAX_VALUES / 4; i++)
		random_any(&m);
	if (between(&m, 0, 3) == 0)
		add_other_loss(&m);
	add_end(&m, image.shape[0]);
	return ff_builder_finish(m.b, ret, err);
}
