/* Sum of two or more tensors of one shape.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static int derive(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, (int64_t)d->node->n_in - 1, 0, err);
}

const struct ff_op_row ff_op_add = {
		.name = "add",
		.summary = "sum of tensors of one shape",
		.min_in = 2,
		.max_in = 128,
		.derive = derive,
};
