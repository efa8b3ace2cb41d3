/* Routing of a part.  SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

void ff_route_fill(const struct ff_work *w, struct ff_route *ret)
{
	const struct ff_route_attrs *a = &w->node->attrs.route;
	int64_t stride[FF_MAX_RANK];

	ff_region_strides(w->node->in_map[0].order, &w->in[0], stride);
	*ret = (struct ff_route){.samples = ff_region_size(&w->in[0], 0),
			.places = ff_region_size(&w->in[0], 1),
			.experts = ff_region_size(&w->in[0], 2),
			.choices = a->choices,
			.slots = a->capacity ? a->capacity : a->choices,
			.limited = a->capacity > 0,
			.index = a->index,
			.sample = stride[0],
			.place = stride[1],
			.expert = stride[2]};
}
