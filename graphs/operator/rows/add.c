/* Sum of two or more tensors of one shape.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "operator/derive.h"

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *first = ff_derive_in(d, 0), *in;
	int code;

	for (uint32_t i = 0; i < d->node->n_in; i++) {
		code = ff_derive_input(d, i, FF_F32, 1, FF_MAX_RANK, &in, err);
		if (code < 0)
			return code;
		if (in->rank != first->rank ||
				memcmp(in->shape, first->shape, in->rank * sizeof(*in->shape)) != 0)
			return ff_derive_fail(d, err,
					"all inputs must have one shape: input 0 is %s, input %u "
					"is %s",
					ff_shape_text(first->rank, first->shape).text, i,
					ff_shape_text(in->rank, in->shape).text);
		ff_operand_plain(ff_derive_map(d, i));
	}
	code = ff_derive_out(d, 0, FF_F32, first->rank, first->shape, first->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, first->rank, first->shape);
	ff_operand_plain(d->node->out_map);
	ff_derive_flops(d, (int64_t)d->node->n_in - 1, 0);
	return FF_OK;
}

const struct ff_op_row ff_op_add = {
		.name = "add",
		.summary = "sum of tensors of one shape",
		.min_in = 2,
		.max_in = 128,
		.derive = derive,
};
