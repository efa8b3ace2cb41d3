/* Loops of strided copies.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/strided.h"

void ff_strided_normalise(const struct ff_strided *s, struct ff_strided *ret)
{
	struct ff_strided r = {0};

	for (uint32_t i = 0; i < s->rank; i++) {
		uint32_t at = r.rank;

		if (s->n[i] == 1)
			continue;
		for (; at > 0 && s->sink[i] > r.sink[at - 1]; at--) {
			r.n[at] = r.n[at - 1];
			r.source[at] = r.source[at - 1];
			r.sink[at] = r.sink[at - 1];
		}
		r.n[at] = s->n[i];
		r.source[at] = s->source[i];
		r.sink[at] = s->sink[i];
		r.rank++;
	}
	*ret = (struct ff_strided){.rank = 1, .n = {1}, .source = {1}, .sink = {1}};
	for (uint32_t i = 0; i < r.rank; i++) {
		uint32_t at = ret->rank - 1;
		bool run = i && ret->source[at] == r.source[i] * r.n[i] &&
			   ret->sink[at] == r.sink[i] * r.n[i];

		if (run) {
			ret->n[at] *= r.n[i];
		} else {
			at = i ? ret->rank++ : 0;
			ret->n[at] = r.n[i];
		}
		ret->source[at] = r.source[i];
		ret->sink[at] = r.sink[i];
	}
}

void ff_strided_region(const uint8_t *order, const struct ff_region *source,
		const struct ff_region *sink, const struct ff_region *region,
		struct ff_strided *ret, int64_t *source_at, int64_t *sink_at)
{
	*ret = (struct ff_strided){.rank = region->rank};
	ff_region_strides(order, source, ret->source);
	ff_region_strides(order, sink, ret->sink);
	for (uint32_t i = 0; i < region->rank; i++)
		ret->n[i] = ff_region_size(region, i);
	*source_at = ff_region_offset(order, source, region->lo);
	*sink_at = ff_region_offset(order, sink, region->lo);
}
