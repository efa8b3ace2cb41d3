/* Activations: one output element from one input element.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static int derive(struct ff_derive *d, int64_t forward, int64_t backward, struct ff_error *err)
{
	const struct ff_tensor *in;
	int code = ff_derive_input(d, 0, FF_F32, 1, FF_MAX_RANK, &in, err);
	if (code == FF_OK)
		code = ff_derive_out(d, FF_F32, in->rank, in->shape, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, in->rank, in->shape);
	ff_operand_plain(&d->node->out_map);
	ff_operand_plain(ff_derive_map(d, 0));
	ff_derive_flops(d, forward, backward);
	return FF_OK;
}

static int derive_relu(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 1, 1, err);
}

/* dx = dy (1 - y y) and dx = dy y (1 - y): three operations each. */
static int derive_smooth(struct ff_derive *d, struct ff_error *err)
{
	return derive(d, 1, 3, err);
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
