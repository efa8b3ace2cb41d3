/* What exporters write in several nodes, of which none but the last has a value of the graph: parts
 * of a sequence, conditions, what is drawn at random and becomes a dropout.
 * SPDX-License-Identifier: Apache-2.0 */
#include "deferred.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "activations.h"
#include "import/arrange.h"
#include "import/emit.h"
#include "import/fold/fold.h"
#include "import/lift.h"
#include "import/values.h"

#define MASKED (-1e4f) /* a score that is to count for nothing */

static int set_apart(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *of)
{
	struct ff_onnx_value v = of ? *of : (struct ff_onnx_value){0};

	v.kind = FF_ONNX_APART;
	return ff_onnx_set_same(im, n, 0, &v);
}

/* Of what is computed, a value that a later node asks the maker for. */
static int emit_apart(struct ff_import *im, const Onnx__NodeProto *n)
{
	return set_apart(im, n, NULL);
}

static bool is_drawn(const struct ff_onnx_value *v)
{
	return v && v->kind == FF_ONNX_APART && v->by != 0;
}

/* ---- sequences ---- */

/* Where part `index` of the axis of `size` elements begins and ends. */
static int find_part(struct ff_import *im, const Onnx__NodeProto *n, const Onnx__NodeProto *split,
		int64_t size, int64_t index, int64_t range[2])
{
	const struct ff_onnx_value *v = ff_onnx_in(im, split, 1);
	const struct ff_constant *c = v && v->kind == FF_ONNX_CONSTANT ? &v->constant : NULL;
	int64_t each = c && c->whole && !c->rank ? c->i[0] : 1, parts, at = 0;

	if (v && (!c || !c->whole || each < 1))
		return ff_import_fail(im, n, "the parts of its sequence are not known");
	parts = c && c->rank ? c->n : (size + each - 1) / each;
	index = index < 0 ? index + parts : index;
	if (index < 0 || index >= parts)
		return ff_import_fail(im, n, "part %" PRId64 " of %" PRId64, index, parts);
	for (int64_t k = 0; c && c->rank && k < index; k++)
		at = c->i[k] < 0 || c->i[k] > size - at ? size + 1 : at + c->i[k];
	range[0] = c && c->rank ? at : index * each;
	range[1] = c && c->rank && at <= size && c->i[index] <= size ? at + c->i[index]
		   : range[0] + each < size                          ? range[0] + each
								     : size;
	if (range[0] >= range[1] || range[1] > size)
		return ff_import_fail(im, n, "the parts of its sequence do not fit %" PRId64, size);
	return FF_OK;
}

/* Of a sequence that was split without a say about it, its axis goes. */
static bool drops_axis(struct ff_import *im, const Onnx__NodeProto *split)
{
	return !ff_onnx_in(im, split, 1) && !ff_onnx_int(split, "keepdims", 1);
}

static int part_of_constant(struct ff_import *im, const Onnx__NodeProto *n,
		const Onnx__NodeProto *split, const struct ff_constant *c, int64_t index)
{
	struct ff_constant part;
	int64_t range[2];
	uint32_t axis;
	int code;

	if ((code = ff_onnx_axis(im, n, ff_onnx_int(split, "axis", 0), c->rank, &axis)) < 0 ||
			(code = find_part(im, n, split, c->shape[axis], index, range)) < 0 ||
			(code = ff_fold_part(im, c, axis, range[0], range[1], &part)) < 0)
		return code;
	if (drops_axis(im, split)) {
		part.rank--;
		memmove(part.shape + axis, part.shape + axis + 1,
				(part.rank - axis) * sizeof(*part.shape));
	}
	return ff_onnx_set_constant(im, n, 0, &part);
}

static int emit_sequence_at(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *sequence = ff_onnx_in(im, n, 0), *in;
	struct ff_onnx_value part = {.kind = FF_ONNX_NODE};
	const struct ff_constant *index;
	const Onnx__NodeProto *split = sequence ? sequence->maker : NULL;
	int64_t range[2], shape[FF_IMPORT_RANK];
	uint32_t axis, onnx;
	int code = ff_onnx_in_constant(im, n, 1, &index);

	if (code < 0)
		return code;
	if (!split || strcmp(split->op_type, "SplitToSequence") != 0 || !index->whole ||
			index->n != 1)
		return ff_import_fail(im, n, "expected a part that is known of SplitToSequence");
	in = ff_onnx_in(im, split, 0);
	if (!in || in->kind == FF_ONNX_APART)
		return ff_import_fail(im, n, "its sequence is of what is no value");
	if (in->kind == FF_ONNX_CONSTANT)
		return part_of_constant(im, n, split, &in->constant, index->i[0]);
	if ((code = ff_onnx_axis_of(im, n, ff_onnx_int(split, "axis", 0), in, &axis)) < 0 ||
			(code = find_part(im, n, split, in->shape[axis], index->i[0], range)) < 0 ||
			(code = ff_onnx_cut(im, n, in, axis, range[0], range[1], 1, &part)) < 0)
		return code;
	if (!drops_axis(im, split))
		return ff_onnx_set_same(im, n, 0, &part);
	ff_onnx_shape(&part, shape);
	code = ff_onnx_axis(im, n, ff_onnx_int(split, "axis", 0),
			part.arranged ? part.onnx_rank : part.rank, &onnx);
	return code < 0 ? code : ff_onnx_without(im, n, &part, onnx);
}

/* ---- what is drawn ---- */

/* Uniform numbers from 0 to 1 of a shape; `keep` is there once they are compared. */
static int emit_uniform(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *like = ff_onnx_in(im, n, 0);
	const Onnx__AttributeProto *shape = ff_onnx_attr(n, "shape");
	struct ff_onnx_value v = {.keep = -1, .by = 1};
	bool given = !strcmp(n->op_type, "RandomUniform");

	if (ff_onnx_real(n, "low", 0) != 0 || ff_onnx_real(n, "high", 1) != 1)
		return ff_import_fail(im, n, "expected numbers from 0 to 1");
	if (given ? !shape || shape->n_ints > FF_IMPORT_RANK : !like)
		return ff_import_fail(im, n, "expected a shape");
	if (given)
		for (size_t k = 0; k < shape->n_ints; k++)
			v.constant.shape[v.constant.rank++] = shape->ints[k];
	else if (like->kind == FF_ONNX_NODE)
		v.constant.rank = ff_onnx_shape(like, v.constant.shape);
	else {
		v.constant.rank = like->constant.rank;
		memcpy(v.constant.shape, like->constant.shape, sizeof(v.constant.shape));
	}
	return set_apart(im, n, &v);
}

/* Ones with a probability that is known. */
static int emit_bernoulli(struct ff_import *im, const Onnx__NodeProto *n)
{
	struct ff_onnx_value v = {.by = 1};
	const struct ff_constant *p;
	int code = ff_onnx_in_constant(im, n, 0, &p);

	if (code < 0)
		return code;
	if (p->whole || !p->n)
		return ff_import_fail(im, n, "expected probabilities");
	for (int64_t k = 1; k < p->n; k++)
		if (p->f[k] != p->f[0])
			return ff_import_fail(im, n, "expected one probability for all");
	v.keep = (double)p->f[0];
	v.constant.rank = p->rank;
	memcpy(v.constant.shape, p->shape, sizeof(v.constant.shape));
	return set_apart(im, n, &v);
}

/* How many of the axes of what is drawn have more than one element; whether the first of `v`'s, the
 * samples, is among them. */
static uint32_t drawn_axes(const struct ff_onnx_value *drawn, const struct ff_onnx_value *v,
		bool *samples, bool *fits)
{
	uint32_t many = 0;

	*fits = !v->arranged && drawn->constant.rank == v->rank;
	*samples = *fits && drawn->constant.shape[0] == v->shape[0];
	for (uint32_t k = 0; k < v->rank && *fits; k++) {
		many += drawn->constant.shape[k] != 1;
		*fits = drawn->constant.shape[k] == 1 || drawn->constant.shape[k] == v->shape[k];
	}
	return many;
}

/* Ones of the shape that was drawn, dropped: channels and the like. */
static int drop_ones(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_onnx_value *drawn, const struct ff_onnx_value *v,
		const struct ff_emit *dropout, struct ff_onnx_value *ret)
{
	struct ff_emit e = *dropout, product = {.op = FF_OP_MUL, .in = {*v}, .n_in = 2};
	struct ff_constant one = {.n = 1};
	float number = 1;
	int32_t shape[FF_MAX_RANK];
	int code;

	one.f = &number;
	one.rank = v->rank - 1;
	for (uint32_t k = 0; k < v->rank; k++)
		shape[k] = (int32_t)drawn->constant.shape[k];
	for (uint32_t k = 1; k < v->rank; k++)
		one.n *= shape[k];
	one.f = ff_arena_array(im->arena, (size_t)one.n, sizeof(*one.f));
	if (!one.f)
		return ff_fail_memory(im->err);
	for (int64_t i = 0; i < one.n; i++)
		one.f[i] = number;
	e.in[0] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	product.in[1] = e.in[0];
	if ((code = ff_lift(im, n, &one, v->rank, shape, &e.in[0])) < 0 ||
			(code = ff_emit(im, n, &e, &product.in[1], 1)) < 0)
		return code;
	return ff_emit(im, n, &product, ret, 1);
}

/* A value times what is drawn: a dropout, of elements, of whole samples, or of ones. */
static int drop(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *drawn,
		const struct ff_onnx_value *v)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_DROPOUT), s = ff_attrs_preset(FF_OP_SCALE);
	struct ff_emit e = {.op = FF_OP_DROPOUT, .attrs = &a, .in = {*v}, .n_in = 1};
	struct ff_emit scale = {.op = FF_OP_SCALE, .attrs = &s, .n_in = 1};
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, scaled = out;
	bool samples, fits;
	uint32_t many = drawn_axes(drawn, v, &samples, &fits);
	int code = FF_OK;

	if (drawn->keep < 0 || drawn->keep > 1)
		return ff_import_fail(im, n, "what is drawn is not compared with a probability");
	if (drawn->keep <= 0)
		return ff_import_fail(im, n, "everything is dropped");
	if (!fits || !samples)
		return ff_import_fail(im, n,
				"what is drawn is shared by samples, expected a draw for each of "
				"them (stochastic depth of mode row, not batch)");
	a.dropout.p = 1 - drawn->keep;
	a.dropout.per = many > 1 || v->shape[0] == 1 ? FF_DROP_ELEMENT : FF_DROP_SAMPLE;
	for (uint32_t k = 0; k < v->rank; k++)
		fits = fits && drawn->constant.shape[k] == v->shape[k];
	if (drawn->keep >= 1)
		out = *v;
	else if (fits || a.dropout.per == FF_DROP_SAMPLE)
		code = ff_emit(im, n, &e, &out, 1);
	else
		code = drop_ones(im, n, drawn, v, &e, &out);
	s.unary.a = drawn->keep / drawn->by; /* a dropout divides by what it keeps */
	if (code < 0 || fabs(s.unary.a - 1) < 1e-6)
		return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
	scale.in[0] = out;
	code = ff_emit(im, n, &scale, &scaled, 1);
	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &scaled);
}

static double number_of(const struct ff_onnx_value *v)
{
	return v->constant.whole ? (double)v->constant.i[0] : (double)v->constant.f[0];
}

/* Less than a probability, or not; divided by it. */
static int read_drawn(struct ff_import *im, const Onnx__NodeProto *n)
{
	bool left = is_drawn(ff_onnx_in(im, n, 0));
	const struct ff_onnx_value *drawn = ff_onnx_in(im, n, !left),
				   *other = ff_onnx_in(im, n, left);
	struct ff_onnx_value v = *drawn;
	const char *op = n->op_type;
	bool number = other && other->kind == FF_ONNX_CONSTANT && other->constant.n == 1;

	if (!strcmp(op, "Cast") || !strcmp(op, "CastLike") || !strcmp(op, "Identity"))
		return left ? set_apart(im, n, &v) : ff_import_fail(im, n, "a type that is drawn");
	if (!strcmp(op, "Mul") && other && other->kind == FF_ONNX_NODE)
		return drop(im, n, drawn, other);
	if (number && left && v.keep < 0 && (op[0] == 'L' || op[0] == 'G')) {
		double p = number_of(other);

		v.keep = fmin(fmax(op[0] == 'L' ? p : 1 - p, 0), 1);
		return set_apart(im, n, &v);
	}
	if (number && v.keep >= 0 && number_of(other) > 0 &&
			((!strcmp(op, "Div") && left) || !strcmp(op, "Mul"))) {
		v.by *= op[0] == 'D' ? number_of(other) : 1 / number_of(other);
		return set_apart(im, n, &v);
	}
	return ff_import_fail(im, n,
			"%s is drawn at random, expected a dropout: a draw that is less than a "
			"probability, divided by it, times a value",
			drawn->name);
}

/* ---- conditions that are computed ---- */

static bool is_made_by(const struct ff_onnx_value *v, const char *op)
{
	return v && v->maker && !strcmp(v->maker->op_type, op);
}

/* Scores of which a known mask leaves none. */
static bool masks_row(struct ff_import *im, const struct ff_onnx_value *softmax)
{
	const struct ff_onnx_value *scores = ff_onnx_in(im, softmax->maker, 0), *mask;
	const struct ff_constant *c;

	for (size_t i = 0; i < 2 && is_made_by(scores, "Add"); i++) {
		mask = ff_onnx_in(im, scores->maker, i);
		if (!mask || mask->kind != FF_ONNX_CONSTANT || mask->constant.whole ||
				!mask->constant.rank)
			continue;
		c = &mask->constant;
		for (int64_t row = 0, size = c->shape[c->rank - 1]; size && row < c->n / size;
				row++) {
			int64_t left = size;

			for (int64_t k = 0; k < size; k++)
				left -= c->f[row * size + k] <= MASKED;
			if (!left)
				return true;
		}
	}
	return false;
}

/* `x` is what `scaled` is a number of times, or is it; how many. */
static bool is_scaled(struct ff_import *im, const struct ff_onnx_value *scaled,
		const struct ff_onnx_value *x, double *by)
{
	const struct ff_onnx_value *factor;

	*by = 1;
	if (scaled == x || !is_made_by(scaled, "Mul"))
		return scaled == x;
	factor = ff_onnx_in(im, scaled->maker, 1);
	if (!factor || factor->kind != FF_ONNX_CONSTANT || factor->constant.n != 1)
		return false;
	*by = number_of(factor);
	return ff_onnx_in(im, scaled->maker, 0) == x;
}

/* softplus(b x) / b beside x, where b x is more than a threshold from which on both are the same in
 * float32. */
static bool is_softplus(struct ff_import *im, const Onnx__NodeProto *greater,
		const struct ff_onnx_value *x, const struct ff_onnx_value *v)
{
	const struct ff_onnx_value *scaled = ff_onnx_in(im, greater, 0);
	const struct ff_onnx_value *threshold = ff_onnx_in(im, greater, 1), *by = NULL;
	double times;

	if (is_made_by(v, "Div")) {
		by = ff_onnx_in(im, v->maker, 1);
		v = ff_onnx_in(im, v->maker, 0);
	}
	if (!threshold || threshold->kind != FF_ONNX_CONSTANT || threshold->constant.n != 1 ||
			number_of(threshold) < 16 || !is_scaled(im, scaled, x, &times))
		return false;
	if (by && (by->kind != FF_ONNX_CONSTANT || by->constant.n != 1 || number_of(by) != times))
		return false;
	return (by || times == 1) && is_made_by(v, "Softplus") &&
	       ff_onnx_in(im, v->maker, 0) == scaled;
}

/* Where a softmax is no number, zeros: rows without a score, of which there are none.  Where a
 * softplus is so large that it is its input, that. */
static int emit_choice(struct ff_import *im, const Onnx__NodeProto *n)
{
	const struct ff_onnx_value *in[3], *of;

	for (size_t i = 0; i < 3; i++)
		in[i] = ff_onnx_in(im, n, i);
	of = in[0] ? ff_onnx_in(im, in[0]->maker, 0) : NULL;
	if (is_made_by(in[0], "IsNaN") && of && of == in[2] && is_made_by(of, "Softmax")) {
		if (masks_row(im, of))
			return ff_import_fail(im, n, "a mask leaves nothing of a row of scores");
		return ff_onnx_set_same(im, n, 0, of);
	}
	if (is_made_by(in[0], "Greater") && is_softplus(im, in[0]->maker, in[1], in[2]))
		return ff_onnx_set_same(im, n, 0, in[2]);
	return ff_import_fail(im, n, "its condition, %s, is computed, expected one that is known",
			in[0] ? in[0]->name : "input 0");
}

int ff_deferred(struct ff_import *im, const Onnx__NodeProto *n, bool *done)
{
	const struct ff_onnx_value *apart = NULL;

	*done = false;
	for (size_t i = 0; i < n->n_input && !is_drawn(apart); i++) {
		const struct ff_onnx_value *v = ff_onnx_in(im, n, i);

		if (v && v->kind == FF_ONNX_APART)
			apart = v;
	}
	if (!apart)
		return FF_OK;
	*done = true;
	if (is_drawn(apart) && n->n_output)
		return read_drawn(im, n);
	if (!strcmp(n->op_type, "Where"))
		return emit_choice(im, n);
	*done = false;
	return FF_OK;
}

const struct ff_onnx_row *ff_deferred_row(const char *op)
{
	static const struct ff_onnx_row rows[] = {
			{"SplitToSequence", emit_apart, true},
			{"SequenceAt", emit_sequence_at, true},
			{"RandomUniformLike", emit_uniform, true},
			{"RandomUniform", emit_uniform, true},
			{"Bernoulli", emit_bernoulli, true},
			{"IsNaN", emit_apart, true},
			{"Greater", emit_apart, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].op, op))
			return &rows[i];
	return NULL;
}
