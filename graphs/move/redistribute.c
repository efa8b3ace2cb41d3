/* Redistribution: what moves when the regions that an operator writes differ
 * from those that the next one reads.  Both sides are grids of intervals, so
 * they meet axis by axis, and what hangs together is a product of what hangs
 * together along each axis.  Each such component becomes one task, recognised
 * as a collective where its regions have that shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <string.h>

#include "bulk.h"
#include "cells.h"
#include "ff/grow.h"
#include "move.h"
#include "pairs.h"
#include "slices.h"

/* The source cell that is exactly `sink`'s region, if there is one. */
static bool equal_cell(const struct ff_scene *s, const struct ff_cell *sink, struct ff_cell *ret)
{
	ret->part = 0;
	for (uint32_t i = 0; i < s->rank; i++) {
		const struct ff_overlaps *o = &s->axis[i];
		const struct ff_grid_axis *from = o->side[FF_SOURCE], *to = o->side[FF_SINK];
		uint32_t j = sink->at[i], k;

		if (ff_overlaps_count(o, j) != 1)
			return false;
		k = o->list[o->first[j]].source;
		if (from->lo[k] != to->lo[j] || from->hi[k] != to->hi[j])
			return false;
		ret->at[i] = k;
		ret->part += from->part[k];
	}
	return true;
}

/* Sinks that are one source's shard, whole and alone, on its own device. */
static void find_aliases(const struct ff_scene *s, uint32_t *alias)
{
	const struct ff_placement *from = s->side[FF_SOURCE].place, *to = s->side[FF_SINK].place;
	struct ff_cells w = {.s = s, .side = FF_SINK};
	struct ff_cell cell;

	if (!s->first || from->n_copies > 1)
		return;
	while (ff_cells_next(&w)) {
		if (!equal_cell(s, &w.at, &cell))
			continue;
		for (uint32_t c = 0; c < to->n_copies; c++)
			for (uint32_t r = 0; r < to->replicas; r++) {
				uint32_t sink = ff_cell_part(s, FF_SINK, &w.at, c, r);
				uint32_t source = ff_choose_replica(s,
						ff_cell_part(s, FF_SOURCE, &cell, 0, 0), sink, 0);

				if (s->side[FF_SOURCE].device[source] ==
						s->side[FF_SINK].device[sink])
					alias[sink] = source;
			}
	}
}

/* ---- one component ---- */

static void list_devices(struct ff_scene *s)
{
	s->n_devices = 0;
	for (uint32_t w = 0; w <= (s->m->n_devices - 1) / 64; w++)
		for (uint64_t bits = s->member[w]; bits; bits &= bits - 1)
			s->device[s->n_devices++] =
					(uint16_t)(64 * w + (uint32_t)__builtin_ctzll(bits));
}

static void forget(struct ff_scene *s)
{
	list_devices(s);
	for (uint32_t i = 0; i < s->n_devices; i++) {
		s->at[FF_SOURCE][s->device[i]] = s->at[FF_SINK][s->device[i]] = FF_NO_PART;
		s->member[s->device[i] / 64] = 0;
		s->tally[s->device[i]] = (struct ff_tally){0};
	}
	s->n_parts[FF_SOURCE] = s->n_parts[FF_SINK] = 0;
}

static void enter_all(
		struct ff_scene *s, int side, const uint32_t *component, const uint32_t *alias)
{
	const struct ff_placement *p = s->side[side].place;
	struct ff_cells w = {.s = s, .side = side, .component = component};

	while (ff_cells_next(&w))
		for (uint32_t c = 0; c < p->n_copies; c++)
			for (uint32_t r = 0; r < p->replicas; r++) {
				uint32_t part = ff_cell_part(s, side, &w.at, c, r);

				if (!alias || alias[part] == FF_NONE)
					ff_component_enter(s, side, part);
			}
}

/* Replica `replica` of the sources, and the sinks on its devices. */
static void enter_replica(struct ff_scene *s, const uint32_t *component, const uint32_t *alias,
		uint32_t replica)
{
	struct ff_cells from = {.s = s, .side = FF_SOURCE, .component = component};
	struct ff_cells to = {.s = s, .side = FF_SINK, .component = component};
	const struct ff_side *sink = &s->side[FF_SINK];

	while (ff_cells_next(&from))
		for (uint32_t c = 0; c < s->side[FF_SOURCE].place->n_copies; c++)
			ff_component_enter(s, FF_SOURCE,
					ff_cell_part(s, FF_SOURCE, &from.at, c, replica));
	while (ff_cells_next(&to))
		for (uint32_t k = 0; k < sink->place->n_copies * sink->place->replicas; k++) {
			uint32_t part = ff_cell_part(s, FF_SINK, &to.at, k % sink->place->n_copies,
					k / sink->place->n_copies);

			if (alias[part] == FF_NONE &&
					s->at[FF_SOURCE][sink->device[part]] != FF_NO_PART)
				ff_component_enter(s, FF_SINK, part);
		}
}

/* Cells of one side of a component, the box around them, and whether they tile it. */
struct extent {
	uint32_t n;
	struct ff_region box;
	bool tiles;
};

static void measure(
		const struct ff_scene *s, int side, const uint32_t *component, struct extent *ret)
{
	*ret = (struct extent){.n = 1, .tiles = true, .box = {.rank = s->rank}};
	for (uint32_t i = 0; i < s->rank; i++) {
		const struct ff_overlaps *o = &s->axis[i];
		const struct ff_grid_axis *g = o->side[side];
		int32_t lo = INT32_MAX, hi = 0;
		const uint32_t *member;
		uint32_t n;

		member = ff_overlaps_members(o, side, component[i], &n);
		for (uint32_t j = 0; j < n; j++) {
			uint32_t k = member[j];

			ret->tiles = ret->tiles && (!j || g->lo[k] == hi);
			lo = g->lo[k] < lo ? g->lo[k] : lo;
			hi = g->hi[k] > hi ? g->hi[k] : hi;
		}
		ret->n *= n;
		ret->box.lo[i] = lo;
		ret->box.hi[i] = hi;
	}
}

static bool same_devices(const struct ff_scene *s)
{
	if (s->n_parts[FF_SOURCE] != s->n_parts[FF_SINK])
		return false;
	for (uint32_t i = 0; i < s->n_devices; i++)
		if (s->at[FF_SOURCE][s->device[i]] == FF_NO_PART ||
				s->at[FF_SINK][s->device[i]] == FF_NO_PART)
			return false;
	return true;
}

/* The replica of the sources that is on the device of copy `copy` of a sink cell. */
static uint32_t replica_beside(const struct ff_scene *s, const struct ff_cell *sink, uint32_t copy)
{
	uint32_t copies = s->side[FF_SINK].place->n_copies;
	uint32_t part = ff_cell_part(s, FF_SINK, sink, copy % copies, copy / copies);

	return s->at[FF_SOURCE][s->side[FF_SINK].device[part]] / s->side[FF_SOURCE].place->cells;
}

/* Whether every sink cell is once on the devices of each replica of the sources. */
static bool is_once_a_replica(const struct ff_scene *s, const uint32_t *component)
{
	const struct ff_placement *to = s->side[FF_SINK].place;
	struct ff_cells w = {.s = s, .side = FF_SINK, .component = component};
	uint32_t copies = to->n_copies * to->replicas;

	if (copies != s->side[FF_SOURCE].place->replicas)
		return false;
	while (copies > 1 && ff_cells_next(&w))
		for (uint32_t k = 1; k < copies; k++)
			for (uint32_t j = 0; j < k; j++)
				if (replica_beside(s, &w.at, j) == replica_beside(s, &w.at, k))
					return false;
	return true;
}

/* What the regions look like if every device has one source and one sink, for each replica of the
 * sources; messages where they look like nothing better. */
static enum ff_move_kind recognise(
		struct ff_scene *s, const uint32_t *component, struct ff_region *whole)
{
	const struct ff_placement *from = s->side[FF_SOURCE].place;
	struct extent e[2];
	bool equal;

	measure(s, FF_SOURCE, component, &e[FF_SOURCE]);
	measure(s, FF_SINK, component, &e[FF_SINK]);
	equal = ff_region_equal(&e[FF_SOURCE].box, &e[FF_SINK].box);
	if (s->codec || !equal || s->n_parts[FF_SINK] < 2 || !same_devices(s))
		return FF_MOVE_POINT_TO_POINT;
	*whole = e[FF_SOURCE].box;
	if (from->n_copies > 1) {
		if (e[FF_SOURCE].n == 1 && e[FF_SINK].n == 1)
			return FF_MOVE_ALL_REDUCE;
		if (e[FF_SOURCE].n == 1 && e[FF_SINK].tiles && is_once_a_replica(s, component))
			return FF_MOVE_REDUCE_SCATTER;
	} else if (e[FF_SOURCE].n > 1 && e[FF_SOURCE].tiles && e[FF_SINK].n == 1) {
		return FF_MOVE_ALL_GATHER;
	}
	return FF_MOVE_POINT_TO_POINT;
}

static enum ff_move_kind name_messages(const struct ff_scene *s, const struct ff_pairs *p)
{
	bool same = same_devices(s);

	if (s->n_devices == 1)
		return FF_MOVE_COPY;
	if (p->n_home == s->n_parts[FF_SINK] && !s->codec)
		return FF_MOVE_HALO;
	if (same && p->n_all == s->n_parts[FF_SOURCE] * s->n_parts[FF_SINK])
		return FF_MOVE_ALL_TO_ALL;
	return FF_MOVE_POINT_TO_POINT;
}

/* The sinks that stand in s->at, and whoever has elements for them. */
static int build_messages(
		struct ff_scene *s, struct ff_pairs *p, struct ff_move *mv, struct ff_error *err)
{
	list_devices(s);
	mv->kind = name_messages(s, p);
	return ff_move_messages(s, p->n, p->pair, mv, err);
}

/* Moves of a redistribution: one a component, or, where no source is, one a sink. */
struct moves {
	struct ff_move *move;
	uint32_t n, cap;
};

static struct ff_move *new_move(struct ff_scene *s, struct moves *m)
{
	struct ff_move *move = ff_grow_in(s->arena, m->move, m->n, &m->cap, sizeof(*move));

	if (!move)
		return NULL;
	m->move = move;
	m->move[m->n] = (struct ff_move){.type = s->type,
			.gradients = s->side[FF_SOURCE].gradients,
			.accumulate = !s->first,
			.reduce = s->side[FF_SOURCE].place->reduce};
	return &m->move[m->n++];
}

/* Sinks that no source reaches: each is zeroed where it lies. */
static int fill_sinks(struct ff_scene *s, const uint32_t *component, struct moves *m,
		struct ff_error *err)
{
	struct ff_pairs p = {0};
	const struct ff_placement *to = s->side[FF_SINK].place;
	struct ff_cells w = {.s = s, .side = FF_SINK, .component = component};
	int code = FF_OK;

	while (s->first && ff_cells_next(&w))
		for (uint32_t k = 0; k < to->n_copies * to->replicas && code == FF_OK; k++) {
			uint32_t part = ff_cell_part(
					s, FF_SINK, &w.at, k % to->n_copies, k / to->n_copies);
			struct ff_move *mv = new_move(s, m);

			if (!mv)
				return ff_fail_memory(err);
			s->fill[part] = 1;
			ff_component_enter(s, FF_SINK, part);
			code = build_messages(s, &p, mv, err);
			forget(s);
		}
	return code;
}

static bool has_sources(const struct ff_scene *s, const uint32_t *component)
{
	for (uint32_t i = 0; i < s->rank; i++) {
		uint32_t n;

		ff_overlaps_members(&s->axis[i], FF_SOURCE, component[i], &n);
		if (!n)
			return false;
	}
	return true;
}

/* The whole of one sink cell, of slices that its parts have; `part` is its first. */
static int join_cell(struct ff_scene *s, uint32_t part, struct moves *m, struct ff_error *err)
{
	const struct ff_placement *whole = s->side[FF_SINK].place;
	struct ff_move *mv = new_move(s, m);
	struct ff_region region;
	int code;

	if (!mv)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < whole->n_copies * whole->replicas; k++)
		for (int side = 0; side < 2; side++)
			ff_component_enter(s, side, ff_slices_part(whole, part, k));
	list_devices(s);
	ff_placement_region(whole, part, &region);
	code = ff_move_collective(s, FF_MOVE_ALL_GATHER, &region, mv, err);
	mv->joins = true;
	mv->n_sources = 0;
	mv->source = NULL;
	mv->run_bytes = 0;
	forget(s);
	return code;
}

/* Of every sink cell of a component, whose first slice it goes by. */
static int join_slices(struct ff_scene *s, const uint32_t *component, struct moves *m,
		struct ff_error *err)
{
	struct ff_cells w = {.s = s, .side = FF_SINK, .component = component};
	struct ff_scene joined = *s;
	int code = FF_OK;

	joined.side[FF_SOURCE].place = s->side[FF_SINK].place;
	joined.side[FF_SOURCE].device = s->whole->device;
	joined.side[FF_SINK] = *s->whole;
	joined.first = true;
	while (code == FF_OK && ff_cells_next(&w)) {
		bool first = true;

		for (uint32_t i = 0; i < s->rank; i++)
			first = first && w.at.at[i] % s->each[i] == 0;
		if (first)
			code = join_cell(&joined, w.at.part, m, err);
	}
	return code;
}

/* A collective for each replica of the sources, which stand in s->at. */
static int build_collectives(struct ff_scene *s, enum ff_move_kind kind,
		const struct ff_region *whole, const uint32_t *component, const uint32_t *alias,
		struct moves *m, struct ff_error *err)
{
	uint32_t replicas = s->side[FF_SOURCE].place->replicas;
	int code = FF_OK;

	for (uint32_t r = 0; r < replicas && code == FF_OK; r++) {
		struct ff_move *mv = new_move(s, m);

		if (!mv)
			return ff_fail_memory(err);
		if (replicas > 1) {
			forget(s);
			enter_replica(s, component, alias, r);
			list_devices(s);
		}
		code = ff_move_collective(s, kind, whole, mv, err);
	}
	return code;
}

static int build_component(struct ff_scene *s, const uint32_t *component, const uint32_t *alias,
		struct moves *m, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(s->scratch);
	enum ff_move_kind kind;
	struct ff_region whole;
	struct ff_pairs p = {0};
	struct ff_move *mv;
	int code;

	if (!has_sources(s, component))
		return fill_sinks(s, component, m, err);
	enter_all(s, FF_SINK, component, alias);
	if (!s->n_parts[FF_SINK])
		return FF_OK;
	enter_all(s, FF_SOURCE, component, NULL);
	list_devices(s);
	kind = recognise(s, component, &whole);
	if (kind != FF_MOVE_POINT_TO_POINT) {
		code = build_collectives(s, kind, &whole, component, alias, m, err);
	} else if (!(mv = new_move(s, m))) {
		return ff_fail_memory(err);
	} else if (ff_bulk_count(s, component, &p.n_all, &p.n_home)) {
		code = build_messages(s, &p, mv, err);
	} else {
		forget(s);
		enter_all(s, FF_SINK, component, alias);
		code = ff_pairs_find(s, component, alias, &p, err);
		if (code == FF_OK)
			code = build_messages(s, &p, mv, err);
	}
	forget(s);
	if (code == FF_OK && s->whole) {
		m->move[m->n - 1].sliced = true;
		code = join_slices(s, component, m, err);
	}
	ff_arena_rewind(s->scratch, mark);
	return code;
}

/* All components: every combination of one component an axis. */
static int build_moves(
		struct ff_scene *s, const uint32_t *alias, struct moves *m, struct ff_error *err)
{
	uint32_t component[FF_MAX_RANK] = {0}, n = 1, i;
	int code;

	for (i = 0; i < s->rank; i++)
		n *= s->axis[i].n_components;
	m->move = ff_arena_array(s->arena, n, sizeof(*m->move));
	m->cap = n;
	if (!m->move)
		return ff_fail_memory(err);
	do {
		code = build_component(s, component, alias, m, err);
		for (i = s->rank; i-- > 0 && code == FF_OK;) {
			if (++component[i] < s->axis[i].n_components)
				break;
			component[i] = 0;
		}
	} while (code == FF_OK && i != UINT32_MAX);
	return code;
}

/* Which source part each device has. */
static int list_replicas(struct ff_scene *s)
{
	const struct ff_side *from = &s->side[FF_SOURCE];
	uint32_t n = s->m->n_devices;

	s->source_on = ff_arena_array(s->scratch, n, sizeof(*s->source_on));
	if (!s->source_on)
		return FF_E_NOMEM;
	for (uint32_t d = 0; d < n; d++)
		s->source_on[d] = FF_NO_PART;
	for (uint32_t p = 0; p < from->place->n_parts; p++)
		s->source_on[from->device[p]] = (uint16_t)p;
	return FF_OK;
}

static int allocate(struct ff_scene *s, struct ff_error *err)
{
	const struct ff_placement *from = s->side[FF_SOURCE].place;
	uint32_t n = s->m->n_devices;
	size_t cells = 1;

	for (uint32_t i = 0; i < s->rank; i++)
		cells *= from->axis[i].n;
	for (int side = 0; side < 2; side++) {
		s->at[side] = ff_arena_array(s->scratch, n, sizeof(**s->at));
		if (!s->at[side])
			return ff_fail_memory(err);
		memset(s->at[side], 0xff, n * sizeof(**s->at));
	}
	if (from->replicas > 1 && list_replicas(s) < 0)
		return ff_fail_memory(err);
	s->member = ff_arena_array(s->scratch, (n + 63) / 64, sizeof(*s->member));
	s->device = ff_arena_array(s->scratch, n, sizeof(*s->device));
	s->tally = ff_arena_array(s->scratch, n, sizeof(*s->tally));
	s->fill = ff_arena_array(s->scratch, s->side[FF_SINK].place->n_parts, sizeof(*s->fill));
	s->reach = ff_arena_array(s->scratch, cells, sizeof(*s->reach));
	return s->member && s->device && s->tally && s->fill && s->reach ? FF_OK
									 : ff_fail_memory(err);
}

/* Along an axis that neither side cuts all pairs share the same. */
static void share_uncut(struct ff_scene *s, uint32_t axis)
{
	const struct ff_overlaps *o = &s->axis[axis];
	const struct ff_overlap *both = o->list;
	int32_t size = both->hi - both->lo;

	s->hole = s->hole || o->hole[0];
	s->apart = s->apart || !ff_overlaps_count(o, 0);
	if (!s->apart)
		ff_reach_extend(s, axis, FF_SOURCE, size,
				size < o->side[FF_SOURCE]->hi[0] - o->side[FF_SOURCE]->lo[0],
				size < o->side[FF_SINK]->hi[0] - o->side[FF_SINK]->lo[0], &s->base);
}

static int find_all(struct ff_scene *s, uint32_t *alias, struct moves *m, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < s->rank; i++)
		s->depth[s->side[FF_SOURCE].place->order[i]] = (uint8_t)i;
	s->base.bytes = s->size;
	for (uint32_t i = 0; i < s->rank && code == FF_OK; i++) {
		const struct ff_grid_axis *from = &s->side[FF_SOURCE].place->axis[i];
		const struct ff_grid_axis *to = &s->side[FF_SINK].place->axis[i];

		code = ff_overlaps_find(from, to, s->each[i], s->scratch, &s->axis[i], err);
		if (from->n > 1 || to->n > 1)
			s->cut[s->n_cut++] = i;
		else
			share_uncut(s, i);
		if (code == FF_OK && !s->axis[i].n_components)
			return FF_OK; /* no sink wants anything */
	}
	if (code == FF_OK)
		code = allocate(s, err);
	if (code < 0)
		return code;
	find_aliases(s, alias);
	code = ff_bulk_prepare(s, err);
	return code == FF_OK ? build_moves(s, alias, m, err) : code;
}

/* Whoever has elements that others have, too, must get the same of them. */
static const struct ff_codec *codec_of(const struct ff_side *source, const struct ff_side *sink)
{
	bool alone = sink->place->n_copies == 1 && sink->place->replicas == 1;

	return alone ? source->codec : NULL;
}

static enum ff_dtype type_of(const struct ff_side *s)
{
	return s->gradients ? s->place->gradient : s->place->type;
}

/* Where sinks get slices, these are what is sent to. */
static int slice_sinks(struct ff_scene *s, const struct ff_side *sink, struct ff_slices *slices,
		struct ff_error *err)
{
	bool found;
	int code = ff_slices_find(s->m, &s->side[FF_SOURCE], sink, s->scratch, slices, &found, err);

	for (uint32_t i = 0; i < s->rank; i++)
		s->each[i] = found ? slices->each[i] : 1;
	if (found) {
		s->whole = sink;
		s->side[FF_SINK].place = &slices->place;
	}
	return code;
}

int ff_redistribute(const struct ff_redistributor *x, const struct ff_side *source,
		const struct ff_side *sink, bool first, struct ff_redistribution *ret,
		struct ff_error *err)
{
	struct ff_scene s = {.m = x->m,
			.side = {*source, *sink},
			.first = first,
			.pieces = x->pieces,
			.type = type_of(source),
			.size = ff_dtype_bytes(type_of(source)),
			.codec = codec_of(source, sink),
			.rank = source->place->rank,
			.arena = x->a,
			.scratch = x->scratch};
	uint32_t n = sink->place->n_parts;
	uint32_t *alias = ff_arena_array(x->a, n, sizeof(*alias));
	bool identity = first && ff_side_is_same(source, sink);
	struct ff_arena_mark mark = ff_arena_mark(x->scratch);
	struct ff_slices slices;
	struct moves moves = {0};
	int code = FF_OK;

	if (!alias)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		alias[i] = identity ? i : FF_NONE;
	if (!identity)
		code = slice_sinks(&s, sink, &slices, err);
	if (!identity && code == FF_OK)
		code = find_all(&s, alias, &moves, err);
	ff_arena_rewind(x->scratch, mark);
	if (code == FF_OK)
		*ret = (struct ff_redistribution){moves.n, moves.move, alias};
	return code;
}
