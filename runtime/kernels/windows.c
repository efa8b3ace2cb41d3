/* Windows of parts.  SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include "ff/strided.h"

/* Along one axis, number `i` of three. */
static void fill_axis(struct ff_windows *w, uint32_t i, int32_t kernel, int32_t stride,
		int32_t dilation, int32_t pad)
{
	w->kernel[i] = kernel;
	w->stride[i] = stride;
	w->dilation[i] = dilation;
	w->pad[0][i] = pad;
}

void ff_windows_fill(const struct ff_work *w, struct ff_windows *ret)
{
	const struct ff_pool_attrs *pool = &w->node->attrs.pool;
	const struct ff_conv_attrs *conv = &w->node->attrs.conv;
	uint32_t axes = ff_op_row(w->node->op)->axes;
	bool is_conv = w->node->n_in > w->node->n_data;

	*ret = (struct ff_windows){.first = axes < FF_MAX_SPATIAL};
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		uint32_t from = i + axes - FF_MAX_SPATIAL, axis = 2 + from;
		int64_t lo, hi;

		fill_axis(ret, i, 1, 1, 1, 0);
		ret->in[i] = ret->out[i] = 1;
		if (i + axes < FF_MAX_SPATIAL)
			continue;
		if (is_conv)
			fill_axis(ret, i, conv->kernel[from], conv->stride[from],
					conv->dilation[from], conv->pad[0][from]);
		else
			fill_axis(ret, i, pool->kernel[from], pool->stride[from], 1,
					pool->pad[0][from]);
		lo = (int64_t)w->out[0].lo[axis] * ret->stride[i] - ret->pad[0][i];
		hi = (int64_t)(w->out[0].hi[axis] - 1) * ret->stride[i] - ret->pad[0][i] +
		     (int64_t)ret->dilation[i] * (ret->kernel[i] - 1) + 1;
		ret->in[i] = ff_region_size(&w->in[0], axis);
		ret->out[i] = ff_region_size(&w->out[0], axis);
		ret->pad[0][i] = w->in[0].lo[axis] - lo;
		ret->pad[1][i] = hi - w->in[0].hi[axis];
	}
}

void ff_windows_settle(struct ff_windows *w)
{
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		int64_t least = w->pad[1][i], most = least + w->stride[i] - 1;

		if (w->pad[0][i] >= least && w->pad[0][i] <= most)
			w->pad[1][i] = w->pad[0][i];
		else if (least < 0 && most >= 0)
			w->pad[1][i] = 0;
	}
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

bool ff_windows_surround(struct ff_windows *w, int64_t first[FF_MAX_SPATIAL])
{
	bool changed = false;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		int64_t before = w->pad[0][i], behind = w->pad[1][i];
		int64_t both = larger(0, before < behind ? before : behind);

		first[i] = larger(0, before - both);
		w->in[i] += first[i] + larger(0, behind - both);
		w->pad[0][i] = w->pad[1][i] = both;
		changed = changed || before != behind;
	}
	return changed;
}

void ff_image_fill(const struct ff_operand *o, const struct ff_region *r, struct ff_image *ret)
{
	int64_t stride[FF_MAX_RANK], dense = 1;

	ff_region_strides(o->order, r, stride);
	*ret = (struct ff_image){.n = {ff_region_size(r, 0), 1, 1, 1},
			.stride = {stride[0]},
			.channels = ff_region_size(r, 1),
			.channel_stride = stride[1]};
	for (uint32_t i = 2; i < r->rank; i++) {
		ret->n[4 - r->rank + i] = ff_region_size(r, i);
		ret->stride[4 - r->rank + i] = stride[i];
	}
	ret->is_last = true;
	dense = ret->channels;
	for (uint32_t i = 4; i-- > 0;) {
		ret->is_last = ret->is_last && (ret->n[i] == 1 || ret->stride[i] == dense);
		dense *= ret->n[i];
	}
	ret->is_last = ret->is_last && (ret->channels == 1 || ret->channel_stride == 1);
}

void ff_image_planes(const struct ff_operand *o, const struct ff_region *r, int64_t *n, int64_t *c)
{
	bool last = o->order[o->rank - 1] == 1;

	*n = (int64_t)ff_region_size(r, 0) * (last ? 1 : ff_region_size(r, 1));
	*c = last ? ff_region_size(r, 1) : 1;
}

void ff_image_loops(const struct ff_image *i, int64_t groups, int64_t per_group, int64_t group_step,
		bool back, struct ff_strided *ret)
{
	int64_t *shard = back ? ret->sink : ret->source, *dense = back ? ret->source : ret->sink;
	int64_t step = groups * per_group;

	ret->rank = 6;
	ret->unused = 0;
	for (uint32_t a = 4; a-- > 0;) {
		ret->n[a] = i->n[a];
		shard[a] = i->stride[a];
		dense[a] = step;
		step *= i->n[a];
	}
	ret->n[4] = groups;
	shard[4] = group_step * i->channel_stride;
	dense[4] = per_group;
	ret->n[5] = per_group;
	shard[5] = i->channel_stride;
	dense[5] = 1;
}

void ff_image_loops_into(const int64_t size[FF_MAX_SPATIAL], struct ff_strided *s)
{
	int64_t step = s->sink[3];

	for (uint32_t a = 3; a > 0; a--) {
		s->sink[a] = step;
		step *= size[a - 1];
	}
	s->sink[0] = step;
}

void ff_bands_fill(const struct ff_work *w, const struct ff_image *in, const struct ff_image *out,
		struct ff_bands *ret)
{
	const struct ff_conv_attrs *a = &w->node->attrs.conv;
	const struct ff_region *weight = &w->in[1];
	int64_t depth = ff_region_size(weight, 1), covered = 0;
	int64_t per_group = a->out_channels / a->groups;
	int64_t first = w->out[0].lo[1], end = w->out[0].hi[1];
	struct ff_windows windows;

	ff_windows_fill(w, &windows);
	*ret = (struct ff_bands){.group_step = w->node->in_map[0].shape[1] / a->groups};
	for (int64_t at = first; at < end; ret->n++) {
		struct ff_band *b = &ret->band[ret->n];
		int64_t group = at / per_group, group_end = (group + 1) * per_group;
		int64_t stop = group_end < end ? group_end : end;

		*b = (struct ff_band){.groups = 1, .c = depth, .first_out = at - first};
		if (at % per_group == 0 && stop == group_end) {
			b->groups = (end - at) / per_group;
			stop = at + b->groups * per_group;
		}
		b->k = (stop - at) / b->groups;
		b->first_in = group * ret->group_step + weight->lo[1] - w->in[0].lo[1];
		b->first_weight = b->first_out * depth * ff_windows_taps(&windows);
		b->pack_in = ff_band_in(b) != in->channels || !in->is_last;
		b->pack_out = ff_band_out(b) != out->channels || !out->is_last;
		covered += ff_band_in(b);
		at = stop;
	}
	ret->cover = covered == in->channels;
}
