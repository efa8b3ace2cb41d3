/* Cells of one side of a redistribution, axis by axis, and the parts that have them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cells.h"

#include <string.h>

/* Goes to the next coordinate of `axis`; false: there is none. */
static bool advance(struct ff_cells *w, uint32_t axis)
{
	const struct ff_overlaps *o = &w->s->axis[axis];
	const struct ff_grid_axis *g = o->side[w->side];
	uint32_t *next = &w->next[axis], n = g->n;

	if (w->component) {
		const uint32_t *member = ff_overlaps_members(o, w->side, w->component[axis], &n);

		if (*next == n)
			return false;
		w->at.at[axis] = member[(*next)++];
		return true;
	}
	while (*next < n && g->hi[*next] <= g->lo[*next])
		(*next)++;
	if (*next == n)
		return false;
	w->at.at[axis] = (*next)++;
	return true;
}

/* Axes that neither side cuts stay at their one coordinate. */
bool ff_cells_next(struct ff_cells *w)
{
	const struct ff_scene *s = w->s;
	uint32_t i = s->n_cut;

	if (!w->started) {
		w->started = true;
		memset(w->at.at, 0, sizeof(w->at.at));
		memset(w->next, 0, sizeof(w->next));
		for (i = 0; i < s->n_cut; i++)
			if (!advance(w, s->cut[i]))
				return false;
	} else {
		while (i-- > 0 && !advance(w, s->cut[i])) {
			w->next[s->cut[i]] = 0;
			advance(w, s->cut[i]);
		}
		if (i == UINT32_MAX)
			return false;
	}
	w->at.part = 0;
	for (i = 0; i < s->n_cut; i++)
		w->at.part += s->axis[s->cut[i]].side[w->side]->part[w->at.at[s->cut[i]]];
	return true;
}

uint32_t ff_cell_part(const struct ff_scene *s, int side, const struct ff_cell *cell, uint32_t c,
		uint32_t r)
{
	const struct ff_placement *p = s->side[side].place;

	return cell->part + p->copy[c] + r * p->cells;
}

/* Whether `device` has a replica of part `source`. */
static bool is_replica(const struct ff_scene *s, uint32_t source, uint32_t device)
{
	uint16_t part = s->source_on[device];

	return part != FF_NO_PART && part % s->side[FF_SOURCE].place->cells == source;
}

/* Replicas of part `source` on the devices of a node, ascending. */
static uint32_t list_near(const struct ff_scene *s, uint32_t source,
		const struct ff_machine_node *node, uint16_t *part)
{
	uint32_t n = 0;

	for (uint32_t d = node->first; d < node->first + node->count; d++) {
		uint32_t at = n;

		if (!is_replica(s, source, d))
			continue;
		for (; at && part[at - 1] > s->source_on[d]; at--)
			part[at] = part[at - 1];
		part[at] = s->source_on[d];
		n++;
	}
	return n;
}

uint32_t ff_choose_replica(const struct ff_scene *s, uint32_t source, uint32_t sink, uint32_t turn)
{
	const struct ff_placement *p = s->side[FF_SOURCE].place;
	uint32_t home = s->side[FF_SINK].device[sink], near;
	uint16_t part[FF_MAX_DEVICES];

	if (p->replicas <= 1)
		return source;
	if (is_replica(s, source, home))
		return s->source_on[home];
	near = list_near(s, source, &s->m->nodes[s->m->node_of[home]], part);
	return near ? part[turn % near] : source + turn % p->replicas * p->cells;
}
