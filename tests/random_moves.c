/* Random graphs: padding, broadcasts, elements that are picked, numbers that are known, samples
 * that are dropped.  SPDX-License-Identifier: Apache-2.0 */
#include "random_maker.h"

static int32_t between(struct maker *m, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(m->r, (uint32_t)(hi - lo + 1));
}

static void add_pad(struct maker *m)
{
	const struct value *in = random_pick(m);
	union ff_attrs a = {.pad = {.rank = (int32_t)in->rank, .rank_after = (int32_t)in->rank}};
	struct value out = *in;

	a.pad.value = 0.25 * between(m, -2, 2);
	for (uint32_t i = 1; i < in->rank; i++) {
		int32_t least = in->shape[i] > 2 ? -1 : 0;

		a.pad.before[i] = between(m, least, in->rank > 2 ? 2 : 4);
		a.pad.after[i] = between(m, least, 2);
		out.shape[i] += a.pad.before[i] + a.pad.after[i];
	}
	a.pad.mode = in->rank >= 3 && in->rank <= 5 ? between(m, 0, FF_PAD_EDGE) : 0;
	for (uint32_t i = 1; i < in->rank && a.pad.mode; i++) {
		int32_t most = i == 1 ? 0 : in->shape[i] < 4 ? in->shape[i] - 1 : 3;

		a.pad.before[i] = between(m, 0, most);
		a.pad.after[i] = between(m, 0, most < 2 ? most : 2);
		out.shape[i] = in->shape[i] + a.pad.before[i] + a.pad.after[i];
	}
	random_add(m, FF_OP_PAD, &a, &in, 1, &out);
}

/* Of a tensor that has one element along an axis, or a parameter, which goes to another tensor so
 * that it is as large as that. */
static void add_expand(struct maker *m)
{
	const struct value *in[2] = {random_pick(m)}, out = *in[0];
	int32_t rank = (int32_t)out.rank, axis = between(m, 1, rank - 1);
	union ff_attrs one = {.slice = {.axis = axis, .stop = 1}};
	union ff_attrs a = {.expand = {.rank = rank}};
	bool own = between(m, 0, 1);

	for (int32_t i = 0; i < rank; i++)
		a.expand.shape[i] = out.shape[i];
	if (own) {
		a.expand.own_rank = between(m, 1, rank);
		for (int32_t i = 0; i < a.expand.own_rank; i++) {
			int32_t from = rank - a.expand.own_rank + i;

			a.expand.own[i] = from && between(m, 0, 2) ? out.shape[from] : 1;
		}
		in[1] = random_add(m, FF_OP_EXPAND, &a, NULL, 0, &out);
	} else {
		struct value narrow = out;

		narrow.shape[axis] = 1;
		in[1] = random_add(m, FF_OP_SLICE, &one, in, 1, &narrow);
		in[1] = random_add(m, FF_OP_EXPAND, &a, &in[1], 1, &out);
	}
	random_add(m, between(m, 0, 1) ? FF_OP_ADD : FF_OP_SUB, NULL, in, 2, &out);
}

static void add_gather(struct maker *m)
{
	const struct value *in = random_pick(m);
	int32_t axis = between(m, 1, (int32_t)in->rank - 1), n = between(m, 1, 6);
	union ff_attrs a = {.gather = {.axis = axis}};
	struct value out = *in;
	double index[6];

	for (int32_t i = 0; i < n; i++)
		index[i] = between(m, 0, in->shape[axis] - 1);
	a.gather.indices = (struct ff_numbers){n, index};
	out.shape[axis] = n;
	random_add(m, FF_OP_GATHER, &a, &in, 1, &out);
}

static void add_strided(struct maker *m)
{
	const struct value *in = random_pick(m);
	int32_t axis = between(m, 1, (int32_t)in->rank - 1);
	struct ff_slice_attrs s = {.axis = axis, .step = between(m, 2, 3)};
	union ff_attrs a;
	struct value out = *in;

	s.start = between(m, 0, in->shape[axis] - 1);
	s.stop = between(m, s.start + 1, in->shape[axis]);
	a = (union ff_attrs){.slice = s};
	out.shape[axis] = (s.stop - s.start - 1) / s.step + 1;
	random_add(m, FF_OP_SLICE, &a, &in, 1, &out);
}

/* As large as a tensor, to which it is added, or which it masks. */
static void add_constant(struct maker *m)
{
	const struct value *in[2] = {random_pick(m)}, out = *in[0];
	union ff_attrs a = {.constant = {.rank = (int32_t)out.rank}};
	int64_t rest = 1;
	double runs[64];

	for (uint32_t i = 0; i < out.rank; i++) {
		a.constant.shape[i] = out.shape[i];
		rest *= i ? out.shape[i] : 1;
	}
	a.constant.runs.at = runs;
	while (rest) {
		int64_t n = a.constant.runs.n == 62 ? rest : 1 + ff_random_below(m->r, 40);

		n = n < rest ? n : rest;
		runs[a.constant.runs.n++] = (double)n;
		runs[a.constant.runs.n++] = 0.5 * between(m, -2, 2);
		rest -= n;
	}
	in[1] = random_add(m, FF_OP_CONSTANT_OF, &a, NULL, 0, &out);
	random_add(m, between(m, 0, 1) ? FF_OP_ADD : FF_OP_MUL, NULL, in, 2, &out);
}

static void add_drop(struct maker *m)
{
	const struct value *in = random_pick(m);
	union ff_attrs a = {.dropout = {0.25 * between(m, 1, 3), FF_DROP_SAMPLE}};

	random_add(m, FF_OP_DROPOUT, &a, &in, 1, in);
}

void random_move(struct maker *m)
{
	static void (*const moves[])(struct maker * m) = {
			add_pad, add_expand, add_gather, add_strided, add_constant, add_drop};

	moves[ff_random_below(m->r, sizeof(moves) / sizeof(moves[0]))](m);
}
