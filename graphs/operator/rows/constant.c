/* Numbers that are known and not trained (masks, tables), the same for every sample, or of each its
 * own, as which samples of a batch are alike: then its axis of samples is an attribute, so that the
 * batch is not cut into micro-batches.
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

/* How many elements the runs are of, at most so many; -1: they are none. */
static int64_t elements(const struct ff_numbers *runs, int64_t most)
{
	int64_t have = 0;

	for (int64_t i = 0; i + 1 < runs->n; i += 2) {
		double n = runs->at[i];

		if (!(n >= 1 && n <= (double)(most - have) && n == (double)(int64_t)n))
			return -1;
		have += (int64_t)n;
	}
	return runs->n % 2 ? -1 : have;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_constant_attrs *a = &d->node->attrs.constant;
	uint32_t rank = (uint32_t)a->rank;
	int64_t sample = ff_shape_volume(rank - 1, a->shape + 1);
	int64_t all = ff_shape_volume(rank, a->shape), have = elements(&a->runs, all);

	if (have < 1 || (have != sample && have != all))
		return ff_derive_fail(d, err,
				"\"runs\" must be pairs, how many elements and what they are, for "
				"the %lld of one sample of \"shape\" %s, or of all",
				(long long)sample, ff_shape_text(rank, a->shape).text);
	if (ff_derive_out(d, 0, d->graph->dtype, rank, a->shape, ff_derive_order(rank), err) < 0)
		return err->code;
	for (uint32_t i = 0; i < rank; i++)
		ff_derive_dim(d, i || have > sample ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE,
				ff_axis_name(rank, i), a->shape[i]);
	ff_operand_plain(d->node->out_map);
	return FF_OK;
}

const struct ff_op_row ff_op_constant = {
		.name = "constant",
		.summary = "numbers that are known and not trained, the same for every sample or "
			   "of each its own",
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"shape" : [ 4, 8, 6, 6 ], "runs" : [ 288, 0 ]}),
};
