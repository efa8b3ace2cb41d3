/* Values whose samples are not axis 0, or share it with others: PyTorch's attention and recurrent
 * layers have sequences before samples, and products of many matrices have heads or windows and
 * samples in one axis.  The node has its samples first and behind them the other axes as the model
 * has them, axes that samples stand between apart; what the model's axes are, is noted.  So a
 * transpose that only moves the samples makes no node.  SPDX-License-Identifier: Apache-2.0 */
#include "arrange.h"

#include <inttypes.h>
#include <string.h>

#include "emit.h"
#include "values.h"

/* Pieces of axes in the model's order; the samples are one. */
struct piece {
	int64_t size;
	uint32_t axis;  /* of the node */
	uint32_t group; /* the ONNX axis */
};
struct pieces {
	uint32_t n;
	struct piece at[2 * FF_MAX_RANK];
};

static uint32_t group_of(const struct ff_onnx_value *v, uint32_t axis)
{
	return v->arranged ? v->group[axis] : axis;
}

bool ff_onnx_is_shared(const struct ff_onnx_value *v)
{
	return v->arranged && v->group[0] == FF_ONNX_NO_AXIS;
}

static void push(struct pieces *p, int64_t size, uint32_t axis, uint32_t group)
{
	if (p->n < sizeof(p->at) / sizeof(p->at[0]))
		p->at[p->n++] = (struct piece){size, axis, group};
}

static void list_pieces(const struct ff_onnx_value *v, struct pieces *ret)
{
	uint32_t rank = v->arranged ? v->onnx_rank : v->rank,
		 before = v->arranged ? v->batch_at : 0;

	ret->n = 0;
	for (uint32_t k = 0; k < rank; k++) {
		bool here = group_of(v, 0) == k;
		uint32_t seen = 0;

		for (uint32_t a = 1; a < v->rank; a++) {
			if (group_of(v, a) != k)
				continue;
			if (here && seen == before)
				push(ret, v->shape[0], 0, k);
			push(ret, v->shape[a], a, k);
			seen++;
		}
		if (here && seen <= before)
			push(ret, v->shape[0], 0, k);
	}
}

uint32_t ff_onnx_shape(const struct ff_onnx_value *v, int64_t shape[FF_IMPORT_RANK])
{
	uint32_t rank = v->arranged ? v->onnx_rank : v->rank;

	for (uint32_t k = 0; k < rank; k++)
		shape[k] = 1;
	for (uint32_t a = ff_onnx_is_shared(v); a < v->rank; a++)
		shape[group_of(v, a)] *= v->shape[a];
	return rank;
}

bool ff_onnx_same_arrangement(const struct ff_onnx_value *a, const struct ff_onnx_value *b)
{
	if (a->arranged != b->arranged)
		return false;
	return !a->arranged ||
	       (a->rank == b->rank && a->onnx_rank == b->onnx_rank && a->batch_at == b->batch_at &&
			       !memcmp(a->group, b->group, a->rank));
}

int ff_onnx_axis_of(struct ff_import *im, const Onnx__NodeProto *n, int64_t axis,
		const struct ff_onnx_value *v, uint32_t *ret)
{
	uint32_t onnx, found = 0, parts = 0;
	int code = ff_onnx_axis(im, n, axis, v->arranged ? v->onnx_rank : v->rank, &onnx);

	for (uint32_t a = 0; a < v->rank && code == FF_OK; a++)
		if (group_of(v, a) == onnx) {
			found = a;
			parts++;
		}
	if (code < 0)
		return code;
	if (v->arranged && (parts != 1 || !found))
		return ff_import_fail(im, n,
				"axis %u has samples, or several axes that were merged", onnx);
	*ret = found;
	return FF_OK;
}

/* Notes what the axes of `ret`, the samples and the other pieces, are to the model. */
static void note(const struct pieces *p, uint32_t onnx_rank, struct ff_onnx_value *ret)
{
	uint32_t axis = 1, before = 0;
	bool plain = true;

	ret->onnx_rank = (uint8_t)onnx_rank;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct piece *x = &p->at[i];

		before = i && p->at[i - 1].group == x->group ? before + 1 : 0;
		if (!x->axis)
			ret->batch_at = (uint8_t)before;
		ret->group[x->axis ? axis : 0] = (uint8_t)x->group;
		axis += x->axis != 0;
	}
	for (uint32_t a = 0; a < ret->rank; a++)
		plain = plain && ret->group[a] == a;
	ret->arranged = !plain || onnx_rank != ret->rank;
}

int ff_onnx_turn(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const uint32_t *perm, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_TRANSPOSE);
	struct ff_emit e = {.op = FF_OP_TRANSPOSE, .attrs = &a, .in = {*v}, .n_in = 1};
	uint32_t rank = v->arranged ? v->onnx_rank : v->rank, at = 1;
	struct pieces old, turned = {0};
	bool moved = false;
	int code = FF_OK;

	list_pieces(v, &old);
	for (uint32_t k = 0; k < rank; k++)
		for (uint32_t i = 0; i < old.n; i++)
			if (old.at[i].group == perm[k])
				push(&turned, old.at[i].size, old.at[i].axis, k);
	a.transpose.rank = (int32_t)v->rank;
	for (uint32_t i = 0; i < turned.n; i++)
		if (turned.at[i].axis) {
			moved = moved || turned.at[i].axis != at;
			a.transpose.perm[at++] = (int32_t)turned.at[i].axis;
		}
	*ret = *v;
	if (moved)
		code = ff_emit(im, n, &e, ret, 1);
	note(&turned, rank, ret);
	return code;
}

/* Cuts the pieces anew, so that each lies in one of the axes of `shape`; false where that does not
 * go. */
static bool cut_pieces(
		const struct pieces *old, uint32_t rank, const int64_t *shape, struct pieces *ret)
{
	int64_t left = old->n ? old->at[0].size : 0;
	uint32_t i = 0;

	for (uint32_t k = 0; k < rank; k++) {
		int64_t need = shape[k];

		if (need == 1)
			push(ret, 1, 1, k);
		while (need > 1) {
			int64_t size;

			while (i < old->n && left == 1 && old->at[i].axis)
				left = ++i < old->n ? old->at[i].size : 0;
			if (i == old->n)
				return false;
			size = old->at[i].axis && need < left ? need : left;
			if (need % size || left % size)
				return false;
			push(ret, size, old->at[i].axis, k);
			need /= size;
			left /= size;
			if (left == 1)
				left = ++i < old->n ? old->at[i].size : 0;
		}
	}
	while (i < old->n && old->at[i].axis && old->at[i].size == 1)
		i++;
	return i == old->n;
}

/* Neighbours of one axis become one, but for the samples. */
static void join_pieces(struct pieces *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		struct piece *last = n ? &p->at[n - 1] : NULL;

		if (last && last->axis && p->at[i].axis && last->group == p->at[i].group)
			last->size *= p->at[i].size;
		else
			p->at[n++] = p->at[i];
	}
	p->n = n;
}

int ff_onnx_regroup(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		uint32_t rank, const int64_t *shape, struct ff_onnx_value *ret)
{
	struct pieces old, cut = {0};
	int32_t to[2 * FF_MAX_RANK] = {v->shape[0]};
	uint32_t at = 1;
	int code;

	list_pieces(v, &old);
	if (v->shape[0] == 1 || !cut_pieces(&old, rank, shape, &cut))
		return ff_import_fail(im, n, "its shape would take samples apart");
	join_pieces(&cut);
	for (uint32_t i = 0; i < cut.n; i++)
		if (cut.at[i].axis)
			to[at++] = (int32_t)cut.at[i].size;
	if (at > FF_MAX_RANK)
		return ff_import_fail(im, n, "more than %d axes", FF_MAX_RANK);
	if ((code = ff_emit_reshape(im, n, v, at, to, ret)) < 0)
		return code;
	note(&cut, rank, ret);
	if (ff_onnx_is_shared(v)) {
		ret->group[0] = FF_ONNX_NO_AXIS;
		ret->arranged = true;
	}
	return FF_OK;
}

int ff_onnx_fit(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		const struct ff_onnx_value *v, struct ff_constant *ret)
{
	struct ff_constant own = *c;
	int64_t shape[FF_IMPORT_RANK];
	uint32_t rank = ff_onnx_shape(v, shape);
	bool fits = true;

	while (own.rank > rank && own.shape[0] == 1) { /* what broadcasts anyway */
		own.rank--;
		memmove(own.shape, own.shape + 1, own.rank * sizeof(*own.shape));
	}
	*ret = own;
	if (own.rank > rank || (own.rank > FF_MAX_RANK && !v->arranged))
		return ff_import_fail(im, n, "a constant of %u axes beside %u", own.rank, rank);
	if (!v->arranged)
		return FF_OK;
	ret->rank = v->rank;
	for (uint32_t a = 0; a < v->rank; a++) {
		uint32_t k = v->group[a] + own.rank;
		bool none = v->group[a] == FF_ONNX_NO_AXIS;
		int64_t size = none || k < rank ? 1 : own.shape[k - rank];

		fits = fits &&
		       (size == 1 || (size == shape[v->group[a]] && v->group[a] != v->group[0]));
		ret->shape[a] = size == 1 ? 1 : v->shape[a];
	}
	while (ret->rank > own.rank && ret->shape[0] == 1) { /* a vector stays one */
		ret->rank--;
		memmove(ret->shape, ret->shape + 1, ret->rank * sizeof(*ret->shape));
	}
	return fits ? FF_OK
		    : ff_import_fail(im, n, "a constant that differs from sample to sample");
}

/* To a shape; the same where nothing changes. */
int ff_onnx_reshape(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t rank, const int32_t *shape)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE};
	int64_t wide[FF_MAX_RANK + 1];
	int code;

	for (uint32_t k = 0; k < rank; k++)
		wide[k] = shape[k];
	if (in->arranged || (rank && shape[0] != in->shape[0]))
		code = ff_onnx_regroup(im, n, in, rank, wide, &out);
	else
		code = ff_emit_reshape(im, n, in, rank, shape, &out);

	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

int ff_onnx_without(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		uint32_t axis)
{
	int64_t have[FF_IMPORT_RANK];
	int32_t shape[FF_IMPORT_RANK];
	uint32_t all = ff_onnx_shape(v, have), rank = 0;

	for (uint32_t k = 0; k < all; k++)
		if (k != axis)
			shape[rank++] = (int32_t)have[k];
	return ff_onnx_reshape(im, n, v, rank, shape);
}

/* Every `step`-th of the elements start .. stop - 1 of one axis. */
int ff_onnx_cut(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axis, int64_t start, int64_t stop, int64_t step, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_SLICE);
	const struct ff_emit e = {.op = FF_OP_SLICE, .attrs = &a, .in = {*in}, .n_in = 1};

	if (start == 0 && stop == in->shape[axis] && step == 1) {
		*ret = *in;
		return FF_OK;
	}
	if (!axis)
		return ff_import_fail(im, n, "samples are not cut");
	a.slice.axis = (int32_t)axis;
	a.slice.start = (int32_t)start;
	a.slice.stop = (int32_t)stop;
	a.slice.step = (int32_t)step;
	return ff_emit(im, n, &e, ret, 1);
}
