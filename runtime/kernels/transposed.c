/* Transposed convolutions of parts.  SPDX-License-Identifier: Apache-2.0 */
#include "transposed.h"

#include <string.h>

/* Along axis `i` of three, which is `axis` of the tensors and `from` of the attributes: what of
 * the shard the windows of the input's elements reach. */
static void fill_axis(const struct ff_work *w, uint32_t i, uint32_t from, struct ff_transposed *t)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	uint32_t axis = 2 + from;
	int64_t stride = a->stride[from], pad = a->pad[0][from];
	int64_t first = w->in[0].lo[axis] * stride - pad, begin = w->out[0].lo[axis];
	int64_t last = (w->in[0].hi[axis] - 1) * stride - pad, end = w->out[0].hi[axis];
	int64_t behind = last + (int64_t)a->dilation[from] * (a->kernel[from] - 1) + 1;
	struct ff_windows *v = &t->windows;

	v->kernel[i] = a->kernel[from];
	v->stride[i] = a->stride[from];
	v->dilation[i] = a->dilation[from];
	begin = begin > first ? begin : first;
	end = end < behind ? end : behind;
	v->in[i] = end - begin;
	v->out[i] = ff_region_size(&w->in[0], axis);
	v->pad[0][i] = begin - first;
	v->pad[1][i] = behind - end;
	t->reached.first[i] = begin - w->out[0].lo[axis];
	t->reached.size[i] = v->in[i];
}

static void fill_box(struct ff_transposed *t)
{
	struct ff_image_box *b = &t->reached;

	memcpy(b->n, t->out.n, sizeof(b->n));
	memcpy(b->stride, t->out.stride, sizeof(b->stride));
	b->channels = t->out.channels;
	b->channel_stride = t->out.channel_stride;
	t->box = t->out;
	t->is_all = true;
	t->box_at = 0;
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		t->is_all = t->is_all && b->size[i] == t->out.n[1 + i];
		t->box.n[1 + i] = b->size[i];
		t->box_at += b->first[i] * t->out.stride[1 + i];
	}
	t->box.is_last = t->out.is_last && t->is_all;
}

void ff_transposed_fill(const struct ff_work *w, struct ff_transposed *ret)
{
	uint32_t axes = ff_op_row(w->node->op)->axes;
	struct ff_transposed t = {.windows = {.first = axes < FF_MAX_SPATIAL}};

	ff_image_fill(&w->node->in_map[0], &w->in[0], &t.in);
	ff_image_fill(&w->node->out_map[0], &w->out[0], &t.out);
	t.is_empty = ff_region_volume(&w->in[0]) == 0;
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		struct ff_windows *v = &t.windows;

		v->kernel[i] = v->stride[i] = v->dilation[i] = 1;
		v->in[i] = v->out[i] = t.reached.size[i] = 1;
		if (i + axes >= FF_MAX_SPATIAL)
			fill_axis(w, i, i + axes - FF_MAX_SPATIAL, &t);
		if (t.is_empty)
			t.reached.first[i] = t.reached.size[i] = 0;
	}
	fill_box(&t);
	t.out_channels = ff_region_size(&w->in[1], 1);
	t.groups = t.out.channels / t.out_channels;
	t.in_channels = t.in.channels / t.groups;
	t.has_others = ff_region_size(&w->in[1], 0) != t.in.channels;
	t.first_weight = (w->in[0].lo[1] - w->in[1].lo[0]) * t.out_channels *
			 ff_windows_taps(&t.windows);
	t.first_bias = t.has_others ? w->out[0].lo[1] : 0;
	*ret = t;
}
