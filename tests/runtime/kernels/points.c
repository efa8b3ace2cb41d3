/* Operators that pick, move, broadcast, add up and multiply elements, from their definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "chosen.h"
#include "trial.h"
#include "typed.h"

/* ---- what is drawn ---- */

bool points_binary(enum ff_op op)
{
	static const bool binary[FF_OP_COUNT] = {
#define BINARY(e, row) [e] = true,
			FF_BINARY_OPS(BINARY)
#undef BINARY
	};

	return binary[op];
}

/* The second operand: `other`, or a parameter, each with some axes of the first; and the first
 * with some of the second. */
static void draw_operands(struct trial *t, int32_t rank, int32_t *shape, int32_t *other,
		struct ff_binary_attrs *a)
{
	memcpy(other, shape, (size_t)rank * sizeof(*shape));
	for (int32_t i = 1; i < rank; i++)
		if (draw(t, 0, 1))
			(draw(t, 0, 2) ? other : shape)[i] = 1;
	if (draw(t, 0, 1))
		return;
	a->rank = draw(t, 1, rank);
	memcpy(a->shape, other + rank - a->rank, (size_t)a->rank * sizeof(*shape));
	if (a->rank == rank)
		a->shape[0] = 1;
}

bool points_reduce(enum ff_op op)
{
	return op == FF_OP_REDUCE_SUM || op == FF_OP_REDUCE_MEAN || op == FF_OP_REDUCE_MAX;
}

static bool has_axis(const struct ff_reduce_attrs *a, uint32_t axis)
{
	for (int32_t i = 0; i < a->n_axes; i++)
		if (a->axis[i] == (int32_t)axis)
			return true;
	return false;
}

static void draw_axes(struct trial *t, int32_t rank, struct ff_reduce_attrs *a)
{
	a->keep = draw(t, 0, 1);
	for (int32_t i = 1; i < rank; i++)
		if (draw(t, 0, 1))
			a->axis[a->n_axes++] = i;
	if (!a->n_axes)
		a->axis[a->n_axes++] = draw(t, 1, rank - 1);
}

/* Two of two axes: every row of the one meets the rows of the other, or has a number for each. */
static void draw_samples(struct trial *t, int32_t *shape, int32_t *other, struct ff_matmul_attrs *a)
{
	shape[0] = other[0] = draw(t, 1, 9);
	*a = (struct ff_matmul_attrs){.transpose_b = draw(t, 0, 1)};
	other[1] = a->transpose_b ? shape[1] : draw(t, 1, 9);
	if (!a->transpose_b)
		shape[1] = shape[0];
}

/* Two that make products, of batches that agree or of which one is for all. */
static void draw_matrices(struct trial *t, int32_t rank, int32_t *shape, int32_t *other,
		struct ff_matmul_attrs *a)
{
	int32_t inner = shape[rank - 1], columns = draw(t, 1, 9);

	a->transpose_a = draw(t, 0, 1);
	a->transpose_b = draw(t, 0, 1);
	memcpy(other, shape, (size_t)rank * sizeof(*shape));
	for (int32_t i = 1; i + 2 < rank; i++)
		if (draw(t, 0, 1))
			(draw(t, 0, 1) ? other : shape)[i] = 1;
	if (a->transpose_a) {
		shape[rank - 1] = shape[rank - 2];
		shape[rank - 2] = inner;
	}
	other[rank - 1] = a->transpose_b ? inner : columns;
	other[rank - 2] = a->transpose_b ? columns : inner;
}

static void draw_pad(struct trial *t, int32_t rank, const int32_t *shape, struct ff_pad_attrs *a)
{
	a->rank = a->rank_after = rank;
	a->value = 0.25 * draw(t, -3, 3);
	for (int32_t i = 1; i < rank; i++) {
		a->before[i] = draw(t, -(shape[i] - 1) / 2, 3);
		a->after[i] = draw(t, -(shape[i] - 1) / 2, 3);
	}
	a->mode = rank >= 3 && rank <= 5 ? draw(t, 0, FF_PAD_EDGE) : FF_PAD_CONSTANT;
	for (int32_t i = 1; i < rank && a->mode; i++) {
		int32_t most = i == 1 ? 0 : shape[i] < 5 ? shape[i] - 1 : 4;

		a->before[i] = draw(t, 0, most);
		a->after[i] = draw(t, 0, most);
	}
}

/* To `shape` from one of some of its axes, which becomes the input's, or is a parameter's. */
static void draw_expand(struct trial *t, int32_t rank, int32_t *shape, struct ff_expand_attrs *a)
{
	bool own = draw(t, 0, 1);

	a->rank = rank;
	memcpy(a->shape, shape, (size_t)rank * sizeof(*shape));
	for (int32_t i = 1; i < rank; i++)
		shape[i] = draw(t, 0, 1) ? 1 : shape[i];
	if (!own)
		return;
	a->own_rank = draw(t, 1, rank);
	memcpy(a->own, shape + rank - a->own_rank, (size_t)a->own_rank * sizeof(*shape));
	if (a->own_rank == rank)
		a->own[0] = 1;
}

static double *draw_numbers(struct trial *t, int64_t n)
{
	double *v = ff_arena_array(&t->arena, (size_t)n, sizeof(*v));

	ck_assert_ptr_nonnull(v);
	return v;
}

static void draw_gather(struct trial *t, int32_t axis, int32_t size, struct ff_gather_attrs *a)
{
	int32_t n = draw(t, 1, 12);
	double *index = draw_numbers(t, n);

	for (int32_t i = 0; i < n; i++)
		index[i] = draw(t, 0, size - 1);
	*a = (struct ff_gather_attrs){axis, {n, index}};
}

static void draw_constant(
		struct trial *t, int32_t rank, const int32_t *shape, struct ff_constant_attrs *a)
{
	double *runs;
	int64_t left = 1;

	a->rank = rank;
	memcpy(a->shape, shape, (size_t)rank * sizeof(*shape));
	for (int32_t i = 1; i < rank; i++)
		left *= shape[i];
	if (shape[0] < 10 && draw(t, 0, 1)) /* of each sample its own */
		left *= shape[0];
	a->runs.at = runs = draw_numbers(t, 2 * left);
	while (left) {
		int64_t n = draw(t, 1, left < 20 ? (int32_t)left : 20);

		runs[a->runs.n++] = (double)n;
		runs[a->runs.n++] = 0.5 * draw(t, -9, 9);
		left -= n;
	}
}

/* Attributes that fit `shape`, which may be changed to fit them. */
void points_attrs(struct trial *t, enum ff_op op, int32_t rank, int32_t *shape, int32_t *other,
		union ff_attrs *a)
{
	int32_t axis = rank > 1 ? draw(t, 1, rank - 1) : 0;

	if (points_binary(op))
		draw_operands(t, rank, shape, other, &a->binary);
	if (op == FF_OP_MATMUL)
		rank == 2 ? draw_samples(t, shape, other, &a->matmul)
			  : draw_matrices(t, rank, shape, other, &a->matmul);
	if (op == FF_OP_SLICE) {
		a->slice.axis = axis;
		a->slice.start = draw(t, 0, shape[axis] - 1);
		a->slice.stop = draw(t, a->slice.start + 1, shape[axis]);
		a->slice.step = draw(t, 0, 1) ? 1 : draw(t, 2, 3);
	} else if (op == FF_OP_SPLIT) {
		*a = (union ff_attrs){.split = {axis, draw(t, 1, MAX_OUT)}};
		shape[axis] = a->split.parts * draw(t, 1, 3);
	} else if (op == FF_OP_TRANSPOSE) {
		a->transpose.rank = rank;
		for (int32_t i = 0; i < rank; i++) {
			int32_t k = i ? draw(t, 1, i) : 0;

			a->transpose.perm[i] = a->transpose.perm[k];
			a->transpose.perm[k] = i;
		}
	} else if (op == FF_OP_PAD) {
		draw_pad(t, rank, shape, &a->pad);
	} else if (op == FF_OP_EXPAND) {
		draw_expand(t, rank, shape, &a->expand);
	} else if (op == FF_OP_GATHER) {
		draw_gather(t, axis, shape[axis], &a->gather);
	} else if (op == FF_OP_CONSTANT_OF) {
		draw_constant(t, rank, shape, &a->constant);
	} else if (op == FF_OP_ROPE) {
		a->rope = (struct ff_rope_attrs){2 * draw(t, 1, 20), draw(t, 1, 20)};
		shape[1] = draw(t, 0, 2) ? shape[1] : draw(t, 100, 200);
		shape[2] = a->rope.head_dim * draw(t, 1, 3);
	} else if (points_reduce(op)) {
		draw_axes(t, rank, &a->reduce);
	} else if (op == FF_OP_EMBEDDING) {
		a->embedding = (struct ff_embedding_attrs){draw(t, 1, 40), draw(t, 1, 70)};
	}
}

/* ---- definitions ---- */

/* Where point `at` of the iteration space reads and writes: of every operator here
 * but the embedding one element of each. */
static uint32_t locate(const struct trial *t, const int32_t *at, int32_t *in, int32_t *out)
{
	const union ff_attrs *a = &t->node->attrs;
	uint32_t rank = t->node->out_map[0].rank, port = 0;

	memcpy(in, at, rank * sizeof(*at));
	memcpy(out, at, rank * sizeof(*at));
	if (t->node->op == FF_OP_SLICE) {
		in[a->slice.axis] = a->slice.start + at[a->slice.axis] * a->slice.step;
	} else if (t->node->op == FF_OP_GATHER) {
		in[a->gather.axis] = (int32_t)a->gather.indices.at[at[a->gather.axis]];
	} else if (t->node->op == FF_OP_SPLIT) {
		int32_t size = t->node->out_map[0].shape[a->split.axis];

		port = (uint32_t)(at[a->split.axis] / size);
		out[a->split.axis] %= size;
	} else if (t->node->op == FF_OP_TRANSPOSE) {
		for (uint32_t i = 0; i < rank; i++)
			in[a->transpose.perm[i]] = at[i];
	}
	return port;
}

static void define_point(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	int32_t in[FF_MAX_DIMS], out[FF_MAX_DIMS];
	uint32_t port = locate(t, at, in, out);
	int64_t i = index_of(&n->in_map[0], in), k = index_of(&n->out_map[port], out);

	t->out[port][k] = t->in[0][i];
	t->din[0][i] += t->dout[port][k];
}

/* An operand that lacks an axis, or has one element of it, has that one for all. */
static int64_t operand_index(const struct ff_operand *o, uint32_t rank, const int32_t *at)
{
	int64_t i = 0;

	for (uint32_t k = 0; k < o->rank; k++)
		i = i * o->shape[k] + (o->shape[k] == 1 ? 0 : at[rank - o->rank + k]);
	return i;
}

static void define_cast(struct trial *t, const int32_t *at)
{
	int64_t i = index_of(&t->node->in_map[0], at);

	t->out[0][i] = t->in[0][i];
}

/* The element that is `at` places from the first one of `n`, some of which are around them. */
static int32_t mirror(int32_t mode, int32_t at, int32_t n)
{
	if (mode == FF_PAD_EDGE)
		return at < 0 ? 0 : at >= n ? n - 1 : at;
	for (; mode == FF_PAD_REFLECT && (at < 0 || at >= n);)
		at = at < 0 ? -at : 2 * (n - 1) - at;
	return at;
}

/* Outside the input, its number, or elements of its own. */
static void define_pad(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	int64_t k = index_of(&n->out_map[0], at), i;
	int32_t in[FF_MAX_DIMS];
	bool inside = true;

	for (uint32_t d = 0; d < n->out_map[0].rank; d++) {
		in[d] = mirror(n->attrs.pad.mode, at[d] - n->attrs.pad.before[d],
				n->in_map[0].shape[d]);
		inside = inside && in[d] >= 0 && in[d] < n->in_map[0].shape[d];
	}
	t->out[0][k] = n->attrs.pad.value;
	if (!inside)
		return;
	i = index_of(&n->in_map[0], in);
	t->out[0][k] = t->in[0][i];
	t->din[0][i] += t->dout[0][k];
}

static void define_expand(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	int64_t i = operand_index(&n->in_map[0], n->out_map[0].rank, at);
	int64_t k = index_of(&n->out_map[0], at);

	t->out[0][k] = t->in[0][i];
	t->din[0][i] += t->dout[0][k];
}

static void define_constant(struct trial *t, const int32_t *at)
{
	const struct ff_operand *o = &t->node->out_map[0];
	const double *run = t->node->attrs.constant.runs.at;
	int64_t k = index_of(o, at), sample = volume(o) / o->shape[0], have = 0, left;

	for (int64_t i = 0; i < t->node->attrs.constant.runs.n; i += 2)
		have += (int64_t)run[i];
	left = have > sample ? k : k % sample;

	for (; left >= (int64_t)run[0]; run += 2)
		left -= (int64_t)run[0];
	t->out[0][k] = run[1];
}

static void define_binary(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	uint32_t rank = n->out_map[0].rank;
	int64_t i = operand_index(&n->in_map[0], rank, at);
	int64_t j = operand_index(&n->in_map[1], rank, at), k = index_of(&n->out_map[0], at);
	double x = t->in[0][i], y = t->in[1][j], less = x < y ? 1 : x > y ? 0 : 0.5;
	double z[FF_OP_COUNT] = {[FF_OP_ADD] = x + y,
			[FF_OP_SUB] = x - y,
			[FF_OP_MUL] = x * y,
			[FF_OP_DIV] = x / y,
			[FF_OP_MIN] = fmin(x, y),
			[FF_OP_MAX] = fmax(x, y),
			[FF_OP_ATAN2] = atan2(x, y),
			[FF_OP_MASK] = y > 0 ? x : 0};
	double dx[FF_OP_COUNT] = {[FF_OP_ADD] = 1,
			[FF_OP_SUB] = 1,
			[FF_OP_MUL] = y,
			[FF_OP_DIV] = 1 / y,
			[FF_OP_MIN] = less,
			[FF_OP_MAX] = 1 - less,
			[FF_OP_ATAN2] = y / (x * x + y * y),
			[FF_OP_MASK] = y > 0};
	double dy[FF_OP_COUNT] = {[FF_OP_ADD] = 1,
			[FF_OP_SUB] = -1,
			[FF_OP_MUL] = x,
			[FF_OP_DIV] = -x / y / y,
			[FF_OP_ATAN2] = -x / (x * x + y * y),
			[FF_OP_MIN] = 1 - less,
			[FF_OP_MAX] = less};

	t->out[0][k] = z[n->op];
	t->din[0][i] += t->dout[0][k] * dx[n->op];
	t->din[1][j] += t->dout[0][k] * dy[n->op];
}

/* Where the output has what is reduced from a position of the input. */
static int64_t reduced_index(const struct ff_node *n, const int32_t *at)
{
	int32_t to[FF_MAX_DIMS] = {0};
	uint32_t rank = 0;

	for (uint32_t i = 0; i < n->in_map[0].rank; i++) {
		bool reduced = has_axis(&n->attrs.reduce, i);

		if (!reduced)
			to[rank] = at[i];
		rank += !reduced || n->attrs.reduce.keep;
	}
	return index_of(&n->out_map[0], to);
}

static void define_sum(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	int64_t i = index_of(&n->in_map[0], at), k = reduced_index(n, at);
	double share = 1;

	for (int32_t a = 0; a < n->attrs.reduce.n_axes && n->op == FF_OP_REDUCE_MEAN; a++)
		share /= n->in_map[0].shape[n->attrs.reduce.axis[a]];
	t->out[0][k] += t->in[0][i] * share;
	t->din[0][i] = t->dout[0][k] * share;
}

/* Of equal ones each has its share of the gradient.  The second input is what its prelude finds. */
static void define_max(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	const struct ff_operand *in = &n->in_map[0];
	struct ff_region r = {.rank = in->rank};
	int32_t x[FF_MAX_DIMS];
	double most = -INFINITY, equal = 0;
	int32_t pair[FF_MAX_DIMS] = {0};
	uint32_t axes = 0;
	int64_t k;

	for (uint32_t i = 0; i < in->rank; i++) {
		bool reduced = has_axis(&n->attrs.reduce, i);

		r.lo[i] = reduced ? 0 : at[i];
		r.hi[i] = reduced ? in->shape[i] : at[i] + 1;
		if (!reduced)
			pair[axes++] = at[i];
	}
	k = index_of(&n->in_map[1], pair);
	for (int pass = 0; pass < 3; pass++) {
		memcpy(x, r.lo, sizeof(x));
		do {
			int64_t i = index_of(in, x);

			if (pass == 0)
				most = fmax(most, t->in[0][i]);
			else if (pass == 1)
				equal += t->in[0][i] == most;
			else if (t->in[0][i] == most)
				t->din[0][i] = t->dout[0][reduced_index(n, x)] / equal;
			t->out[0][reduced_index(n, x)] = most;
		} while (next(&r, x));
	}
	t->in[1][k] = most;
	t->in[1][k + 1] = equal;
}

/* The point's row of the table is the id's, or it adds nothing. */
static void define_embedding(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	uint32_t rank = n->in_map[0].rank;
	int64_t id = (int64_t)t->in[0][index_of(&n->in_map[0], at)], weight, k;

	if (id != at[rank + 1]) /* most are not */
		return;
	weight = index_of(&n->in_map[1], (int32_t[]){at[rank + 1], at[rank]});
	k = index_of(&n->out_map[0], at);
	t->out[0][k] += t->in[1][weight];
	t->din[1][weight] += t->dout[0][k];
}

/* The box's axes: batches, row, column, inner. */
static void define_product(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	const struct ff_matmul_attrs *a = &n->attrs.matmul;
	uint32_t last = n->out_map[0].rank - 1;
	int32_t x[FF_MAX_DIMS], y[FF_MAX_DIMS];
	int64_t i, j, k = index_of(&n->out_map[0], at);

	memcpy(x, at, sizeof(x));
	memcpy(y, at, sizeof(y));
	x[a->transpose_a ? last : last - 1] = at[last - 1];
	x[a->transpose_a ? last - 1 : last] = at[last + 1];
	y[a->transpose_b ? last : last - 1] = at[last + 1];
	y[a->transpose_b ? last - 1 : last] = at[last];
	for (uint32_t b = 0; b + 1 < last; b++) {
		x[b] = n->in_map[0].shape[b] == 1 ? 0 : at[b];
		y[b] = n->in_map[1].shape[b] == 1 ? 0 : at[b];
	}
	i = index_of(&n->in_map[0], x);
	j = index_of(&n->in_map[1], y);
	t->out[0][k] += t->in[0][i] * t->in[1][j];
	t->din[0][i] += t->dout[0][k] * t->in[1][j];
	t->din[1][j] += t->dout[0][k] * t->in[0][i];
}

/* `at`: sample, head, position.  Pairs, half a head apart, are turned. */
static void define_rope(struct trial *t, const int32_t *at)
{
	const struct ff_rope_attrs *a = &t->node->attrs.rope;
	const int32_t first[] = {at[0], at[2], at[1] * a->head_dim};
	int64_t i = index_of(t->node->out_map, first), half = a->head_dim / 2;

	for (int64_t end = i + half; i < end; i++) {
		double share = (double)(i + half - end) / (double)half;
		double angle = at[2] * pow(a->base, -share), c = cos(angle), s = sin(angle);

		t->out[0][i] = c * t->in[0][i] - s * t->in[0][i + half];
		t->out[0][i + half] = c * t->in[0][i + half] + s * t->in[0][i];
		t->din[0][i] = c * t->dout[0][i] + s * t->dout[0][i + half];
		t->din[0][i + half] = c * t->dout[0][i + half] - s * t->dout[0][i];
	}
}

/* `at`: sample, expert, slot. */
static void define_dispatch(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	int32_t place = (int32_t)t->in[1][index_of(&n->in_map[1], at)],
		width = n->in_map[0].shape[2];

	if (place < 0)
		return;
	t->out[1][index_of(&n->out_map[1], (int32_t[]){at[0], place, at[1]})] =
			at[2] - t->work.box.lo[2];
	for (int32_t w = 0; w < width; w++) {
		const int32_t slot[] = {at[0], at[1] * width + w, at[2], 0};
		int64_t i = index_of(&n->in_map[0], (int32_t[]){at[0], place, w});
		int64_t o = index_of(&n->out_map[0], slot);

		t->out[0][o] = t->in[0][i];
		t->din[0][i] += t->dout[0][o];
	}
}

/* `at`: sample, place, expert. */
static void define_combine(struct trial *t, const int32_t *at)
{
	const struct ff_node *n = t->node;
	int32_t width = n->out_map[0].shape[2];
	int64_t share = index_of(&n->in_map[1], at);

	for (int32_t s = 0; s < n->in_map[2].shape[2]; s++) {
		if (t->in[2][index_of(&n->in_map[2], (int32_t[]){at[0], at[2], s})] != at[1])
			continue;
		t->out[1][index_of(&n->out_map[1], at)] = s;
		for (int32_t w = 0; w < width; w++) {
			const int32_t slot[] = {at[0], at[2] * width + w, s, 0};
			int64_t i = index_of(&n->in_map[0], slot);
			int64_t o = index_of(&n->out_map[0], (int32_t[]){at[0], at[1], w});

			t->out[0][o] += t->in[1][share] * t->in[0][i];
			t->din[0][i] += t->in[1][share] * t->dout[0][o];
			t->din[1][share] += t->in[0][i] * t->dout[0][o];
		}
	}
}

typedef void (*define_fn)(struct trial *t, const int32_t *at);

static define_fn definition(enum ff_op op)
{
	static const define_fn other[FF_OP_COUNT] = {[FF_OP_EMBEDDING] = define_embedding,
			[FF_OP_PAD] = define_pad,
			[FF_OP_CAST] = define_cast,
			[FF_OP_EXPAND] = define_expand,
			[FF_OP_CONSTANT_OF] = define_constant,
			[FF_OP_ROPE] = define_rope,
			[FF_OP_REDUCE_SUM] = define_sum,
			[FF_OP_REDUCE_MEAN] = define_sum,
			[FF_OP_REDUCE_MAX] = define_max,
			[FF_OP_MATMUL] = define_product,
			[FF_OP_DISPATCH] = define_dispatch,
			[FF_OP_COMBINE] = define_combine};

	if (points_binary(op))
		return define_binary;
	return other[op] ? other[op] : define_point;
}

void points_define(struct trial *t, const int32_t *at)
{
	definition(t->node->op)(t, at);
}
