/* Numbers that are known and not trained (masks, tables), the same for every sample.
 * SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, constant.field)
static const struct ff_attr_row attrs[] = {
		{.name = "shape",
				.type = FF_ATTR_SHAPE,
				.offset = AT(rank),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.of_batch = 1},
		{.name = "runs",
				.type = FF_ATTR_LIST,
				.offset = AT(runs),
				.min = -FLT_MAX,
				.max = FLT_MAX,
				.required = 1},
};
#undef AT

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_constant_attrs *a = &d->node->attrs.constant;
	uint32_t rank = (uint32_t)a->rank;
	int64_t want = ff_shape_volume(rank - 1, a->shape + 1), have = 0;
	bool whole = a->runs.n % 2 == 0;

	for (int64_t i = 0; i + 1 < a->runs.n && whole; i += 2) {
		double n = a->runs.at[i];

		whole = n >= 1 && n <= (double)(want - have) && n == (double)(int64_t)n;
		have += whole ? (int64_t)n : 0;
	}
	if (!whole || have != want)
		return ff_derive_fail(d, err,
				"\"runs\" must be pairs, how many elements and what they are, for "
				"the %lld of one sample of \"shape\" %s",
				(long long)want, ff_shape_text(rank, a->shape).text);
	if (ff_derive_out(d, 0, d->graph->dtype, rank, a->shape, ff_derive_order(rank), err) < 0)
		return err->code;
	ff_derive_axes(d, rank, a->shape);
	ff_operand_plain(d->node->out_map);
	return FF_OK;
}

const struct ff_op_row ff_op_constant = {
		.name = "constant",
		.summary = "numbers that are known and not trained, the same for every sample",
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"shape" : [ 4, 8, 6, 6 ], "runs" : [ 288, 0 ]}),
};
