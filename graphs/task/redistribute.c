/* Redistribution: what moves when the regions that an operator writes differ
 * from those that the next one reads.  Both sides are grids of intervals, so
 * they meet axis by axis, and what hangs together is a product of what hangs
 * together along each axis.  Each such component becomes one task, recognised
 * as a collective where its regions have that shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include "redistribute.h"

#include <string.h>

enum { SOURCE, SINK };

/* Walks the cells of one component, or all (`component` NULL) with a region
 * that is not empty.  Start with started = false. */
struct cells {
	const struct ff_scene *s;
	int side;
	const uint32_t *component; /* by axis */
	struct ff_cell at;
	uint32_t next[FF_MAX_RANK]; /* by axis: where to look on */
	bool started;
};

/* Goes to the next coordinate of `axis`; false: there is none. */
static bool advance(struct cells *w, uint32_t axis)
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
static bool next_cell(struct cells *w)
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

/* The part with a cell's region that is copy `c` and replica `r`. */
static uint32_t part_of(const struct ff_scene *s, int side, const struct ff_cell *cell, uint32_t c,
		uint32_t r)
{
	const struct ff_placement *p = s->side[side].place;

	return cell->part + p->copy[c] + r * p->cells;
}

/* Of a source's replicas, the one that serves `sink`: on its own device, else
 * in its node, else any; several sinks take turns. */
static uint32_t choose_replica(const struct ff_scene *s, uint32_t source, uint32_t sink)
{
	const struct ff_placement *p = s->side[SOURCE].place;
	const uint16_t *device = s->side[SOURCE].device;
	uint32_t home = s->side[SINK].device[sink], node = s->m->node_of[home], near = 0, turn;

	if (p->replicas == 1)
		return source;
	for (uint32_t r = 0; r < p->replicas; r++) {
		if (device[source + r * p->cells] == home)
			return source + r * p->cells;
		near += s->m->node_of[device[source + r * p->cells]] == node;
	}
	turn = sink % (near ? near : p->replicas);
	for (uint32_t r = 0; r < p->replicas; r++) {
		if (near && s->m->node_of[device[source + r * p->cells]] != node)
			continue;
		if (turn-- == 0)
			return source + r * p->cells;
	}
	return source;
}

/* The source cell that is exactly `sink`'s region, if there is one. */
static bool equal_cell(const struct ff_scene *s, const struct ff_cell *sink, struct ff_cell *ret)
{
	ret->part = 0;
	for (uint32_t i = 0; i < s->rank; i++) {
		const struct ff_overlaps *o = &s->axis[i];
		const struct ff_grid_axis *from = o->side[SOURCE], *to = o->side[SINK];
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
	const struct ff_placement *from = s->side[SOURCE].place, *to = s->side[SINK].place;
	struct cells w = {.s = s, .side = SINK};
	struct ff_cell cell;

	if (!s->first || from->n_copies > 1)
		return;
	while (next_cell(&w)) {
		if (!equal_cell(s, &w.at, &cell))
			continue;
		for (uint32_t c = 0; c < to->n_copies; c++)
			for (uint32_t r = 0; r < to->replicas; r++) {
				uint32_t sink = part_of(s, SINK, &w.at, c, r);
				uint32_t source = choose_replica(
						s, part_of(s, SOURCE, &cell, 0, 0), sink);

				if (s->side[SOURCE].device[source] == s->side[SINK].device[sink])
					alias[sink] = source;
			}
	}
}

/* ---- one component ---- */

static void enter(struct ff_scene *s, int side, uint32_t part)
{
	uint32_t device = s->side[side].device[part];

	if (s->at[side][device] != FF_NO_PART)
		return;
	s->at[side][device] = (uint16_t)part;
	s->member[device / 64] |= UINT64_C(1) << (device % 64);
	s->n_parts[side]++;
}

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
		s->at[SOURCE][s->device[i]] = s->at[SINK][s->device[i]] = FF_NO_PART;
		s->member[s->device[i] / 64] = 0;
		s->tally[s->device[i]] = (struct ff_tally){0};
	}
	s->n_parts[SOURCE] = s->n_parts[SINK] = 0;
}

static void enter_all(
		struct ff_scene *s, int side, const uint32_t *component, const uint32_t *alias)
{
	const struct ff_placement *p = s->side[side].place;
	struct cells w = {.s = s, .side = side, .component = component};

	while (next_cell(&w))
		for (uint32_t c = 0; c < p->n_copies; c++)
			for (uint32_t r = 0; r < p->replicas; r++) {
				uint32_t part = part_of(s, side, &w.at, c, r);

				if (!alias || alias[part] == FF_NONE)
					enter(s, side, part);
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
	if (s->n_parts[SOURCE] != s->n_parts[SINK])
		return false;
	for (uint32_t i = 0; i < s->n_devices; i++)
		if (s->at[SOURCE][s->device[i]] == FF_NO_PART ||
				s->at[SINK][s->device[i]] == FF_NO_PART)
			return false;
	return true;
}

/* What the regions look like if every device has one source and one sink;
 * messages where they look like nothing better. */
static enum ff_move_kind recognise(
		struct ff_scene *s, const uint32_t *component, struct ff_region *whole)
{
	const struct ff_placement *from = s->side[SOURCE].place, *to = s->side[SINK].place;
	uint32_t copies = to->n_copies * to->replicas;
	struct extent e[2];
	bool equal;

	measure(s, SOURCE, component, &e[SOURCE]);
	measure(s, SINK, component, &e[SINK]);
	equal = ff_region_equal(&e[SOURCE].box, &e[SINK].box);
	if (!equal || from->replicas > 1 || s->n_parts[SINK] < 2 || !same_devices(s))
		return FF_MOVE_POINT_TO_POINT;
	*whole = e[SOURCE].box;
	if (e[SOURCE].n == 1 && e[SINK].n == 1 && from->n_copies > 1)
		return FF_MOVE_ALL_REDUCE;
	if (e[SOURCE].n == 1 && e[SINK].tiles && copies == 1)
		return FF_MOVE_REDUCE_SCATTER;
	if (e[SINK].n == 1 && e[SOURCE].tiles && from->n_copies == 1)
		return FF_MOVE_ALL_GATHER;
	return FF_MOVE_POINT_TO_POINT;
}

/* Pairs of a component, growing. */
struct pairs {
	struct ff_pair *pair;
	uint32_t n, cap;
	uint32_t n_all;  /* those that are only counted among them */
	uint32_t n_home; /* of all: more than half of the sink, on its own device */
};

static struct ff_pair *push(struct ff_scene *s, struct pairs *p)
{
	if (p->n == p->cap) {
		uint32_t cap = p->cap ? 2 * p->cap : 64;
		struct ff_pair *grown = ff_arena_array(s->scratch, cap, sizeof(*grown));

		if (!grown)
			return NULL;
		if (p->n)
			memcpy(grown, p->pair, p->n * sizeof(*grown));
		p->pair = grown;
		p->cap = cap;
	}
	return &p->pair[p->n++];
}

/* Lists the source cells that meet `sink`, axis by axis; returns how many. */
static uint32_t list_reaches(struct ff_scene *s, const struct ff_cell *sink)
{
	uint32_t n = 1;

	s->reach[0] = (struct ff_reach){.bytes = s->size};
	for (uint32_t i = 0; i < s->rank; i++) {
		const struct ff_overlaps *o = &s->axis[i];
		const struct ff_grid_axis *from = o->side[SOURCE], *to = o->side[SINK];
		const struct ff_overlap *list = o->list + o->first[sink->at[i]];
		uint32_t m = ff_overlaps_count(o, sink->at[i]);
		int32_t wanted = to->hi[sink->at[i]] - to->lo[sink->at[i]];
		uint8_t bit = (uint8_t)(1u << s->depth[i]);

		for (uint32_t j = n; j-- > 0;) {
			const struct ff_reach r = s->reach[j];

			for (uint32_t k = m; k-- > 0;) {
				struct ff_reach *x = &s->reach[(size_t)j * m + k];
				uint32_t at = list[k].source;
				int32_t size = list[k].hi - list[k].lo;

				*x = r;
				x->part += from->part[at];
				x->bytes *= size;
				x->many |= size > 1 ? bit : 0;
				x->cut[SOURCE] |= size < from->hi[at] - from->lo[at] ? bit : 0;
				x->cut[SINK] |= size < wanted ? bit : 0;
			}
		}
		n *= m;
	}
	return n;
}

/* Copy `c` of a source cell at hand as a pair with `sink`. */
static void make_pair(const struct ff_scene *s, const struct ff_reach *r, uint32_t c, uint32_t sink,
		struct ff_pair *ret)
{
	const struct ff_placement *from = s->side[SOURCE].place;
	uint32_t part = choose_replica(s, r->part + from->copy[c], sink);

	ret->source = (uint16_t)part;
	ret->sink = (uint16_t)sink;
	ret->from = s->side[SOURCE].device[part];
	ret->to = s->side[SINK].device[sink];
	ret->whole_source = ff_reach_is_run(r, SOURCE);
	ret->whole_sink = ff_reach_is_run(r, SINK);
	ret->bytes = r->bytes;
}

/* Of several pairs that cover elements of one sink, the one that covers it alone and
 * is written first (at home, if such a one is); FF_NONE: there is none. */
static uint32_t find_base(const struct ff_scene *s, uint32_t n, uint32_t sink)
{
	uint32_t copies = s->side[SOURCE].place->n_copies, base = FF_NONE, device = UINT32_MAX;

	for (uint32_t i = 0; i < n * copies; i++) {
		const struct ff_reach *r = &s->reach[i / copies];
		struct ff_pair x;

		if (r->cut[SINK])
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

static int keep_pair(
		struct ff_scene *s, const struct ff_pair *x, struct pairs *p, struct ff_error *err)
{
	struct ff_region from, to;
	struct ff_pair *new = push(s, p);

	if (!new)
		return ff_fail_memory(err);
	*new = *x;
	ff_placement_region(s->side[SOURCE].place, x->source, &from);
	ff_placement_region(s->side[SINK].place, x->sink, &to);
	ff_region_intersect(&from, &to, &new->region);
	return FF_OK;
}

/* All pieces of one sink part, from the `n` source cells at hand.  Where several cover
 * an element they are added: to the base, else to the reduction of nothing. */
static int pair_sink(struct ff_scene *s, const struct ff_cell *cell, uint32_t n, uint32_t sink,
		struct pairs *p, struct ff_error *err)
{
	uint32_t copies = s->side[SOURCE].place->n_copies, base = FF_NONE;
	int64_t volume = ff_cell_volume(s, SINK, cell) * s->size;
	bool twice = copies > 1, hole = false;
	int code = FF_OK;

	for (uint32_t i = 0; i < s->rank; i++) {
		twice = twice || s->axis[i].twice[cell->at[i]];
		hole = hole || s->axis[i].hole[cell->at[i]];
	}
	if (twice && s->first)
		base = find_base(s, n, sink);
	for (uint32_t i = 0; i < n * copies && code == FF_OK; i++) {
		struct ff_pair x;

		make_pair(s, &s->reach[i / copies], i % copies, sink, &x);
		x.add = (twice || !s->first) && i != base;
		p->n_home += x.from == x.to && 2 * x.bytes > volume;
		enter(s, SOURCE, x.source);
		if (s->pieces)
			code = keep_pair(s, &x, p, err);
		else
			ff_move_count(s, &x, NULL);
	}
	p->n_all += n * copies;
	s->fill[sink] = s->first && (twice ? base == FF_NONE : hole);
	return code;
}

static int pair_all(struct ff_scene *s, const uint32_t *component, const uint32_t *alias,
		struct pairs *p, struct ff_error *err)
{
	const struct ff_placement *to = s->side[SINK].place;
	struct cells w = {.s = s, .side = SINK, .component = component};
	int code = FF_OK;

	while (next_cell(&w)) {
		uint32_t n = list_reaches(s, &w.at);

		for (uint32_t c = 0; c < to->n_copies; c++)
			for (uint32_t r = 0; r < to->replicas && code == FF_OK; r++) {
				uint32_t sink = part_of(s, SINK, &w.at, c, r);

				if (alias[sink] == FF_NONE)
					code = pair_sink(s, &w.at, n, sink, p, err);
			}
	}
	return code;
}

static enum ff_move_kind name_messages(const struct ff_scene *s, const struct pairs *p)
{
	bool same = same_devices(s);

	if (s->n_devices == 1)
		return FF_MOVE_COPY;
	if (p->n_home == s->n_parts[SINK])
		return FF_MOVE_HALO;
	if (same && p->n_all == s->n_parts[SOURCE] * s->n_parts[SINK])
		return FF_MOVE_ALL_TO_ALL;
	return FF_MOVE_POINT_TO_POINT;
}

/* The sinks that stand in s->at, and whoever has elements for them. */
static int build_messages(
		struct ff_scene *s, struct pairs *p, struct ff_move *mv, struct ff_error *err)
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
	if (m->n == m->cap) {
		uint32_t cap = 2 * m->cap;
		struct ff_move *grown = ff_arena_array(s->arena, cap, sizeof(*grown));

		if (!grown)
			return NULL;
		if (m->n)
			memcpy(grown, m->move, m->n * sizeof(*grown));
		m->move = grown;
		m->cap = cap;
	}
	m->move[m->n] = (struct ff_move){.type = s->type,
			.accumulate = !s->first,
			.reduce = s->side[SOURCE].place->reduce};
	return &m->move[m->n++];
}

/* Sinks that no source reaches: each is zeroed where it lies. */
static int fill_sinks(struct ff_scene *s, const uint32_t *component, struct moves *m,
		struct ff_error *err)
{
	struct pairs p = {0};
	const struct ff_placement *to = s->side[SINK].place;
	struct cells w = {.s = s, .side = SINK, .component = component};
	int code = FF_OK;

	while (s->first && next_cell(&w))
		for (uint32_t k = 0; k < to->n_copies * to->replicas && code == FF_OK; k++) {
			uint32_t part = part_of(s, SINK, &w.at, k % to->n_copies, k / to->n_copies);
			struct ff_move *mv = new_move(s, m);

			if (!mv)
				return ff_fail_memory(err);
			s->fill[part] = 1;
			enter(s, SINK, part);
			code = build_messages(s, &p, mv, err);
			forget(s);
		}
	return code;
}

static bool has_sources(const struct ff_scene *s, const uint32_t *component)
{
	for (uint32_t i = 0; i < s->rank; i++) {
		uint32_t n;

		ff_overlaps_members(&s->axis[i], SOURCE, component[i], &n);
		if (!n)
			return false;
	}
	return true;
}

static int build_component(struct ff_scene *s, const uint32_t *component, const uint32_t *alias,
		struct moves *m, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(s->scratch);
	enum ff_move_kind kind;
	struct ff_region whole;
	struct pairs p = {0};
	struct ff_move *mv;
	int code;

	if (!has_sources(s, component))
		return fill_sinks(s, component, m, err);
	enter_all(s, SINK, component, alias);
	if (!s->n_parts[SINK])
		return FF_OK;
	enter_all(s, SOURCE, component, NULL);
	list_devices(s);
	kind = recognise(s, component, &whole);
	mv = new_move(s, m);
	if (!mv)
		return ff_fail_memory(err);
	if (kind != FF_MOVE_POINT_TO_POINT) {
		code = ff_move_collective(s, kind, &whole, mv, err);
	} else if (ff_bulk_count(s, component, &p.n_all, &p.n_home)) {
		code = build_messages(s, &p, mv, err);
	} else {
		forget(s);
		enter_all(s, SINK, component, alias);
		code = pair_all(s, component, alias, &p, err);
		if (code == FF_OK)
			code = build_messages(s, &p, mv, err);
	}
	forget(s);
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

static bool same_axis(const struct ff_grid_axis *x, const struct ff_grid_axis *y)
{
	bool same = x->n == y->n && !memcmp(x->lo, y->lo, x->n * sizeof(*x->lo)) &&
		    !memcmp(x->hi, y->hi, x->n * sizeof(*x->hi)) &&
		    !memcmp(x->part, y->part, x->n * sizeof(*x->part));

	/* intervals that follow each other; others might be covered twice */
	for (uint32_t k = 1; k < x->n && same; k++)
		same = x->lo[k] == x->hi[k - 1];
	return same;
}

/* Both sides are cut alike on the same devices: the usual case in a chain. */
static bool is_identity(const struct ff_side *source, const struct ff_side *sink)
{
	const struct ff_placement *a = source->place, *b = sink->place;
	bool same = a->n_parts == b->n_parts && a->replicas == b->replicas && a->n_copies == 1 &&
		    b->n_copies == 1 &&
		    !memcmp(source->device, sink->device, a->n_parts * sizeof(*source->device));

	for (uint32_t i = 0; i < a->rank && same; i++)
		same = same_axis(&a->axis[i], &b->axis[i]);
	return same;
}

static int allocate(struct ff_scene *s, struct ff_error *err)
{
	const struct ff_placement *from = s->side[SOURCE].place;
	uint32_t n = s->m->n_devices;
	size_t cells = 1;

	for (uint32_t i = 0; i < s->rank; i++) {
		cells *= from->axis[i].n;
		s->depth[from->order[i]] = (uint8_t)i;
	}
	for (int side = 0; side < 2; side++) {
		s->at[side] = ff_arena_array(s->scratch, n, sizeof(**s->at));
		if (!s->at[side])
			return ff_fail_memory(err);
		memset(s->at[side], 0xff, n * sizeof(**s->at));
	}
	s->member = ff_arena_array(s->scratch, (n + 63) / 64, sizeof(*s->member));
	s->device = ff_arena_array(s->scratch, n, sizeof(*s->device));
	s->tally = ff_arena_array(s->scratch, n, sizeof(*s->tally));
	s->fill = ff_arena_array(s->scratch, s->side[SINK].place->n_parts, sizeof(*s->fill));
	s->reach = ff_arena_array(s->scratch, cells, sizeof(*s->reach));
	return s->member && s->device && s->tally && s->fill && s->reach ? FF_OK
									 : ff_fail_memory(err);
}

static int find_all(struct ff_scene *s, uint32_t *alias, struct moves *m, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < s->rank && code == FF_OK; i++) {
		const struct ff_grid_axis *from = &s->side[SOURCE].place->axis[i];
		const struct ff_grid_axis *to = &s->side[SINK].place->axis[i];

		code = ff_overlaps_find(from, to, s->scratch, &s->axis[i], err);
		if (from->n > 1 || to->n > 1)
			s->cut[s->n_cut++] = i;
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

static enum ff_dtype type_of(const struct ff_side *s)
{
	return s->gradients ? s->place->gradient : s->place->type;
}

int ff_redistribute(const struct ff_machine *m, const struct ff_side *source,
		const struct ff_side *sink, bool first, bool pieces, struct ff_arena *a,
		struct ff_arena *scratch, struct ff_redistribution *ret, struct ff_error *err)
{
	struct ff_scene s = {.m = m,
			.side = {*source, *sink},
			.first = first,
			.pieces = pieces,
			.type = type_of(source),
			.size = ff_dtype_bytes(type_of(source)),
			.rank = source->place->rank,
			.arena = a,
			.scratch = scratch};
	uint32_t n = sink->place->n_parts;
	uint32_t *alias = ff_arena_array(a, n, sizeof(*alias));
	bool identity = first && is_identity(source, sink);
	struct ff_arena_mark mark = ff_arena_mark(scratch);
	struct moves moves = {0};
	int code = FF_OK;

	if (!alias)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		alias[i] = identity ? i : FF_NONE;
	if (!identity)
		code = find_all(&s, alias, &moves, err);
	ff_arena_rewind(scratch, mark);
	if (code == FF_OK)
		*ret = (struct ff_redistribution){moves.n, moves.move, alias};
	return code;
}
