/* What slices, gathers, pads and constants take from where.  SPDX-License-Identifier: Apache-2.0 */
#include "indices.h"

#include <string.h>

#include "ff/dtype.h"

void ff_strided_slice(const struct ff_work *w, struct ff_strided *ret)
{
	const struct ff_node *n = w->node;
	bool back = w->pass == FF_BACKWARD;
	int64_t in[FF_MAX_RANK], out[FF_MAX_RANK];

	ff_region_strides(n->in_map[0].order, &w->in[0], in);
	ff_region_strides(n->out_map[0].order, &w->out[0], out);
	in[n->attrs.slice.axis] *= n->attrs.slice.step;
	*ret = (struct ff_strided){.rank = w->out[0].rank};
	for (uint32_t i = 0; i < ret->rank; i++) {
		ret->n[i] = ff_region_size(&w->out[0], i);
		ret->source[i] = back ? out[i] : in[i];
		ret->sink[i] = back ? in[i] : out[i];
	}
}

void ff_gather_fill(const struct ff_work *w, struct ff_gather *ret)
{
	uint32_t axis = (uint32_t)w->node->attrs.gather.axis;
	int64_t stride[FF_MAX_RANK];

	ff_region_strides(w->node->out_map[0].order, &w->out[0], stride);
	ret->inner = stride[axis];
	ret->n = ff_region_size(&w->out[0], axis);
	ret->rows = ff_region_size(&w->in[0], axis);
	ret->outer = ff_region_volume(&w->out[0]) / (ret->n * ret->inner);
}

void ff_gather_table(const struct ff_work *w, const struct ff_gather *g, int32_t *ret)
{
	const struct ff_gather_attrs *a = &w->node->attrs.gather;
	const double *from = a->indices.at + w->out[0].lo[a->axis];
	int32_t *first = ret + g->n, *list = first + g->rows + 1;

	memset(first, 0, (size_t)(g->rows + 1) * sizeof(*first));
	for (int64_t i = 0; i < g->n; i++) {
		ret[i] = (int32_t)from[i];
		first[ret[i] + 1]++;
	}
	for (int64_t r = 0; r < g->rows; r++)
		first[r + 1] += first[r];
	for (int64_t i = 0; i < g->n; i++)
		list[first[ret[i]]++] = (int32_t)i;
	for (int64_t r = g->rows; r > 0; r--) /* each is where the next begins */
		first[r] = first[r - 1];
	first[0] = 0;
}

static struct ff_region one_sample(const struct ff_work *w)
{
	struct ff_region r = w->out[0];

	r.hi[0] = r.lo[0] + 1;
	return r;
}

int64_t ff_constant_sample(const struct ff_work *w)
{
	struct ff_region r = ff_constant_each(w) ? w->out[0] : one_sample(w);

	return ff_region_volume(&r);
}

static bool next(const struct ff_region *r, int32_t *at)
{
	for (uint32_t i = r->rank; i-- > 0;) {
		if (++at[i] < r->hi[i])
			return true;
		at[i] = r->lo[i];
	}
	return false;
}

/* Positions ascend, so the runs are passed once. */
void ff_constant_fill(const struct ff_work *w, void *ret)
{
	const struct ff_operand *o = &w->node->out_map[0];
	const double *run = w->node->attrs.constant.runs.at;
	struct ff_region r = ff_constant_each(w) ? w->out[0] : one_sample(w);
	int32_t at[FF_MAX_DIMS];
	int64_t end = (int64_t)run[0];

	memcpy(at, r.lo, sizeof(at));
	do {
		int64_t place = ff_region_offset(o->order, &r, at), index = 0;

		for (uint32_t i = ff_constant_each(w) ? 0 : 1; i < o->rank; i++)
			index = index * o->shape[i] + at[i];
		for (; index >= end; end += (int64_t)run[0])
			run += 2;
		if (o->dtype == FF_BF16)
			((uint16_t *)ret)[place] = ff_bf16_from_f32((float)run[1]);
		else
			((float *)ret)[place] = (float)run[1];
	} while (next(&r, at));
}

void ff_padding_fill(const struct ff_work *w, struct ff_padding *ret)
{
	const struct ff_pad_attrs *a = &w->node->attrs.pad;
	int64_t out = ff_region_volume(&w->out[0]);

	*ret = (struct ff_padding){
			.type = ff_work_type(w), .pass = w->pass, .in = w->in[0], .out = w->out[0]};
	memcpy(ret->order, w->node->out_map[0].order, sizeof(ret->order));
	for (uint32_t i = 0; i < ret->in.rank; i++) {
		ret->in.lo[i] += a->before[i];
		ret->in.hi[i] += a->before[i];
	}
	ret->fill = ff_region_volume(&ret->in) < out ? out : 0;
}

struct ff_copy ff_padding_copy(const struct ff_padding *p, const struct ff_kernel_io *io)
{
	bool forward = p->pass == FF_FORWARD;

	return (struct ff_copy){.source = forward ? io->in[0] : io->dout[0],
			.sink = forward ? io->out[0] : io->din[0],
			.order = p->order,
			.source_region = forward ? p->in : p->out,
			.sink_region = forward ? p->out : p->in,
			.region = p->in,
			.type = p->type};
}
