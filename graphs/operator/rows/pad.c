/* A number around a tensor, or less of it: what is outside the input is the number, and what of the
 * input is outside the output has no gradient.  SPDX-License-Identifier: Apache-2.0 */
#include <float.h>

#include "operator/derive.h"

#define AT(field) offsetof(union ff_attrs, pad.field)
static const struct ff_attr_row attrs[] = {
		{.name = "before",
				.type = FF_ATTR_SHAPE,
				.offset = AT(rank),
				.min = -INT32_MAX,
				.max = INT32_MAX,
				.required = 1},
		{.name = "after",
				.type = FF_ATTR_SHAPE,
				.offset = AT(rank_after),
				.min = -INT32_MAX,
				.max = INT32_MAX,
				.required = 1},
		{.name = "value",
				.type = FF_ATTR_REAL,
				.offset = AT(value),
				.min = -FLT_MAX,
				.max = FLT_MAX},
};
#undef AT

static int find_shape(struct ff_derive *d, const struct ff_value *in, int32_t *shape,
		struct ff_error *err)
{
	const struct ff_pad_attrs *a = &d->node->attrs.pad;

	if (a->rank != (int32_t)in->rank || a->rank_after != a->rank)
		return ff_derive_fail(d, err,
				"\"before\" and \"after\" have %d and %d numbers, expected one for "
				"each axis of the input %s",
				a->rank, a->rank_after, ff_shape_text(in->rank, in->shape).text);
	if (a->before[0] || a->after[0])
		return ff_derive_fail(d, err, "axis 0, the samples, is not padded");
	for (uint32_t i = 0; i < in->rank; i++) {
		int64_t size = (int64_t)in->shape[i] + a->before[i] + a->after[i];

		if (size < 1 || size > INT32_MAX)
			return ff_derive_fail(d, err, "axis %u would have %lld elements", i,
					(long long)size);
		shape[i] = (int32_t)size;
	}
	return FF_OK;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_pad_attrs *a = &d->node->attrs.pad;
	int32_t shape[FF_MAX_RANK];
	const struct ff_value *in;
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, 1, FF_MAX_RANK, &in, err);

	if (code == FF_OK)
		code = find_shape(d, in, shape, err);
	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, in->rank, shape, in->order, err);
	if (code < 0)
		return code;
	ff_derive_axes(d, in->rank, shape);
	ff_operand_plain(d->node->out_map);
	/* parts outside the input clamp to nothing */
	o = ff_derive_map(d, 0);
	ff_operand_plain(o);
	for (uint32_t i = 0; i < in->rank; i++)
		o->axis[i].offset = -a->before[i];
	return FF_OK;
}

const struct ff_op_row ff_op_pad = {
		.name = "pad",
		.summary = "a number around a tensor; where negative, less of it",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
};
