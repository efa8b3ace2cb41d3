/* Softmax along an axis, and its logarithm.  A part has that axis whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static const struct ff_attr_row attrs[] = {
		{.name = "axis",
				.type = FF_ATTR_INT,
				.offset = offsetof(union ff_attrs, softmax.axis),
				.min = 1,
				.max = FF_MAX_RANK - 1,
				.preset = 1,
				.in_key = 1},
};

static int derive(struct ff_derive *d, struct ff_error *err)
{
	uint32_t axis = (uint32_t)d->node->attrs.softmax.axis;
	const struct ff_value *in;
	struct ff_operand *x, *y = d->node->out_map;
	int code = ff_derive_input(d, 0, d->graph->dtype, axis + 1, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, in->rank, in->shape, in->order, err);
	if (code < 0)
		return code;
	x = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		int32_t dim;

		if (i == axis)
			continue;
		dim = ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE,
				ff_axis_name(in->rank, i), in->shape[i]);
		ff_axis_plain(x, i, dim);
		ff_axis_plain(y, i, dim);
	}
	/* compare, subtract, exp, sum, scale; multiply, sum, subtract, multiply */
	ff_derive_flops(d, 5, 4);
	return FF_OK;
}

#define SOFTMAX(row, text)                                                                         \
	const struct ff_op_row ff_op_##row = {.name = #row,                                        \
			.summary = text,                                                           \
			.min_in = 1,                                                               \
			.max_in = 1,                                                               \
			.flags = FF_OP_BACKWARD_OUT,                                               \
			.attrs = attrs,                                                            \
			.n_attrs = sizeof(attrs) / sizeof(attrs[0]),                               \
			.derive = derive}

SOFTMAX(softmax, "exp(x) by its sum along an axis");
SOFTMAX(log_softmax, "logarithm of the softmax along an axis");
