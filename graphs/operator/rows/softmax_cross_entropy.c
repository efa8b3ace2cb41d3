/* Softmax and cross-entropy: the loss.  Writes two float32, this part's share
 * of the mean loss over all labels and its count of correct predictions.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

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

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *logits, *labels;
	const int32_t shape[1] = {2};
	struct ff_operand *x, *y;
	int64_t n;
	int code = ff_derive_input(d, 0, FF_F32, 2, FF_MAX_RANK, &logits, err);

	if (code == FF_OK)
		code = ff_derive_input(d, 1, FF_I32, 1, FF_MAX_RANK - 1, &labels, err);
	if (code == FF_OK)
		code = check(d, logits, labels, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, FF_F32, 1, shape, ff_order_plain, err);
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
	}
	/* Largest, subtract, exp, sum, log for each logit; then probability minus
	 * target, scaled. */
	n = ff_shape_volume(logits->rank, logits->shape);
	d->node->flops_forward = ff_sat_mul(5, n);
	d->node->flops_backward = logits->needs_grad ? ff_sat_mul(4, n) : 0;
	return FF_OK;
}

const struct ff_op_row ff_op_softmax_cross_entropy = {
		.name = "softmax_cross_entropy",
		.summary = "mean cross-entropy of softmax(logits) and labels; ends the graph",
		.min_in = 2,
		.max_in = 2,
		.flags = FF_OP_LOSS | FF_OP_BACKWARD_IN,
		.derive = derive,
};
