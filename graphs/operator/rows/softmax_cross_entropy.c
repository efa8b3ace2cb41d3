/* Softmax and cross-entropy: the loss.  Writes two float32, this part's share
 * of the mean loss over all labels and its count of correct predictions.
 *
 * Both split by class.  What must be known of all classes, its prelude finds:
 * what it writes of some classes becomes that of all by reduction, so that of a large
 * vocabulary's logits nothing moves but four float32 a label.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#include <stddef.h>

static const struct ff_attr_row loss_attrs[] = {
		{.name = "label_smoothing",
				.type = FF_ATTR_REAL,
				.offset = offsetof(union ff_attrs, loss.smoothing),
				.max = 1,
				.later = 1,
				.in_key = 1},
		{.name = "ignore_index",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, loss.ignore),
				.min = INT32_MIN,
				.max = INT32_MAX,
				.preset = -1,
				.later = 1},
		FF_LOSS_WEIGHT,
};

static int check(const struct ff_derive *d, const struct ff_value *logits,
		const struct ff_value *labels, struct ff_error *err)
{
	bool fits = labels->rank == logits->rank - 1 && labels->shape[0] == logits->shape[0];
	const struct ff_node *source = &d->graph->nodes[labels->producer];

	for (uint32_t i = 1; fits && i < labels->rank; i++)
		fits = labels->shape[i] == logits->shape[i + 1];
	if (!fits)
		return ff_derive_fail(d, err,
				"labels %s do not fit logits %s: expected the logits' shape "
				"without axis 1",
				ff_shape_text(labels->rank, labels->shape).text,
				ff_shape_text(logits->rank, logits->shape).text);
	if (source->op == FF_OP_INPUT && source->attrs.input.classes > logits->shape[1])
		return ff_derive_fail(d, err, "\"%s\" has %d classes, the logits only %d",
				source->name, source->attrs.input.classes, logits->shape[1]);
	return FF_OK;
}

/* Dims: the axes of the labels, then class.  Maps of logits and labels; of an operand
 * with the labels' axes, where there is one. */
static int map_axes(struct ff_derive *d, enum ff_label class, struct ff_operand *const *with,
		uint32_t n_with, struct ff_error *err)
{
	const struct ff_value *logits, *labels;
	struct ff_operand *x, *y;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &logits, err);

	if (code == FF_OK)
		code = ff_derive_input(d, 1, FF_I32, 1, FF_MAX_RANK - 1, &labels, err);
	if (code == FF_OK)
		code = check(d, logits, labels, err);
	if (code != FF_OK)
		return code;
	x = ff_derive_map(d, 0);
	y = ff_derive_map(d, 1);
	for (uint32_t i = 0; i < labels->rank; i++) {
		uint32_t axis = i ? i + 1 : 0; /* of the logits */
		int32_t dim = ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE,
				ff_axis_name(logits->rank, axis), labels->shape[i]);

		ff_axis_plain(x, axis, dim);
		ff_axis_plain(y, i, dim);
		for (uint32_t k = 0; k < n_with; k++)
			ff_axis_plain(with[k], i, dim);
	}
	ff_axis_plain(x, 1, ff_derive_dim(d, class, "class", logits->shape[1]));
	return FF_OK;
}

/* An output with the axes of the labels and two float32 for each. */
static int make_pairs(
		struct ff_derive *d, uint32_t port, enum ff_reduce reduce, struct ff_error *err)
{
	const struct ff_value *labels = ff_derive_in(d, 1);
	int32_t shape[FF_MAX_RANK];
	uint32_t rank = labels->rank < FF_MAX_RANK ? labels->rank : FF_MAX_RANK - 1;
	int code;

	for (uint32_t i = 0; i < rank; i++)
		shape[i] = labels->shape[i];
	shape[rank] = 2;
	code = ff_derive_out(d, port, FF_F32, rank + 1, shape, ff_order_plain, err);
	if (code == FF_OK)
		d->node->out_map[port].reduce = (uint8_t)reduce;
	return code;
}

static void count_statistics(const union ff_attrs *attrs, struct ff_op_counts *ret)
{
	(void)attrs;
	ret->out = 2;
}

static int derive_statistics(struct ff_derive *d, struct ff_error *err)
{
	struct ff_operand *const pairs[] = {&d->node->out_map[0], &d->node->out_map[1]};
	const struct ff_value *logits = ff_derive_in(d, 0);
	int code = make_pairs(d, 0, FF_REDUCE_LOG_SUM_EXP, err);

	if (code == FF_OK)
		code = make_pairs(d, 1, FF_REDUCE_MAX, err);
	if (code == FF_OK)
		code = map_axes(d, FF_DIM_REDUCTION, pairs, 2, err);
	/* largest, of those before the label too, subtract, exp, sum */
	d->node->flops_forward = ff_sat_mul(5, ff_value_volume(logits));
	return code;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *logits = ff_derive_in(d, 0), *labels = ff_derive_in(d, 1);
	struct ff_operand *const pairs[] = {ff_derive_map(d, 2), ff_derive_map(d, 3)};
	const int32_t shape[1] = {2};
	int code = ff_derive_out(d, 0, FF_F32, 1, shape, ff_order_plain, err);

	if (code == FF_OK)
		code = map_axes(d, FF_DIM_PARAMETER, pairs, 2, err);
	if (code < 0)
		return code;
	/* each part adds what it has of the mean over all classes */
	d->node->in_map[0].backward_only = d->node->attrs.loss.smoothing == 0;
	/* log, subtract, add, count a label; then subtract, exp, scale, minus target a
	 * logit */
	d->node->flops_forward = ff_sat_mul(4, ff_value_volume(labels));
	if (d->node->attrs.loss.smoothing > 0)
		d->node->flops_forward = ff_sat_add(
				d->node->flops_forward, ff_sat_mul(2, ff_value_volume(logits)));
	if (logits->needs_grad)
		d->node->flops_backward = ff_sat_mul(4, ff_value_volume(logits));
	return FF_OK;
}

/* Outputs: log(sum of exp(logit)), as FF_REDUCE_LOG_SUM_EXP has it; the label's logit and
 * the largest logit of a class before it, each -infinity where there is none. */
const struct ff_op_row ff_op_softmax_statistics = {
		.name = "softmax_statistics",
		.summary = "what the loss must know of all classes",
		.min_in = 2,
		.max_in = 2,
		.flags = FF_OP_PRELUDE | FF_OP_CONSTANT,
		.count = count_statistics,
		.derive = derive_statistics,
		.kernel_class = FF_KERNEL_SOFTMAX,
};

const struct ff_op_row ff_op_softmax_cross_entropy = {
		.name = "softmax_cross_entropy",
		.summary = "mean cross-entropy of softmax(logits) and labels",
		.min_in = 2,
		.max_in = 2,
		.flags = FF_OP_LOSS | FF_OP_BACKWARD_IN,
		.attrs = loss_attrs,
		.n_attrs = sizeof(loss_attrs) / sizeof(loss_attrs[0]),
		.predicts = FF_PREDICTS_CLASSES,
		.prelude_name = "statistics",
		.prelude = FF_OP_SOFTMAX_STATISTICS,
		.derive = derive,
		.kernel_class = FF_KERNEL_SOFTMAX,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6 ]], "labels" : [[ 4, 6 ]]}),
};
