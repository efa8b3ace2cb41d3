/* Whole numbers of the data set as what the graph computes in, rounded.  Nothing behind them is
 * trained.  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *in;
	int code = ff_derive_input(d, 0, FF_I32, 1, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, in->rank, in->shape, in->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, in->rank, in->shape);
	ff_operand_plain(ff_derive_map(d, 0));
	ff_operand_plain(d->node->out_map);
	ff_derive_flops(d, 1, 0);
	return FF_OK;
}

const struct ff_op_row ff_op_cast = {
		.name = "cast",
		.summary = "int32 numbers as what the graph computes in",
		.min_in = 1,
		.max_in = 1,
		.derive = derive,
		.example = FF_EXAMPLE({"labels" : [[ 4, 8, 6, 6 ]]}),
};
