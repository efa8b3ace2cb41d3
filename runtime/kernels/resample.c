/* Which linear map of images an operator is.  SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#define FF_RESAMPLE_FN static inline
#include "resample.h"

/* Images and the part of each axis; axes that there are not are of one element. */
static void fill_part(const struct ff_work *w, struct ff_resample *ret)
{
	const struct ff_operand *in = &w->node->in_map[0], *out = &w->node->out_map[0];

	*ret = (struct ff_resample){.n = 0};
	ff_image_planes(in, &w->in[0], &ret->n, &ret->c);
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		uint32_t axis = i + in->rank - FF_MAX_SPATIAL;

		ret->axis[i] = (struct ff_resample_axis){.in = 1,
				.out = 1,
				.in_n = 1,
				.out_n = 1,
				.count_hi = 1,
				.kernel = 1,
				.stride = 1};
		if (i + in->rank < FF_MAX_SPATIAL + 2)
			continue;
		ret->axis[i].in = in->shape[axis];
		ret->axis[i].out = out->shape[axis];
		ret->axis[i].in_lo = w->in[0].lo[axis];
		ret->axis[i].in_n = ff_region_size(&w->in[0], axis);
		ret->axis[i].out_lo = w->out[0].lo[axis];
		ret->axis[i].out_n = ff_region_size(&w->out[0], axis);
	}
}

void ff_resample_pool(const struct ff_work *w, struct ff_resample *ret)
{
	const struct ff_pool_attrs *a = &w->node->attrs.pool;
	uint32_t axes = ff_op_row(w->node->op)->axes;

	fill_part(w, ret);
	for (uint32_t i = 0; i < axes; i++) {
		struct ff_resample_axis *x = &ret->axis[FF_MAX_SPATIAL - axes + i];

		x->kind = FF_RESAMPLE_WINDOW;
		x->kernel = a->kernel[i];
		x->stride = a->stride[i];
		x->pad = a->pad[0][i];
		x->count_lo = a->count_pad ? -a->pad[0][i] : 0;
		x->count_hi = x->in + (a->count_pad ? a->pad[1][i] : 0);
	}
}

void ff_resample_resize(const struct ff_work *w, struct ff_resample *ret)
{
	const struct ff_resize_attrs *a = &w->node->attrs.resize;
	int32_t kind = w->node->op == FF_OP_ADAPTIVE_POOL ? FF_RESAMPLE_SHARE
		       : a->mode == FF_RESIZE_NEAREST     ? FF_RESAMPLE_NEAREST
		       : a->corners                       ? FF_RESAMPLE_CORNERS
							  : FF_RESAMPLE_LINEAR;

	fill_part(w, ret);
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		ret->axis[i].kind =
				i + (uint32_t)a->axes < FF_MAX_SPATIAL ? FF_RESAMPLE_WINDOW : kind;
}

void ff_resample_pad(const struct ff_work *w, struct ff_resample *ret)
{
	const struct ff_pad_attrs *a = &w->node->attrs.pad;
	uint32_t axes = (uint32_t)a->rank - 2;

	fill_part(w, ret);
	for (uint32_t i = 0; i < axes; i++) {
		struct ff_resample_axis *x = &ret->axis[FF_MAX_SPATIAL - axes + i];

		x->kind = a->mode == FF_PAD_EDGE ? FF_RESAMPLE_EDGE : FF_RESAMPLE_REFLECT;
		x->pad = a->before[2 + i];
	}
}
