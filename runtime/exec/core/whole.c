/* Whole tensors and the regions of them that devices have.  SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

static void locate(struct ff_walk *w)
{
	w->offset = w->index = 0;
	for (uint32_t i = 0; i < w->r->rank; i++) {
		w->offset += (w->at[i] - w->r->lo[i]) * w->stride[i];
		w->index = w->index * w->shape[i] + w->at[i];
	}
}

void ff_walk_start(struct ff_walk *w, const struct ff_region *r, const struct ff_value *v)
{
	*w = (struct ff_walk){.r = r, .shape = v->shape};
	ff_region_strides(v->order, r, w->stride);
	memcpy(w->at, r->lo, sizeof(w->at));
	locate(w);
}

bool ff_walk_next_line(struct ff_walk *w)
{
	uint32_t i = w->r->rank - 1;

	while (i-- > 0) {
		if (++w->at[i] < w->r->hi[i]) {
			locate(w);
			return true;
		}
		w->at[i] = w->r->lo[i];
	}
	return false;
}

void ff_whole_take(const struct ff_value *v, const struct ff_region *r, const float *whole,
		float *region)
{
	uint32_t last = r->rank - 1;
	struct ff_walk w;

	ff_walk_start(&w, r, v);
	do {
		for (int32_t i = 0; i < ff_region_size(r, last); i++)
			region[w.offset + i * w.stride[last]] = whole[w.index + i];
	} while (ff_walk_next_line(&w));
}

void ff_whole_clear(const struct ff_value *v, const struct ff_region *r, float *whole)
{
	uint32_t last = r->rank - 1;
	struct ff_walk w;

	ff_walk_start(&w, r, v);
	do {
		for (int32_t i = 0; i < ff_region_size(r, last); i++)
			whole[w.index + i] = 0;
	} while (ff_walk_next_line(&w));
}

static void add(const struct ff_value *v, const struct ff_region *r, float share,
		const float *region, float *whole)
{
	uint32_t last = r->rank - 1;
	struct ff_walk w;

	ff_walk_start(&w, r, v);
	do {
		for (int32_t i = 0; i < ff_region_size(r, last); i++)
			whole[w.index + i] += share * region[w.offset + i * w.stride[last]];
	} while (ff_walk_next_line(&w));
}

int ff_whole_add(struct ff_executor *x, const struct ff_held *h, float share, float *whole,
		struct ff_error *err)
{
	float *staging;
	int code;

	if (h->n <= 0)
		return FF_OK;
	staging = calloc((size_t)ff_region_volume(h->region), sizeof(*staging));
	if (!staging)
		return ff_fail_memory(err);
	code = x->b->move.download(h->stream, staging + h->first, h->memory,
			(size_t)h->n * sizeof(*staging), err);
	if (code == FF_OK)
		code = x->b->stream.drain(h->stream, err);
	if (code == FF_OK)
		add(h->value, h->region, share, staging, whole);
	free(staging);
	return code;
}
