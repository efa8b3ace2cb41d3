/* Random recurrences, and sequences whose steps go to experts.  SPDX-License-Identifier: Apache-2.0
 */
#include "random_maker.h"

static int32_t between(struct maker *m, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(m->r, (uint32_t)(hi - lo + 1));
}

/* Something as a sequence: its second axis are the steps. */
static const struct value *add_sequence(struct maker *m)
{
	const struct value *in = random_pick(m);
	union ff_attrs a = {.reshape = {.rank = 3, .shape = {0, -1, 1}}};
	struct value out = {.rank = 3, .shape = {in->shape[0], 1, 1}};

	if (in->rank == 3)
		return in;
	out.shape[1] = in->rank > 2 ? in->shape[1] : 1;
	for (uint32_t i = in->rank > 2 ? 2 : 1; i < in->rank; i++)
		out.shape[2] *= in->shape[i];
	a.reshape.shape[1] = out.shape[1];
	a.reshape.shape[2] = out.shape[2];
	return random_add(m, FF_OP_RESHAPE, &a, &in, 1, &out);
}

static const struct value *add_features(struct maker *m, const struct value *in, int32_t features)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	struct value out = *in;

	a.linear.out_features = features;
	out.shape[2] = features;
	return random_add(m, FF_OP_LINEAR, &a, &in, 1, &out);
}

/* One step's state, out of one of `in`. */
static const struct value *add_state(struct maker *m, const struct value *in, int32_t hidden)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_SLICE);
	struct value out = *in;

	a.slice.axis = 1;
	a.slice.start = between(m, 0, in->shape[1] - 1);
	a.slice.stop = a.slice.start + 1;
	out.shape[1] = 1;
	return add_features(m, random_add(m, FF_OP_SLICE, &a, &in, 1, &out), hidden);
}

void random_sequence(struct maker *m)
{
	static const enum ff_op ops[] = {FF_OP_RNN, FF_OP_LSTM, FF_OP_GRU};
	static const int32_t gates[] = {1, 4, 3};
	uint32_t kind = ff_random_below(m->r, 3), n = 1;
	union ff_attrs a = ff_attrs_preset(ops[kind]);
	int32_t hidden = between(m, 1, 5);
	const struct value *sequence = add_sequence(m), *in[3];
	struct value out = *sequence, *first;

	in[0] = add_features(m, sequence, gates[kind] * hidden);
	out.shape[2] = hidden;
	if (between(m, 0, 1))
		for (; n < (ops[kind] == FF_OP_LSTM ? 3 : 2); n++)
			in[n] = add_state(m, sequence, hidden);
	a.recurrent.bias = between(m, 0, 1);
	a.recurrent.reverse = between(m, 0, 1);
	a.recurrent.cell = ops[kind] == FF_OP_LSTM && between(m, 0, 1);
	a.recurrent.reset_first = ops[kind] == FF_OP_GRU && between(m, 0, 1);
	first = random_add(m, ops[kind], &a, in, n, &out);
	if (!a.recurrent.cell)
		return;
	m->value[m->n] = *first;
	m->value[m->n].shape[1] = 1;
	m->value[m->n++].node = FF_PORT(first->node, 1);
}

/* Slots of experts by index, something of each, and that back at the places. */
static void add_slots(struct maker *m, const struct value *rows, const struct value *scores,
		const union ff_attrs *route)
{
	struct value out = *scores, took, places, slots;
	const struct value *in[3] = {scores};

	took = *random_add(m, FF_OP_ROUTE, route, in, 1, &out);
	m->n--;
	places = took;
	places.node = FF_PORT(took.node, 1);
	slots = *rows;
	slots.rank = 4;
	slots.shape[1] = rows->shape[2] * scores->shape[2];
	slots.shape[2] = route->route.capacity;
	slots.shape[3] = 1;
	in[0] = rows;
	in[1] = &places;
	in[0] = random_add(m, FF_OP_DISPATCH, NULL, in, 2, &slots);
	slots = *random_add(m, FF_OP_TANH, NULL, in, 1, &slots);
	in[0] = scores;
	in[1] = &took;
	in[1] = random_add(m, FF_OP_MUL, NULL, in, 2, scores);
	in[0] = &m->value[m->n - 2];
	in[2] = &places;
	random_add(m, FF_OP_COMBINE, NULL, in, 3, rows);
}

/* Scores as experts get them.  Nothing but this reads which they are: that has no gradient. */
void random_route(struct maker *m)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_ROUTE), product = ff_attrs_preset(FF_OP_MATMUL);
	int32_t experts = between(m, 1, 4);
	const struct value *rows = add_sequence(m), *in[2];
	const struct value *scores = add_features(m, rows, experts);
	struct value out = *scores, mask;

	scores = random_add(m, FF_OP_SIGMOID, NULL, &scores, 1, scores);
	a.route.choices = between(m, 1, experts < 2 ? experts : 2);
	a.route.capacity = between(m, 0, 3);
	a.route.index = a.route.capacity && between(m, 0, 1);
	if (a.route.index) {
		add_slots(m, rows, scores, &a);
		return;
	}
	out.shape[2] = experts * (a.route.capacity ? a.route.capacity : a.route.choices);
	mask = *random_add(m, FF_OP_ROUTE, &a, &scores, 1, &out);
	m->n--;
	in[0] = &mask;
	in[1] = scores;
	out.shape[1] = out.shape[2];
	out.shape[2] = experts;
	product.matmul.transpose_a = 1;
	random_add(m, FF_OP_MATMUL, &product, in, 2, &out);
}
