/* Linear layer over the last axis, y = x W^T + b.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "out_features",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, linear.out_features),
				.min = 1,
				.max = INT32_MAX,
				.required = 1},
		{.name = "bias",
				.type = FF_ATTR_BOOL,
				.offset = offsetof(union ff_attrs, linear.bias),
				.max = 1,
				.preset = 1},
};

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	ret->params = a->linear.bias ? 2 : 1;
}

/* Dims: the leading axes, out_feature, in_feature. */
static void map_axes(struct ff_derive *d, const struct ff_value *in, int32_t *p, int32_t *r)
{
	const struct ff_linear_attrs *a = &d->node->attrs.linear;
	struct ff_operand *o = ff_derive_map(d, 0), *out = d->node->out_map;
	uint32_t last = in->rank - 1;

	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", in->shape[0]);
	for (uint32_t i = 1; i < last; i++)
		ff_derive_dim(d, FF_DIM_ATTRIBUTE, ff_axis_name(FF_MAX_RANK, i), in->shape[i]);
	for (uint32_t i = 0; i < last; i++) {
		ff_axis_plain(out, i, (int32_t)i);
		ff_axis_plain(o, i, (int32_t)i);
	}
	*p = ff_derive_dim(d, FF_DIM_PARAMETER, "out_feature", a->out_features);
	*r = ff_derive_dim(d, FF_DIM_REDUCTION, "in_feature", in->shape[last]);
	ff_axis_plain(out, last, *p);
	ff_axis_plain(o, last, *r);
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_linear_attrs *a = &d->node->attrs.linear;
	const struct ff_value *in;
	int32_t shape[FF_MAX_RANK], matrix[2], p, r;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &in, err);

	if (code < 0)
		return code;
	for (uint32_t i = 0; i + 1 < in->rank; i++)
		shape[i] = in->shape[i];
	shape[in->rank - 1] = a->out_features;
	code = ff_derive_out(d, 0, d->graph->dtype, in->rank, shape, in->order, err);
	if (code < 0)
		return code;
	map_axes(d, in, &p, &r);
	matrix[0] = a->out_features;
	matrix[1] = in->shape[in->rank - 1];
	code = ff_derive_weights(d,
			&(struct ff_weight){.rank = 2,
					.shape = matrix,
					.order = ff_order_plain,
					.fan_in = matrix[1],
					.dim_out = p,
					.dim_in = r},
			a->bias, err);
	if (code < 0)
		return code;
	ff_derive_products(d, matrix[1], a->bias);
	return FF_OK;
}

/* Forward one product; backward one for each gradient that is wanted, and the bias', a sum. */
static uint32_t kernels(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	uint32_t dims = w->box.rank, n = 0;
	double rows = 1, p = ff_region_size(&w->box, dims - 2),
	       r = ff_region_size(&w->box, dims - 1);
	enum ff_dtype type = ff_work_type(w);

	for (uint32_t i = 0; i + 2 < dims; i++)
		rows *= ff_region_size(&w->box, i);
	if (w->pass == FF_FORWARD)
		ret[n++] = ff_kernel_product(type, 1, rows, p, r);
	if (w->need_din[0])
		ret[n++] = ff_kernel_product(type, 1, rows, r, p);
	if (w->node->n_in > 1 && w->need_din[1]) {
		ret[n] = ff_kernel_product(type, 1, p, r, rows);
		ret[n++].a_transposed = true;
	}
	if (w->node->n_in > 2 && w->need_din[2])
		ret[n++] = (struct ff_kernel_shape){
				.type = type, .bytes = rows * p * (double)ff_dtype_bytes(type)};
	return n;
}

const struct ff_op_row ff_op_linear = {
		.name = "linear",
		.summary = "matrix product over the last axis, with a bias",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_IN | FF_OP_HALVES,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.param = {"weight", "bias"},
		.count = count,
		.derive = derive,
		.kernels = kernels,
		.example = FF_EXAMPLE({"in" : [[ 4, 6, 8 ]], "out_features" : 8}),
};
