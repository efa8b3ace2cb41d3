/* Products of matrices, which are the last two axes; those before are batches, of which an operand
 * has as many as the other or one for all.  Of two axes the rows are samples, and every sample
 * meets those of the second operand: so losses are made that compare samples of a batch.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/kernel_shape.h"
#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, matmul.field)
static const struct ff_attr_row attrs[] = {
		{.name = "transpose_a",
				.type = FF_ATTR_BOOL,
				.offset = AT(transpose_a),
				.max = 1,
				.in_key = 1},
		{.name = "transpose_b",
				.type = FF_ATTR_BOOL,
				.offset = AT(transpose_b),
				.max = 1,
				.in_key = 1},
};
#undef AT

/* Which axis of an operand is contracted, and which is not. */
struct sides {
	uint32_t row, inner_a, inner_b, column;
};

static struct sides sides_of(const struct ff_node *n, uint32_t rank)
{
	const struct ff_matmul_attrs *a = &n->attrs.matmul;
	uint32_t last = rank - 1, before = rank - 2;

	return (struct sides){.row = a->transpose_a ? last : before,
			.inner_a = a->transpose_a ? before : last,
			.inner_b = a->transpose_b ? last : before,
			.column = a->transpose_b ? before : last};
}

/* The output's shape, where the operands fit. */
static int join(struct ff_derive *d, const struct ff_value *a, const struct ff_value *b,
		int32_t shape[FF_MAX_RANK], struct ff_error *err)
{
	struct sides s = sides_of(d->node, a->rank);
	bool fits = a->rank == b->rank && a->shape[0] == b->shape[0];

	fits = fits && a->shape[s.inner_a] == b->shape[s.inner_b];
	for (uint32_t i = 0; fits && i + 2 < a->rank; i++) {
		fits = a->shape[i] == b->shape[i] || a->shape[i] == 1 || b->shape[i] == 1;
		shape[i] = a->shape[i] > b->shape[i] ? a->shape[i] : b->shape[i];
	}
	if (!fits)
		return ff_derive_fail(d, err,
				"%s times %s is no product: expected as many samples, batches that "
				"agree or are 1, and as many columns as rows",
				ff_shape_text(a->rank, a->shape).text,
				ff_shape_text(b->rank, b->shape).text);
	if (a->rank == 2 && s.row != 0)
		return ff_derive_fail(d, err,
				"of two axes the first operand's rows are samples: expected "
				"\"transpose_a\" false");
	shape[a->rank - 2] = a->shape[s.row];
	shape[a->rank - 1] = b->shape[s.column];
	return FF_OK;
}

/* Dims: the batches, row (of two axes the sample), column, inner. */
static void map_axes(struct ff_derive *d, uint32_t rank, const int32_t *shape, int32_t inner)
{
	struct ff_operand *a = ff_derive_map(d, 0), *b = ff_derive_map(d, 1);
	struct sides s = sides_of(d->node, rank);
	int32_t row, column;

	for (uint32_t i = 0; i + 2 < rank; i++) {
		int32_t dim = ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE,
				ff_axis_name(FF_MAX_RANK, i), shape[i]);

		ff_axis_plain(d->node->out_map, i, dim);
		if (a->shape[i] == shape[i])
			ff_axis_plain(a, i, dim);
		if (b->shape[i] == shape[i])
			ff_axis_plain(b, i, dim);
	}
	row = rank == 2 ? ff_derive_dim(d, FF_DIM_SAMPLE, "sample", shape[0])
			: ff_derive_dim(d, FF_DIM_ATTRIBUTE, "row", shape[rank - 2]);
	column = ff_derive_dim(d, FF_DIM_PARAMETER, "column", shape[rank - 1]);
	inner = ff_derive_dim(d, FF_DIM_REDUCTION, "inner", inner);
	ff_axis_plain(d->node->out_map, rank - 2, row);
	ff_axis_plain(d->node->out_map, rank - 1, column);
	ff_axis_plain(a, s.row, row);
	ff_axis_plain(a, s.inner_a, inner);
	ff_axis_plain(b, s.inner_b, inner);
	ff_axis_plain(b, s.column, column);
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *a, *b;
	int32_t shape[FF_MAX_RANK], inner;
	int64_t flops;
	int code = ff_derive_input(d, 0, d->graph->dtype, 2, FF_MAX_RANK, &a, err);

	if (code == FF_OK)
		code = ff_derive_input(d, 1, d->graph->dtype, 2, FF_MAX_RANK, &b, err);
	if (code == FF_OK)
		code = join(d, a, b, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, a->rank, shape,
				ff_derive_order(a->rank), err);
	if (code < 0)
		return code;
	inner = a->shape[sides_of(d->node, a->rank).inner_a];
	map_axes(d, a->rank, shape, inner);
	flops = ff_sat_mul(2, ff_sat_mul(ff_shape_volume(a->rank, shape), inner));
	d->node->flops_forward = flops;
	d->node->flops_backward = ff_sat_mul(flops, a->needs_grad + b->needs_grad);
	return FF_OK;
}

static uint32_t kernels(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	uint32_t at = w->box.rank - 3, n = 0;
	double row = ff_region_size(&w->box, at), column = ff_region_size(&w->box, at + 1);
	double inner = ff_region_size(&w->box, at + 2), count = 1;
	enum ff_dtype type = ff_work_type(w);

	for (uint32_t i = 0; i < at; i++)
		count *= ff_region_size(&w->box, i);
	if (w->pass == FF_FORWARD)
		ret[n++] = ff_kernel_product(type, count, row, column, inner);
	if (w->need_din[0])
		ret[n++] = ff_kernel_product(type, count, row, inner, column);
	if (w->need_din[1])
		ret[n++] = ff_kernel_product(type, count, inner, column, row);
	return n;
}

const struct ff_op_row ff_op_matmul = {
		.name = "matmul",
		.summary = "products of the matrices in two tensors",
		.min_in = 2,
		.max_in = 2,
		.flags = FF_OP_BACKWARD_IN,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.kernels = kernels,
		.example = FF_EXAMPLE({"in" : [ [ 4, 2, 6, 8 ], [ 4, 2, 8, 6 ] ]}),
};
