/* Overlaps of one axis.  SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

static uint32_t find(uint32_t *set, uint32_t i)
{
	while (set[i] != i)
		i = set[i] = set[set[i]];
	return i;
}

static bool is_empty(const struct ff_grid_axis *g, uint32_t i)
{
	return g->hi[i] <= g->lo[i];
}

/* Fills `list`, or only counts where it is NULL. */
static uint32_t walk(const struct ff_grid_axis *s, const struct ff_grid_axis *t, uint32_t *first,
		struct ff_overlap *list)
{
	bool sorted = s->sorted && t->sorted;
	uint32_t n = 0, from = 0;

	for (uint32_t j = 0; j < t->n; j++) {
		if (list)
			first[j] = n;
		/* in order, what ended before this sink ended before the next too */
		while (sorted && from < s->n && s->hi[from] <= t->lo[j])
			from++;
		for (uint32_t i = from; i < s->n && !(sorted && s->lo[i] >= t->hi[j]); i++) {
			int32_t lo = s->lo[i] > t->lo[j] ? s->lo[i] : t->lo[j];
			int32_t hi = s->hi[i] < t->hi[j] ? s->hi[i] : t->hi[j];

			if (hi <= lo)
				continue;
			if (list)
				list[n] = (struct ff_overlap){i, lo, hi};
			n++;
		}
	}
	if (list)
		first[t->n] = n;
	return n;
}

/* How well the overlaps of sink `j` cover it. */
static void cover(struct ff_overlaps *o, uint32_t j)
{
	int32_t at = o->side[1]->lo[j], end = o->side[1]->hi[j];
	const struct ff_overlap *list = o->list + o->first[j];
	uint32_t n = ff_overlaps_count(o, j);

	/* few, and nearly always in order */
	for (bool moved = true; moved && at < end;) {
		moved = false;
		for (uint32_t k = 0; k < n; k++)
			if (list[k].lo <= at && list[k].hi > at) {
				at = list[k].hi;
				moved = true;
			}
	}
	o->hole[j] = at < end;
	/* in order, an overlap meets its neighbour if it meets any */
	for (uint32_t k = 1; k < n && !o->twice[j]; k++)
		for (uint32_t i = k; i-- > 0 && !o->twice[j];) {
			o->twice[j] = list[i].lo < list[k].hi && list[k].lo < list[i].hi;
			if (o->side[0]->sorted)
				break;
		}
}

/* In order: a sink joins the component of the one before if they share a source. */
static void number_sorted(struct ff_overlaps *o, uint32_t together)
{
	const struct ff_grid_axis *t = o->side[1];
	uint32_t next = 0; /* behind the last source so far */

	for (uint32_t i = 0; i < o->side[0]->n; i++)
		o->component[0][i] = FF_NONE;
	for (uint32_t j = 0; j < t->n; j++) {
		uint32_t first = o->first[j], end = o->first[j + 1];

		o->component[1][j] = FF_NONE;
		if (is_empty(t, j))
			continue;
		if (j % together == 0 && (first == end || o->list[first].source >= next))
			o->n_components++;
		o->component[1][j] = o->n_components - 1;
		for (uint32_t k = first; k < end; k++)
			o->component[0][o->list[k].source] = o->n_components - 1;
		if (first < end)
			next = o->list[end - 1].source + 1;
	}
}

/* In any order. */
static int number_components(
		struct ff_overlaps *o, uint32_t together, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_grid_axis *s = o->side[0], *t = o->side[1];
	uint32_t n = s->n + t->n;
	uint32_t *set = ff_arena_array(a, n, sizeof(*set));
	uint32_t *name = ff_arena_array(a, n, sizeof(*name));

	if (!set || !name)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		set[i] = i;
		name[i] = FF_NONE;
	}
	for (uint32_t j = 0; j < t->n; j++) {
		for (uint32_t k = o->first[j]; k < o->first[j + 1]; k++)
			set[find(set, o->list[k].source)] = find(set, s->n + j);
		if (j % together)
			set[find(set, s->n + j - 1)] = find(set, s->n + j);
	}
	for (uint32_t i = 0; i < s->n; i++)
		o->component[0][i] = FF_NONE;
	for (uint32_t j = 0; j < t->n; j++) {
		uint32_t root = find(set, s->n + j);

		if (name[root] == FF_NONE && !is_empty(t, j))
			name[root] = o->n_components++;
		o->component[1][j] = is_empty(t, j) ? FF_NONE : name[root];
		for (uint32_t k = o->first[j]; k < o->first[j + 1]; k++)
			o->component[0][o->list[k].source] = o->component[1][j];
	}
	return FF_OK;
}

/* Sorts coordinates by component. */
static int list_members(struct ff_overlaps *o, struct ff_arena *a, struct ff_error *err)
{
	for (int side = 0; side < 2; side++) {
		const uint32_t *component = o->component[side];
		uint32_t n = o->side[side]->n, *begin, *member;

		begin = ff_arena_array(a, (size_t)o->n_components + 2, sizeof(*begin));
		member = ff_arena_array(a, n, sizeof(*member));
		if (!begin || !member)
			return ff_fail_memory(err);
		o->begin[side] = begin++;
		o->member[side] = member;
		for (uint32_t i = 0; i < n; i++)
			if (component[i] != FF_NONE)
				begin[component[i] + 1]++;
		for (uint32_t c = 0; c < o->n_components; c++)
			begin[c + 1] += begin[c];
		/* begin[c] moves on to where the next component begins */
		for (uint32_t i = 0; i < n; i++)
			if (component[i] != FF_NONE)
				member[begin[component[i]]++] = i;
	}
	return FF_OK;
}

/* One interval on either side. */
static void find_uncut(struct ff_overlaps *o)
{
	const struct ff_grid_axis *s = o->side[0], *t = o->side[1];
	int32_t lo = s->lo[0] > t->lo[0] ? s->lo[0] : t->lo[0];
	int32_t hi = s->hi[0] < t->hi[0] ? s->hi[0] : t->hi[0];
	bool meet = hi > lo, empty = is_empty(t, 0);

	o->uncut.first[0] = 0;
	o->uncut.first[1] = meet;
	o->uncut.list = (struct ff_overlap){0, lo, hi};
	o->uncut.component[0] = meet ? 0 : FF_NONE;
	o->uncut.component[1] = empty ? FF_NONE : 0;
	o->uncut.hole = !empty && (!meet || lo > t->lo[0] || hi < t->hi[0]);
	o->uncut.twice = false;
	o->first = o->uncut.first;
	o->list = &o->uncut.list;
	o->component[0] = &o->uncut.component[0];
	o->component[1] = &o->uncut.component[1];
	for (int side = 0; side < 2; side++) {
		o->uncut.begin[side][0] = 0;
		o->uncut.begin[side][1] = o->uncut.component[side] != FF_NONE;
		o->begin[side] = o->uncut.begin[side];
		o->member[side] = &o->uncut.member;
	}
	o->uncut.member = 0;
	o->hole = &o->uncut.hole;
	o->twice = &o->uncut.twice;
	o->n_components = !empty;
}

static int find_cut(
		struct ff_overlaps *o, uint32_t together, struct ff_arena *a, struct ff_error *err)
{
	const struct ff_grid_axis *source = o->side[0], *sink = o->side[1];
	uint32_t n = source->n + sink->n;
	int code = FF_OK;

	o->first = ff_arena_array(a, sink->n + 1, sizeof(*o->first));
	o->list = ff_arena_array(a, walk(source, sink, NULL, NULL), sizeof(*o->list));
	o->component[0] = ff_arena_array(a, n, sizeof(**o->component));
	o->hole = ff_arena_array(a, 2 * (size_t)sink->n, sizeof(*o->hole));
	if (!o->first || !o->list || !o->component[0] || !o->hole)
		return ff_fail_memory(err);
	o->component[1] = o->component[0] + source->n;
	o->twice = o->hole + sink->n;
	walk(source, sink, o->first, o->list);
	for (uint32_t j = 0; j < sink->n; j++)
		cover(o, j);
	if (source->sorted && sink->sorted)
		number_sorted(o, together);
	else
		code = number_components(o, together, a, err);
	return code == FF_OK ? list_members(o, a, err) : code;
}

int ff_overlaps_find(const struct ff_grid_axis *source, const struct ff_grid_axis *sink,
		uint32_t together, struct ff_arena *a, struct ff_overlaps *ret,
		struct ff_error *err)
{
	ret->side[0] = source;
	ret->side[1] = sink;
	ret->n_components = 0;
	if (source->n > 1 || sink->n > 1)
		return find_cut(ret, together, a, err);
	find_uncut(ret);
	return FF_OK;
}
