/* Slots of experts and the places that have them, of a part.  SPDX-License-Identifier: Apache-2.0
 */
#include "slots.h"

static struct ff_slot_rows strides(const struct ff_operand *o, const struct ff_region *r)
{
	int64_t s[FF_MAX_RANK];

	ff_region_strides(o->order, r, s);
	return (struct ff_slot_rows){s[0], s[1], s[2]};
}

/* Channels of an expert follow those of the one before. */
static struct ff_slot_sides sides(
		const struct ff_operand *o, const struct ff_region *r, int64_t features)
{
	int64_t s[FF_MAX_RANK];

	ff_region_strides(o->order, r, s);
	return (struct ff_slot_sides){s[0], features * s[1], s[2], s[1]};
}

/* `rows`, `slots`: which operands have them; `index`: which input has the places. */
static void fill(const struct ff_work *w, const struct ff_operand *rows,
		const struct ff_region *row, const struct ff_operand *slots,
		const struct ff_region *slot, uint32_t index, struct ff_slots *ret)
{
	const struct ff_region *at = &w->in[index], *table = &w->out[1];
	int64_t features = rows->shape[2];

	*ret = (struct ff_slots){.samples = ff_region_size(row, 0),
			.experts = ff_region_size(at, 1),
			.slots = ff_region_size(at, 2),
			.places = ff_region_size(row, 1),
			.first = row->lo[1],
			.features = features,
			.columns = ff_region_size(table, 2),
			.column = at->lo[1] - table->lo[2],
			.row = strides(rows, row),
			.side = sides(slots, slot, features),
			.index = strides(&w->node->in_map[index], at)};
}

void ff_slots_of_dispatch(const struct ff_work *w, struct ff_slots *ret)
{
	fill(w, &w->node->in_map[0], &w->in[0], &w->node->out_map[0], &w->out[0], 1, ret);
}

void ff_slots_of_combine(const struct ff_work *w, struct ff_slots *ret)
{
	fill(w, &w->node->out_map[0], &w->out[0], &w->node->in_map[0], &w->in[0], 2, ret);
	ret->share = strides(&w->node->in_map[1], &w->in[1]);
}
