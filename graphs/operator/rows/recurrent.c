/* Recurrences over the steps of a sequence: what is left of a recurrent layer once a linear
 * layer has made, of all steps at once, what each step's gates get of its input.  So that much
 * is cut as linear layers are, and here samples and steps: every step needs the whole state of the
 * one before, which a part with some of the steps carries on to the next one.  Cells are
 * PyTorch's RNN (tanh), LSTM and GRU, and a GRU that resets the state before its product: a step is
 * two halves then, each with a product of its own.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "ff/steps.h"
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
	ret->carried = 1;
	ret->params = a->recurrent.bias ? 2 : 1;
}

static void count_gru(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = 2;
	ret->carried = 1;
	ret->params = a->recurrent.bias ? 2 : 1;
}

static void count_lstm(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->out = a->recurrent.cell ? 2 : 1;
	ret->saved = 3;
	ret->carried = 2;
	ret->params = a->recurrent.bias ? 2 : 1;
}

/* What is saved lies step by step, so that what is multiplied with all of a step's samples does. */
static const uint8_t by_step[FF_MAX_RANK] = {1, 0, 2, 3, 4, 5};

/* Axes sample, step, `features`, the dims but the last; there are `each` of a step. */
static int add_value(struct ff_derive *d, uint32_t port, enum ff_dtype type, int32_t each,
		int32_t features, const uint8_t *order, struct ff_error *err)
{
	const int32_t *in = ff_derive_in(d, 0)->shape;
	int32_t shape[3] = {in[0], each * in[1], features};
	int code = ff_derive_out(d, port, type, 3, shape, order, err);
	struct ff_operand *o = &d->node->out_map[port];

	if (code < 0)
		return code;
	ff_axis_plain(o, 0, 0);
	ff_axis_term(o, 1, (struct ff_term){1, 1, each})->window = each;
	return FF_OK;
}

/* A state of one end of the sequence, of which the part with that end has all. */
static void map_end(const struct ff_derive *d, struct ff_operand *o, bool last)
{
	ff_axis_plain(o, 0, 0);
	ff_axis_plain(o, 1, 1);
	o->axis[1].offset = last ? 1 - ff_derive_in(d, 0)->shape[1] : 0;
}

/* The cell behind the last step. */
static int add_cell(struct ff_derive *d, int32_t hidden, struct ff_error *err)
{
	int32_t shape[3] = {ff_derive_in(d, 0)->shape[0], 1, hidden};
	int code = ff_derive_out(d, 1, d->graph->dtype, 3, shape, ff_order_plain, err);

	if (code == FF_OK)
		map_end(d, &d->node->out_map[1], !d->node->attrs.recurrent.reverse);
	return code;
}

/* The state goes on as it is read, the cell as it is computed. */
static int add_carried(struct ff_derive *d, int32_t hidden, struct ff_error *err)
{
	const int32_t *in = ff_derive_in(d, 0)->shape, shape[3] = {in[0], in[1], hidden};
	struct ff_carry c = {.rank = 3,
			.shape = shape,
			.axis = 1,
			.dim = 1,
			.down = d->node->attrs.recurrent.reverse};
	int code = FF_OK;

	for (uint32_t i = 0; i < d->node->n_carried && code == FF_OK; i++) {
		c.dtype = i ? FF_F32 : d->graph->dtype;
		code = ff_derive_carry(d, i, &c, err);
		if (code < 0)
			break;
		ff_axis_plain(c.left, 0, 0);
		ff_axis_plain(c.found, 0, 0);
	}
	return code;
}

/* The states that the first step finds, of as many features as it leaves. */
static int map_states(struct ff_derive *d, int32_t hidden, struct ff_error *err)
{
	const struct ff_value *first = ff_derive_in(d, 0), *state;
	int code = FF_OK;

	for (uint32_t slot = 1; slot < ff_node_inputs(d->node) && code == FF_OK; slot++) {
		code = ff_derive_input(d, slot, d->graph->dtype, 3, 3, &state, err);
		if (code == FF_OK && (state->shape[0] != first->shape[0] || state->shape[1] != 1 ||
						     state->shape[2] != hidden))
			code = ff_derive_fail(d, err, "input %u is %s, expected [%d, 1, %d]", slot,
					ff_shape_text(3, state->shape).text, first->shape[0],
					hidden);
		if (code == FF_OK)
			map_end(d, ff_derive_map(d, slot), d->node->attrs.recurrent.reverse);
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
 * needs so many `states` besides the output. */
static int derive_cell(struct ff_derive *d, int32_t gates, int32_t kept, uint32_t states,
		struct ff_error *err)
{
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 3, &in, err);
	uint32_t saved = d->node->n_out - d->node->n_saved, inputs = ff_node_inputs(d->node);
	int32_t hidden, products;

	if (code < 0)
		return code;
	hidden = in->shape[2] / gates;
	if (in->shape[2] % gates)
		return ff_derive_fail(d, err, "the %d features of its input are not %d gates",
				in->shape[2], gates);
	if (inputs != 1 && inputs != 1 + states)
		return ff_derive_fail(
				d, err, "expected 1 or %u inputs, not %u", 1 + states, inputs);
	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", in->shape[0]);
	ff_derive_dim(d, FF_DIM_ATTRIBUTE, "step", in->shape[1]);
	ff_axis_plain(ff_derive_map(d, 0), 0, 0);
	ff_axis_plain(d->node->in_map, 1, 1);
	code = map_states(d, hidden, err);
	if (code == FF_OK)
		code = add_value(d, 0, d->graph->dtype, 1, hidden, ff_order_plain, err);
	if (code == FF_OK && ff_node_outputs(d->node) > 1)
		code = add_cell(d, hidden, err);
	if (code == FF_OK)
		code = add_carried(d, hidden, err);
	if (code == FF_OK)
		code = add_value(d, saved, d->graph->dtype, halves_of(d), hidden, by_step, err);
	if (code == FF_OK && kept)
		code = add_value(d, saved + 1, FF_F32, 1, kept * hidden, by_step, err);
	if (code == FF_OK && states > 1)
		code = add_value(d, saved + 2, FF_F32, 1, hidden, by_step, err);
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

/* Steps, or twice as many halves; backward the gradient of the weight is one product over all of
 * them. */
static uint32_t kernels(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	int64_t samples = ff_region_size(&w->box, 0), gates = w->node->in_map[0].shape[2];
	int64_t hidden = w->node->out_map[0].shape[2];
	int64_t halves = w->node->attrs.recurrent.reset_first ? 2 : 1;
	double steps = (double)(ff_region_size(&w->box, 1) * halves);
	enum ff_dtype type = ff_work_type(w);
	bool back = w->pass == FF_BACKWARD;
	uint32_t n = 1;

	ret[0] = ff_kernel_product(type, steps, (double)samples, (double)gates, (double)hidden);
	ret[0].class = FF_KERNEL_RECURRENT;
	ret[0].steps = ff_steps_are_whole(samples, gates, hidden, halves) ? FF_STEPS_WHOLE
									  : FF_STEPS_LAUNCHED;
	ret[0].back = back;
	ret[0].bytes = (double)ff_work_bytes(w);
	if (back && w->need_din[w->node->n_data])
		ret[n++] = ff_kernel_product(
				type, 1, (double)gates, (double)hidden, (double)samples * steps);
	return n;
}

#define ROW(row, text, most, rows, flag)                                                           \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = (text),                                                         \
			.min_in = 1,                                                               \
			.max_in = (most),                                                          \
			.flags = (flag),                                                           \
			.attrs = (rows),                                                           \
			.n_attrs = sizeof(rows) / sizeof((rows)[0]),                               \
			.param = {"weight", "bias"},                                               \
			.count = count_##row,                                                      \
			.derive = derive_##row,                                                    \
			.kernels = kernels,                                                        \
			.example = FF_EXAMPLE({"in" : [[ 4, 6, 24 ]]})}

ROW(rnn, "tanh recurrence over the steps of a sequence", 2, attrs, FF_OP_BACKWARD_OUT);
ROW(gru, "gated recurrent units over the steps of a sequence", 2, gru_attrs, 0);
ROW(lstm, "long short-term memory over the steps of a sequence", 3, lstm_attrs, 0);
