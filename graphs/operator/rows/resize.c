/* Images of another size: every element the mean of its share of the input (as PyTorch's
 * AdaptiveAvgPool), or enlarged (as its Upsample), along one to three axes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

#define MOST (1 << 29) /* elements along an axis */

#define AT(field) offsetof(union ff_attrs, resize.field)
#define SIZE                                                                                       \
	{                                                                                          \
		.name = "size", .type = FF_ATTR_SHAPE, .offset = AT(axes), .min = 1, .max = MOST,  \
		.required = 1, .in_key = 1                                                         \
	}
static const struct ff_attr_row share_attrs[] = {SIZE};
static const struct ff_attr_row attrs[] = {
		SIZE,
		{.name = "mode",
				.type = FF_ATTR_CHOICE,
				.offset = AT(mode),
				.max = 1,
				.choices = "nearest|linear",
				.in_key = 1},
		{.name = "align_corners",
				.type = FF_ATTR_BOOL,
				.offset = AT(corners),
				.max = 1,
				.in_key = 1},
};
#undef AT

/* Which of `in` elements an output of `out` is made of (runtime/kernels/resample.h). */
static void map_axis(const struct ff_derive *d, struct ff_operand *o, uint32_t axis, int32_t in,
		int32_t out)
{
	const struct ff_resize_attrs *a = &d->node->attrs.resize;
	bool share = d->node->op == FF_OP_ADAPTIVE_POOL;
	int32_t step = in, dim = (int32_t)axis;
	struct ff_axis_map *m;

	if (!share && a->mode == FF_RESIZE_LINEAR)
		step = !a->corners ? 2 * in : out > 1 ? in - 1 : 0;
	m = ff_axis_term(o, axis, (struct ff_term){dim, 1, step});
	m->over = out;
	if (share)
		m->to = in - 1;
	if (share || a->mode == FF_RESIZE_NEAREST)
		return;
	m->window = 2;
	m->over = !a->corners ? 2 * out : out > 1 ? out - 1 : 1;
	m->from = m->to = a->corners ? 0 : in - out;
}

static int check(const struct ff_derive *d, const struct ff_value *in, struct ff_error *err)
{
	const struct ff_resize_attrs *a = &d->node->attrs.resize;

	if (a->axes != (int32_t)in->rank - 2)
		return ff_derive_fail(d, err,
				"\"size\" has %d numbers, expected %u, one for each "
				"axis behind the channels of %s",
				a->axes, in->rank - 2, ff_shape_text(in->rank, in->shape).text);
	for (uint32_t i = 2; i < in->rank; i++)
		if (in->shape[i] > MOST)
			return ff_derive_fail(d, err, "%d elements are too many for a %s",
					in->shape[i], ff_spatial_name(in->rank - 2, i - 2));
	if (a->corners && a->mode == FF_RESIZE_NEAREST)
		return ff_derive_fail(d, err, "\"align_corners\" is for mode linear");
	return FF_OK;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_resize_attrs *a = &d->node->attrs.resize;
	int64_t taps = 1;
	const struct ff_value *in;
	int32_t shape[FF_MAX_RANK];
	struct ff_operand *o;
	int code = ff_derive_input(d, 0, d->graph->dtype, 3, 5, &in, err);

	if (code == FF_OK)
		code = check(d, in, err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < in->rank; i++)
		shape[i] = i < 2 ? in->shape[i] : a->size[i - 2];
	code = ff_derive_out(d, 0, d->graph->dtype, in->rank, shape, in->order, err);
	if (code < 0)
		return code;
	o = ff_derive_map(d, 0);
	for (uint32_t i = 0; i < in->rank; i++) {
		const char *name =
				i > 1 ? ff_spatial_name(in->rank - 2, i - 2) : ff_axis_name(4, i);

		ff_derive_dim(d, i ? FF_DIM_ATTRIBUTE : FF_DIM_SAMPLE, name, shape[i]);
		if (i < 2)
			ff_axis_plain(o, i, (int32_t)i);
		else
			map_axis(d, o, i, in->shape[i], shape[i]);
		if (i > 1 && d->node->op == FF_OP_ADAPTIVE_POOL)
			taps = ff_sat_mul(taps, (in->shape[i] + shape[i] - 1) / shape[i]);
		else if (i > 1 && a->mode == FF_RESIZE_LINEAR)
			taps *= 2;
	}
	ff_operand_plain(d->node->out_map);
	ff_derive_flops(d, taps, taps);
	return FF_OK;
}

const struct ff_op_row ff_op_adaptive_pool = {
		.name = "adaptive_pool",
		.summary = "the mean of equal shares of the axes behind the channels",
		.min_in = 1,
		.max_in = 1,
		.attrs = share_attrs,
		.n_attrs = sizeof(share_attrs) / sizeof(share_attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE({"in" : [[ 4, 8, 9, 9 ]], "size" : [ 4, 4 ]}),
};

const struct ff_op_row ff_op_upsample = {
		.name = "upsample",
		.summary = "another size of the axes behind the channels: nearest or in between",
		.min_in = 1,
		.max_in = 1,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive,
		.example = FF_EXAMPLE(
				{"in" : [[ 4, 8, 6, 6 ]], "size" : [ 12, 12 ], "mode" : "linear"}),
};
