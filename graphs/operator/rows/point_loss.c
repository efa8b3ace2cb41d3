/* Losses that compare each element of an input with a target's: mean squared and absolute errors,
 * binary cross-entropy; and the mean of an input whose target says which elements count.  What they
 * compute, runtime/kernels/point_loss.h says.  Writes two float32, this part's share of the mean
 * over all elements whose target is a number, and how many of those it predicts.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {FF_LOSS_WEIGHT};
static const struct ff_attr_row mean_attrs[] = {
		{.name = "ignore_index",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, loss.ignore),
				.min = INT32_MIN,
				.max = INT32_MAX,
				.preset = -1},
		FF_LOSS_WEIGHT,
};

static int check(const struct ff_derive *d, const struct ff_value *x, const struct ff_value *target,
		struct ff_error *err)
{
	const struct ff_node *source = &d->graph->nodes[target->producer];

	if (x->rank != target->rank ||
			memcmp(x->shape, target->shape, x->rank * sizeof(*x->shape)) != 0)
		return ff_derive_fail(d, err, "targets %s do not fit what is predicted, %s",
				ff_shape_text(target->rank, target->shape).text,
				ff_shape_text(x->rank, x->shape).text);
	/* of the rows behind the last sample only what is loaded says that they are none */
	if (source->op != FF_OP_INPUT || source->attrs.input.sums.n)
		return ff_derive_fail(d, err,
				"\"%s\" is computed: expected targets of the data set",
				source->name);
	return FF_OK;
}

/* `type`: the targets'. */
static int derive_typed(struct ff_derive *d, enum ff_dtype type, int64_t forward, int64_t backward,
		struct ff_error *err)
{
	const struct ff_value *x, *target;
	const int32_t shape[1] = {2};
	int64_t n;
	int code = ff_derive_input(d, 0, d->graph->dtype, 1, FF_MAX_RANK, &x, err);

	if (code == FF_OK)
		code = ff_derive_input(d, 1, type, 1, FF_MAX_RANK, &target, err);
	if (code == FF_OK)
		code = check(d, x, target, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, FF_F32, 1, shape, ff_order_plain, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, x->rank, x->shape);
	ff_operand_plain(ff_derive_map(d, 0));
	ff_operand_plain(ff_derive_map(d, 1));
	n = ff_value_volume(x);
	d->node->flops_forward = ff_sat_mul(forward, n);
	d->node->flops_backward = x->needs_grad ? ff_sat_mul(backward, n) : 0;
	return FF_OK;
}

static int derive(struct ff_derive *d, int64_t forward, int64_t backward, struct ff_error *err)
{
	return derive_typed(d, d->graph->dtype, forward, backward, err);
}

/* Labels say as well what counts. */
static int derive_mean(struct ff_derive *d, struct ff_error *err)
{
	bool labels = ff_derive_in(d, 1)->dtype == FF_I32;

	return derive_typed(d, labels ? FF_I32 : d->graph->dtype, 1, 1, err);
}

/* subtract, square, add; subtract, scale */
static int derive_mse(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 3, 2, err);
}

/* subtract, compare, negate, add; compare, choose, scale */
static int derive_l1(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 4, 3, err);
}

/* subtract, compare, square, halve, choose, add; subtract, clip twice, scale */
static int derive_smooth_l1(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 6, 4, err);
}

/* exp, log, the largest, multiply, subtract, add, add; exp, add, divide, subtract, scale */
static int derive_bce(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 7, 5, err);
}

#define POINT_LOSS(row, text, how, own, ...)                                                       \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = text,                                                           \
			.min_in = 2,                                                               \
			.max_in = 2,                                                               \
			.flags = FF_OP_LOSS | FF_OP_BACKWARD_IN,                                   \
			.attrs = own,                                                              \
			.n_attrs = sizeof(own) / sizeof((own)[0]),                                 \
			.derive = derive_##how,                                                    \
			__VA_ARGS__}

POINT_LOSS(mse, "mean squared error of predictions and targets", mse, attrs);
POINT_LOSS(bce_with_logits, "mean binary cross-entropy of sigmoid(logits) and targets", bce, attrs,
		.predicts = FF_PREDICTS_BITS);
POINT_LOSS(l1, "mean absolute error of predictions and targets", l1, attrs);
POINT_LOSS(smooth_l1, "mean of half the squared error below 1, else of the absolute error - 1/2",
		smooth_l1, attrs);
POINT_LOSS(mean, "mean of what is computed, where a target says that it counts", mean, mean_attrs);
