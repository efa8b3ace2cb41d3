/* A number around a tensor, or less of it: what is outside the input is the number, and what of the
 * input is outside the output has no gradient.  Around images also their own elements (as PyTorch's
 * ReflectionPad and ReplicationPad), which then have a share in several gradients.
 * SPDX-License-Identifier: Apache-2.0 */
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
		{.name = "mode",
				.type = FF_ATTR_CHOICE,
				.offset = AT(mode),
				.max = FF_PAD_EDGE,
				.choices = "constant|reflect|edge",
				.later = 1,
				.in_key = 1},
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

/* Elements of the input that are around it must be there. */
static int check_mode(struct ff_derive *d, const struct ff_value *in, struct ff_error *err)
{
	const struct ff_pad_attrs *a = &d->node->attrs.pad;
	const char *mode = a->mode == FF_PAD_EDGE ? "edge" : "reflect";

	if (a->mode == FF_PAD_CONSTANT)
		return FF_OK;
	if (in->rank < 3 || in->rank > 5 || a->before[1] || a->after[1])
		return ff_derive_fail(d, err,
				"mode %s is for the one to three axes behind the channels", mode);
	for (uint32_t i = 2; i < in->rank; i++) {
		int32_t most = a->before[i] > a->after[i] ? a->before[i] : a->after[i];

		if (a->before[i] < 0 || a->after[i] < 0)
			return ff_derive_fail(d, err, "mode %s takes nothing away", mode);
		if (most > INT32_MAX / 8 || (a->mode == FF_PAD_REFLECT && most >= in->shape[i]))
			return ff_derive_fail(d, err,
					"padding %d of axis %u is more than can be mirrored of %d",
					most, i, in->shape[i]);
	}
	return FF_OK;
}

/* Of an axis that has its own elements around it a part reads, beside those in its place, as many
 * on either side as its place may be away from them. */
static void map_axis(const struct ff_pad_attrs *a, struct ff_operand *o, uint32_t axis)
{
	int32_t times = a->mode == FF_PAD_CONSTANT ? 0 : a->mode == FF_PAD_EDGE ? 1 : 2;
	struct ff_axis_map *m = &o->axis[axis];

	m->offset = -a->before[axis] - times * a->after[axis];
	m->window = 1 + times * (a->before[axis] + a->after[axis]);
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
		code = check_mode(d, in, err);
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
		map_axis(a, o, i);
	return FF_OK;
}

const struct ff_op_row ff_op_pad = {
		.name = "pad",
		.summary = "a number, or its own elements, around a tensor; where negative, less "
			   "of it",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({
			"in" : [[ 4, 8, 6, 6 ]],
			"before" : [ 0, 0, 1, 1 ],
			"after" : [ 0, 0, 1, 1 ]
		}),
};
