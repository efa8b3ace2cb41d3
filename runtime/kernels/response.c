/* Local response normalisation of a part.  SPDX-License-Identifier: Apache-2.0 */
#include "response.h"

void ff_response_fill(const struct ff_work *w, struct ff_response *ret)
{
	const struct ff_response_attrs *a = &w->node->attrs.response;
	const struct ff_region *in = &w->in[0], *out = &w->out[0];
	int64_t in_stride[FF_MAX_RANK], out_stride[FF_MAX_RANK];

	ff_region_strides(w->node->in_map[0].order, in, in_stride);
	ff_region_strides(w->node->out_map[0].order, out, out_stride);
	*ret = (struct ff_response){.positions = 1,
			.in_step = in_stride[1],
			.out_step = out_stride[1],
			.in_lo = in->lo[1],
			.in_n = ff_region_size(in, 1),
			.out_lo = out->lo[1],
			.out_n = ff_region_size(out, 1),
			.before = a->size / 2,
			.behind = (a->size - 1) / 2,
			.scale = (float)(a->alpha / a->size),
			.beta = (float)a->beta,
			.k = (float)a->k};
	for (uint32_t i = 0; i < out->rank; i++) {
		if (i == 1)
			continue;
		ret->n[ret->rank] = ff_region_size(out, i);
		ret->in[ret->rank] = in_stride[i];
		ret->out[ret->rank] = out_stride[i];
		ret->positions *= ret->n[ret->rank++];
	}
}
