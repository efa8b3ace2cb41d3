/* Rows of a part of a softmax.  SPDX-License-Identifier: Apache-2.0 */
#include "softmax.h"

void ff_soft_fill(const struct ff_work *w, bool log, const struct ff_operand *pairs,
		const struct ff_region *region, struct ff_soft *ret)
{
	uint32_t axis = (uint32_t)w->node->attrs.softmax.axis;
	const struct ff_operand *x = &w->node->in_map[0];
	int64_t stride[FF_MAX_RANK];

	ff_region_strides(x->order, &w->in[0], stride);
	*ret = (struct ff_soft){.length = ff_region_size(&w->in[0], axis),
			.inner = stride[axis],
			.log = log,
			.all = ff_region_size(&w->box, axis) == w->node->dim[axis].extent,
			.leads = w->box.lo[axis] == 0};
	ret->rows = ff_region_volume(&w->in[0]) / ret->length;
	ff_region_strides(pairs->order, region, stride);
	for (uint32_t i = 0; i < x->rank; i++) {
		uint32_t a = x->order[i];

		if (a == axis)
			continue;
		ret->n[ret->axes] = ff_region_size(&w->in[0], a);
		ret->step[ret->axes++] = stride[a - (a > axis)];
	}
}
