/* Normalisation of each sample by itself: over the last axes, or over groups of channels
 * and all that lies behind them.  The axes that are normalised over are cut by no config.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define NORM(member) .offset = offsetof(union ff_attrs, norm.member)
#define EPSILON                                                                                    \
	{                                                                                          \
		.name = "epsilon", .type = FF_ATTR_REAL, NORM(epsilon), .min = 0, .max = 1,        \
		.preset = 1e-5                                                                     \
	}
#define AXES                                                                                       \
	{                                                                                          \
		.name = "axes", .type = FF_ATTR_INT, NORM(axes), .min = 1, .max = FF_MAX_RANK - 1, \
		.preset = 1, .in_key = 1                                                           \
	}
#define AFFINE                                                                                     \
	{                                                                                          \
		.name = "affine", .type = FF_ATTR_BOOL, NORM(affine), .max = 1, .preset = 1        \
	}
#define BIAS                                                                                       \
	{                                                                                          \
		.name = "bias", .type = FF_ATTR_BOOL, NORM(bias), .max = 1, .preset = 1            \
	}

static const struct ff_attr_row layer_attrs[] = {AXES, EPSILON, AFFINE, BIAS};
static const struct ff_attr_row rms_attrs[] = {AXES, EPSILON, AFFINE};
static const struct ff_attr_row group_attrs[] = {{.name = "groups",
								 .type = FF_ATTR_INT,
								 NORM(groups),
								 .min = 1,
								 .max = INT32_MAX,
								 .required = 1,
								 .in_key = 1},
		EPSILON, AFFINE, BIAS};

/* Mean and 1 / deviation of everything that is normalised by itself are saved.  RMS norm has
 * no attribute that gives it a bias. */
static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->saved = 1;
	ret->params = !a->norm.affine ? 0 : a->norm.bias ? 2 : 1;
}

/* Weight and bias of shape `shape`, whole in every part: groups of channels are not the parts
 * that a parameter is cut into. */
static int add_params(
		struct ff_derive *d, uint32_t rank, const int32_t *shape, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < d->node->n_in - d->node->n_data && code == FF_OK; i++) {
		struct ff_operand *o;

		code = ff_derive_param(
				d, i, rank, shape, ff_order_plain, i ? 0 : FF_FAN_ONE, &o, err);
	}
	return code;
}

/* Input and output alike, what is saved with the axes of `shape` and a pair of float32. */
static int add_values(
		struct ff_derive *d, uint32_t rank, const int32_t *shape, struct ff_error *err)
{
	const struct ff_value *in = ff_derive_in(d, 0);
	int32_t pairs[FF_MAX_RANK];
	int code = ff_derive_out(d, 0, d->graph->dtype, in->rank, in->shape, in->order, err);

	if (code < 0)
		return code;
	ff_derive_map(d, 0);
	for (uint32_t i = 0; i < rank; i++)
		pairs[i] = shape[i];
	pairs[rank] = 2;
	return ff_derive_out(d, 1, FF_F32, rank + 1, pairs, ff_order_plain, err);
}

static void map_plain(struct ff_derive *d, uint32_t axis, int32_t dim)
{
	ff_axis_plain(&d->node->in_map[0], axis, dim);
	ff_axis_plain(&d->node->out_map[0], axis, dim);
	ff_axis_plain(&d->node->out_map[1], axis, dim);
}

/* Dims: the leading axes. */
static int derive(struct ff_derive *d, struct ff_error *err)
{
	uint32_t axes = (uint32_t)d->node->attrs.norm.axes, lead;
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, axes + 1, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	lead = in->rank - axes;
	code = add_values(d, lead, in->shape, err);
	for (uint32_t i = 0; i < lead && code == FF_OK; i++)
		map_plain(d, i,
				ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE,
						ff_axis_name(in->rank, i), in->shape[i]));
	if (code == FF_OK)
		code = add_params(d, axes, in->shape + lead, err);
	/* mean; subtract, square, add; subtract, scale, times weight, add bias */
	ff_derive_flops(d, 8, 14);
	return code;
}

/* Dims: sample, group. */
static int derive_group(struct ff_derive *d, struct ff_error *err)
{
	int32_t groups = d->node->attrs.norm.groups, shape[2], step, dim;
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	if (in->shape[1] % groups)
		return ff_derive_fail(d, err, "%d channels are not %d equal groups", in->shape[1],
				groups);
	shape[0] = in->shape[0];
	shape[1] = groups;
	step = in->shape[1] / groups;
	code = add_values(d, 2, shape, err);
	if (code < 0)
		return code;
	map_plain(d, 0, ff_derive_dim(d, FF_DIM_SAMPLE, "sample", in->shape[0]));
	dim = ff_derive_dim(d, FF_DIM_ATTRIBUTE, "group", groups);
	ff_axis_term(&d->node->in_map[0], 1, (struct ff_term){dim, 1, step})->window = step;
	ff_axis_term(&d->node->out_map[0], 1, (struct ff_term){dim, 1, step})->window = step;
	ff_axis_plain(&d->node->out_map[1], 1, dim);
	ff_derive_flops(d, 8, 14);
	return add_params(d, 1, &in->shape[1], err);
}

const struct ff_op_row ff_op_layer_norm = {
		.name = "layer_norm",
		.summary = "mean 0 and deviation 1 over the last axes, then weight and bias",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = layer_attrs,
		.n_attrs = sizeof(layer_attrs) / sizeof(layer_attrs[0]),
		.param = {"weight", "bias"},
		.normalises = true,
		.count = count,
		.derive = derive,
		.kernel_class = FF_KERNEL_NORM,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]]}),
};

const struct ff_op_row ff_op_rms_norm = {
		.name = "rms_norm",
		.summary = "root of the mean square 1 over the last axes, then weight",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = rms_attrs,
		.n_attrs = sizeof(rms_attrs) / sizeof(rms_attrs[0]),
		.param = {"weight"},
		.normalises = true,
		.count = count,
		.derive = derive,
		.kernel_class = FF_KERNEL_NORM,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]]}),
};

const struct ff_op_row ff_op_group_norm = {
		.name = "group_norm",
		.summary = "mean 0 and deviation 1 over groups of channels, then weight and bias",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = group_attrs,
		.n_attrs = sizeof(group_attrs) / sizeof(group_attrs[0]),
		.param = {"weight", "bias"},
		.normalises = true,
		.count = count,
		.derive = derive_group,
		.kernel_class = FF_KERNEL_NORM,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 6, 6 ]], "groups" : 4}),
};
