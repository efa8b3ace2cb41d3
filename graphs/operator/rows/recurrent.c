/* Recurrences over the steps of a sequence: what is left of a recurrent layer once a linear
 * layer has made, of all steps at once, what each step's gates get of its input.  So that much
 * is cut as linear layers are, and here samples alone: every step needs the whole state of the
 * one before.  Time is cut by nodes behind each other, each with some of the steps.  Cells are
 * PyTorch's RNN (tanh), LSTM and GRU, and a GRU that resets the state before its product: a step is
 * two halves then, each with a product of its own.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define RECURRENT(member) .offset = offsetof(union ff_attrs, recurrent.member)
#define BIAS                                                                                       \
	{                                                                                          \
		.name = "bias", .type = FF_ATTR_BOOL, RECURRENT(bias), .max = 1, .preset = 1       \
	}
#define REVERSE                                                                                    \
	{                                                                                          \
		.name = "reverse", .type = FF_ATTR_BOOL, RECURRENT(reverse), .max = 1              \
	}

static const struct ff_attr_row attrs[] = {BIAS, REVERSE};
static const struct ff_attr_row gru_attrs[] = {BIAS, REVERSE,
		{.name = "reset_first",
				.type = FF_ATTR_BOOL,
				RECURRENT(reset_first),
				.max = 1,
				.later = 1,
				.in_key = 1}};
static const struct ff_attr_row lstm_attrs[] = {
		BIAS, REVERSE, {.name = "cell", .type = FF_ATTR_BOOL, RECURRENT(cell), .max = 1}};

/* Saved are the state before each step, and what backward cannot make of that and the output. */
static void count_rnn(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = 1;
	ret->params = a->recurrent.bias ? 2 : 1;
}

static void count_gru(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = 2;
	ret->params = a->recurrent.bias ? 2 : 1;
}

static void count_lstm(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->out = a->recurrent.cell ? 2 : 1;
	ret->saved = 3;
	ret->params = a->recurrent.bias ? 2 : 1;
}

/* What is saved lies step by step, so that what is multiplied with all of a step's samples does. */
static const uint8_t by_step[FF_MAX_RANK] = {1, 0, 2, 3, 4, 5};

/* Axes sample, step, `features`; the first is the node's only dim. */
static int add_value(struct ff_derive *d, uint32_t port, enum ff_dtype type, int32_t steps,
		int32_t features, const uint8_t *order, struct ff_error *err)
{
	int32_t shape[3] = {ff_derive_in(d, 0)->shape[0], steps, features};
	int code = ff_derive_out(d, port, type, 3, shape, order, err);

	if (code == FF_OK)
		ff_axis_plain(&d->node->out_map[port], 0, 0);
	return code;
}

/* The states that the first step finds, of as many features as it leaves. */
static int map_states(struct ff_derive *d, int32_t hidden, struct ff_error *err)
{
	const struct ff_value *first = ff_derive_in(d, 0), *state;
	int code = FF_OK;

	for (uint32_t slot = 1; slot < d->node->n_data && code == FF_OK; slot++) {
		code = ff_derive_input(d, slot, d->graph->dtype, 3, 3, &state, err);
		if (code == FF_OK && (state->shape[0] != first->shape[0] || state->shape[1] != 1 ||
						     state->shape[2] != hidden))
			code = ff_derive_fail(d, err, "input %u is %s, expected [%d, 1, %d]", slot,
					ff_shape_text(3, state->shape).text, first->shape[0],
					hidden);
		if (code == FF_OK)
			ff_axis_plain(ff_derive_map(d, slot), 0, 0);
	}
	return code;
}

static int add_params(struct ff_derive *d, int32_t gates, int32_t hidden, struct ff_error *err)
{
	const int32_t shape[2] = {gates, hidden};
	struct ff_operand *o;
	int code = ff_derive_param(d, 0, 2, shape, ff_order_plain, hidden, &o, err);

	if (code == FF_OK && d->node->attrs.recurrent.bias)
		code = ff_derive_param(d, 1, 1, shape, ff_order_plain, 0, &o, err);
	return code;
}

/* Products of a step. */
static int32_t halves_of(const struct ff_derive *d)
{
	return d->node->attrs.recurrent.reset_first ? 2 : 1;
}

/* A cell of so many `gates`, which has `kept` numbers a feature and step for backward, and
 * needs so many `states` besides the output: one dim, sample. */
static int derive_cell(struct ff_derive *d, int32_t gates, int32_t kept, uint32_t states,
		struct ff_error *err)
{
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 3, &in, err);
	uint32_t saved = d->node->n_out - d->node->n_saved;
	int32_t steps, hidden, products;

	if (code < 0)
		return code;
	steps = in->shape[1];
	hidden = in->shape[2] / gates;
	if (in->shape[2] % gates)
		return ff_derive_fail(d, err, "the %d features of its input are not %d gates",
				in->shape[2], gates);
	if (d->node->n_data != 1 && d->node->n_data != 1 + states)
		return ff_derive_fail(d, err, "expected 1 or %u inputs, not %u", 1 + states,
				d->node->n_data);
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", in->shape[0]);
	ff_axis_plain(ff_derive_map(d, 0), 0, 0);
	code = map_states(d, hidden, err);
	if (code == FF_OK)
		code = add_value(d, 0, d->graph->dtype, steps, hidden, ff_order_plain, err);
	if (code == FF_OK && saved > 1)
		code = add_value(d, 1, d->graph->dtype, 1, hidden, ff_order_plain, err);
	if (code == FF_OK)
		code = add_value(d, saved, d->graph->dtype, steps * halves_of(d), hidden, by_step,
				err);
	if (code == FF_OK && kept)
		code = add_value(d, saved + 1, FF_F32, steps, kept * hidden, by_step, err);
	if (code == FF_OK && states > 1)
		code = add_value(d, saved + 2, FF_F32, steps, hidden, by_step, err);
	if (code < 0)
		return code;
	/* the product with the state, and its two backward; what a gate does */
	products = gates * halves_of(d);
	ff_derive_flops(d, products * (2 * (int64_t)hidden + 6),
			products * (4 * (int64_t)hidden + 8));
	return add_params(d, gates * hidden, hidden, err);
}

static int derive_rnn(struct ff_derive *d, struct ff_error *err)
{
	return derive_cell(d, 1, 0, 1, err);
}

static int derive_gru(struct ff_derive *d, struct ff_error *err)
{
	return derive_cell(d, 3, d->node->attrs.recurrent.reset_first ? 3 : 4, 1, err);
}

static int derive_lstm(struct ff_derive *d, struct ff_error *err)
{
	return derive_cell(d, 4, 4, 2, err);
}

#define ROW(row, text, most, rows, flag)                                                           \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = text,                                                           \
			.min_in = 1,                                                               \
			.max_in = most,                                                            \
			.flags = flag,                                                             \
			.attrs = rows,                                                             \
			.n_attrs = sizeof(rows) / sizeof(rows[0]),                                 \
			.param = {"weight", "bias"},                                               \
			.count = count_##row,                                                      \
			.derive = derive_##row,                                                    \
			.example = FF_EXAMPLE({"in" : [[ 4, 6, 24 ]]})}

ROW(rnn, "tanh recurrence over the steps of a sequence", 2, attrs, FF_OP_BACKWARD_OUT);
ROW(gru, "gated recurrent units over the steps of a sequence", 2, gru_attrs, 0);
ROW(lstm, "long short-term memory over the steps of a sequence", 3, lstm_attrs, 0);
