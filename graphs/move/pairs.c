/* Pairs: which source parts have elements for which sink parts of one component.
 * SPDX-License-Identifier: Apache-2.0 */
#include "pairs.h"

#include "cells.h"
#include "ff/grow.h"
#include "move.h"

static struct ff_pair *push(struct ff_scene *s, struct ff_pairs *p)
{
	struct ff_pair *pair = ff_grow_in(s->scratch, p->pair, p->n, &p->cap, sizeof(*pair));

	if (!pair)
		return NULL;
	p->pair = pair;
	return &p->pair[p->n++];
}

/* Lists the source cells that meet `sink`, axis by axis; returns how many. */
static uint32_t list_reaches(struct ff_scene *s, const struct ff_cell *sink)
{
	uint32_t n = !s->apart;

	s->reach[0] = s->base;
	for (uint32_t c = 0; c < s->n_cut; c++) {
		uint32_t i = s->cut[c];
		const struct ff_overlaps *o = &s->axis[i];
		const struct ff_grid_axis *from = o->side[FF_SOURCE], *to = o->side[FF_SINK];
		const struct ff_overlap *list = o->list + o->first[sink->at[i]];
		uint32_t m = ff_overlaps_count(o, sink->at[i]);
		int32_t wanted = to->hi[sink->at[i]] - to->lo[sink->at[i]];

		for (uint32_t j = n; j-- > 0;) {
			const struct ff_reach r = s->reach[j];

			for (uint32_t k = m; k-- > 0;) {
				struct ff_reach *x = &s->reach[(size_t)j * m + k];
				uint32_t at = list[k].source;
				int32_t size = list[k].hi - list[k].lo;

				*x = r;
				x->part += from->part[at];
				ff_reach_extend(s, i, FF_SOURCE, size,
						size < from->hi[at] - from->lo[at], size < wanted,
						x);
			}
		}
		n *= m;
	}
	return n;
}

/* A sink part, and the how many-th of its component it is: neighbours take different replicas
 * of a source, so that no one of them serves all. */
struct sink {
	const struct ff_cell *cell;
	uint32_t part, turn;
};

/* Copy `c` of a source cell at hand as a pair with `sink`. */
static void make_pair(const struct ff_scene *s, const struct ff_reach *r, uint32_t c,
		const struct sink *sink, struct ff_pair *ret)
{
	const struct ff_placement *from = s->side[FF_SOURCE].place;
	uint32_t part = ff_choose_replica(s, r->part + from->copy[c], sink->part, sink->turn);

	ret->source = (uint16_t)part;
	ret->sink = (uint16_t)sink->part;
	ret->from = s->side[FF_SOURCE].device[part];
	ret->to = s->side[FF_SINK].device[sink->part];
	ret->whole_source = ff_reach_is_run(r, FF_SOURCE);
	ret->whole_sink = ff_reach_is_run(r, FF_SINK);
	ret->all_sink = !r->cut[FF_SINK];
	ret->bytes = r->bytes;
}

/* Of several pairs that cover elements of one sink, the one that covers it alone and
 * is written first (at home, if such a one is); FF_NONE: there is none. */
static uint32_t find_base(const struct ff_scene *s, uint32_t n, const struct sink *sink)
{
	uint32_t copies = s->side[FF_SOURCE].place->n_copies, base = FF_NONE, device = UINT32_MAX;

	for (uint32_t i = 0; i < n * copies; i++) {
		const struct ff_reach *r = &s->reach[i / copies];
		struct ff_pair x;

		if (r->cut[FF_SINK])
			continue;
		make_pair(s, r, i % copies, sink, &x);
		if (x.from == x.to)
			return i;
		if (x.from < device) {
			base = i;
			device = x.from;
		}
	}
	return base;
}

static int keep_pair(struct ff_scene *s, const struct ff_pair *x, struct ff_pairs *p,
		struct ff_error *err)
{
	struct ff_region from, to;
	struct ff_pair *new = push(s, p);

	if (!new)
		return ff_fail_memory(err);
	*new = *x;
	ff_placement_region(s->side[FF_SOURCE].place, x->source, &from);
	ff_placement_region(s->side[FF_SINK].place, x->sink, &to);
	ff_region_intersect(&from, &to, &new->region);
	return FF_OK;
}

static int64_t volume_of(const struct ff_scene *s, int side, const struct ff_cell *c)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < s->rank; i++)
		n *= s->axis[i].side[side]->hi[c->at[i]] - s->axis[i].side[side]->lo[c->at[i]];
	return n;
}

/* All pieces of one sink part, from the `n` source cells at hand.  Where several cover
 * an element they are added: to the base, else to the reduction of nothing. */
static int pair_sink(struct ff_scene *s, uint32_t n, const struct sink *sink, struct ff_pairs *p,
		struct ff_error *err)
{
	uint32_t copies = s->side[FF_SOURCE].place->n_copies, base = FF_NONE;
	int64_t volume = volume_of(s, FF_SINK, sink->cell) * s->size;
	bool twice = copies > 1, hole = s->hole;
	int code = FF_OK;

	for (uint32_t c = 0; c < s->n_cut; c++) {
		uint32_t i = s->cut[c];

		twice = twice || s->axis[i].twice[sink->cell->at[i]];
		hole = hole || s->axis[i].hole[sink->cell->at[i]];
	}
	if (twice && s->first)
		base = find_base(s, n, sink);
	for (uint32_t i = 0; i < n * copies && code == FF_OK; i++) {
		struct ff_pair x;

		make_pair(s, &s->reach[i / copies], i % copies, sink, &x);
		x.add = (twice || !s->first) && i != base;
		p->n_home += x.from == x.to && 2 * x.bytes > volume;
		ff_component_enter(s, FF_SOURCE, x.source);
		if (s->pieces)
			code = keep_pair(s, &x, p, err);
		else
			ff_move_count(s, &x, NULL);
	}
	p->n_all += n * copies;
	s->fill[sink->part] = s->first && (twice ? base == FF_NONE : hole);
	return code;
}

int ff_pairs_find(struct ff_scene *s, const uint32_t *component, const uint32_t *alias,
		struct ff_pairs *p, struct ff_error *err)
{
	const struct ff_placement *to = s->side[FF_SINK].place;
	struct ff_cells w = {.s = s, .side = FF_SINK, .component = component};
	struct sink sink = {.cell = &w.at};
	int code = FF_OK;

	while (ff_cells_next(&w)) {
		uint32_t n = list_reaches(s, &w.at);

		for (uint32_t c = 0; c < to->n_copies; c++)
			for (uint32_t r = 0; r < to->replicas && code == FF_OK; r++) {
				sink.part = ff_cell_part(s, FF_SINK, &w.at, c, r);
				if (alias[sink.part] == FF_NONE)
					code = pair_sink(s, n, &sink, p, err);
				sink.turn++;
			}
	}
	return code;
}
