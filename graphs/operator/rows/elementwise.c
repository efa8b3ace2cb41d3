/* Activations: one output element from one input element.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static int derive_relu(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 1, 1, err);
}

/* dx = dy (1 - y y) and dx = dy y (1 - y): three operations each. */
static int derive_smooth(struct ff_derive *d, struct ff_error *err)
{
	return ff_derive_alike(d, 1, 3, err);
}

const struct ff_op_row ff_op_relu = {
		.name = "relu",
		.summary = "max(x, 0)",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_OUT,
		.derive = derive_relu,
};

const struct ff_op_row ff_op_tanh = {
		.name = "tanh",
		.summary = "hyperbolic tangent",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_OUT,
		.derive = derive_smooth,
};

const struct ff_op_row ff_op_sigmoid = {
		.name = "sigmoid",
		.summary = "1 / (1 + exp(-x))",
		.min_in = 1,
		.max_in = 1,
		.flags = FF_OP_BACKWARD_OUT,
		.derive = derive_smooth,
};
