/* Product of two tensors of one shape, element by element.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

/* Backward multiplies the gradient by the other input, for either. */
static int derive(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 1, ff_derive_needs_grad(d, 0) + ff_derive_needs_grad(d, 1), err);
}

const struct ff_op_row ff_op_mul = {
		.name = "mul",
		.summary = "product of two tensors of one shape, element by element",
		.min_in = 2,
		.max_in = 2,
		.flags = FF_OP_BACKWARD_IN,
		.derive = derive,
};
