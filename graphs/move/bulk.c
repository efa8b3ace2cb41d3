/* Many messages, counted without looking at each.  What one part sends or receives is
 * a product over the axes: along each axis its interval meets others in few different
 * ways.  Only what stays on a device or in a node is found part by part.
 * SPDX-License-Identifier: Apache-2.0 */
#include "bulk.h"

#define MOST_WAYS 4   /* in which one interval meets others */
#define MOST_SUMS 256 /* of them, all axes together */
#define WORTH 2       /* so many pairs a part */

/* How a coordinate meets some of the other side. */
struct way {
	int32_t size; /* of what they share */
	bool cuts;    /* the other side has more */
	uint32_t n;   /* coordinates */
};
struct ff_bulk {
	uint32_t n;
	struct way way[MOST_WAYS];
	uint32_t like; /* the first coordinate that is as long and meets others alike */
};

/* What one part exchanges with all others, or some. */
struct sum {
	int64_t bytes, stage, packed;
	uint32_t n;
};

static bool add_way(struct ff_bulk *b, int32_t size, bool cuts)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (b->way[i].size == size && b->way[i].cuts == cuts) {
			b->way[i].n++;
			return true;
		}
	if (b->n == MOST_WAYS)
		return false;
	b->way[b->n++] = (struct way){size, cuts, 1};
	return true;
}

static int32_t size_of(const struct ff_grid_axis *g, uint32_t i)
{
	return g->hi[i] - g->lo[i];
}

static bool list_ways(const struct ff_overlaps *o, struct ff_bulk *source, struct ff_bulk *sink)
{
	bool few = true;

	for (uint32_t j = 0; j < o->side[1]->n && few; j++)
		for (uint32_t k = o->first[j]; k < o->first[j + 1] && few; k++) {
			uint32_t i = o->list[k].source;
			int32_t size = o->list[k].hi - o->list[k].lo;

			few = add_way(&source[i], size, size < size_of(o->side[1], j)) &&
			      add_way(&sink[j], size, size < size_of(o->side[0], i));
		}
	return few;
}

static bool is_like(const struct ff_grid_axis *g, const struct ff_bulk *b, uint32_t i, uint32_t k)
{
	if (size_of(g, i) != size_of(g, k) || b[i].n != b[k].n)
		return false;
	for (uint32_t w = 0; w < b[i].n; w++) {
		const struct way *x = &b[i].way[w], *y = &b[k].way[w];

		if (x->size != y->size || x->cuts != y->cuts || x->n != y->n)
			return false;
	}
	return true;
}

/* Neighbours mostly are alike. */
static void find_alike(const struct ff_grid_axis *g, struct ff_bulk *b)
{
	for (uint32_t i = 0; i < g->n; i++)
		b[i].like = i && is_like(g, b, i - 1, i) ? b[i - 1].like : i;
}

int ff_bulk_prepare(struct ff_scene *s, struct ff_error *err)
{
	const struct ff_placement *from = s->side[0].place, *to = s->side[1].place;
	uint64_t pairs = (uint64_t)from->n_copies * to->n_copies * to->replicas;
	bool few = true;

	for (uint32_t c = 0; c < s->n_cut; c++)
		pairs *= s->axis[s->cut[c]].first[s->axis[s->cut[c]].side[1]->n];
	s->bulk = !s->pieces && !s->codec && from->replicas == 1 && !s->apart &&
		  pairs > WORTH * (uint64_t)(from->n_parts + to->n_parts);
	for (uint32_t c = 0; c < s->n_cut && s->bulk && few; c++) {
		uint32_t i = s->cut[c];

		for (int side = 0; side < 2; side++) {
			s->ways[side][i] = ff_arena_array(s->scratch, s->axis[i].side[side]->n,
					sizeof(struct ff_bulk));
			if (!s->ways[side][i])
				return ff_fail_memory(err);
		}
		few = list_ways(&s->axis[i], s->ways[0][i], s->ways[1][i]);
		for (int side = 0; side < 2 && few; side++)
			find_alike(s->axis[i].side[side], s->ways[side][i]);
	}
	s->bulk = s->bulk && few;
	return FF_OK;
}

/* Whether what sinks are sent is added to what is there. */
static bool adds(const struct ff_scene *s)
{
	return !s->first || s->side[0].place->n_copies > 1;
}

/* Adds `n` pairs like `r`, as `side` has them. */
static void add(const struct ff_scene *s, int side, const struct ff_reach *r, uint32_t n,
		struct sum *ret)
{
	ret->n += n;
	ret->bytes += n * r->bytes;
	if (!(side == 1 && adds(s)) && ff_reach_is_run(r, side))
		return;
	ret->stage += n * ff_align64(r->bytes);
	ret->packed += n * r->bytes;
}

/* All that `part` exchanges with the other side, of which each cell counts `times`;
 * false: in too many ways. */
static bool sum_all(
		const struct ff_scene *s, int side, uint32_t part, uint32_t times, struct sum *ret)
{
	struct {
		struct ff_reach r;
		uint32_t n;
	} list[MOST_SUMS] = {{s->base, times}};
	uint32_t n = 1;

	for (uint32_t c = 0; c < s->n_cut; c++) {
		uint32_t i = s->cut[c];
		uint32_t at = ff_placement_coordinate(s->side[side].place, i, part);
		const struct ff_bulk *b = &s->ways[side][i][at];
		int32_t own = size_of(s->axis[i].side[side], at);

		if (n * b->n > MOST_SUMS)
			return false;
		for (uint32_t j = n; j-- > 0;) {
			const struct ff_reach was = list[j].r;
			uint32_t count = list[j].n;

			for (uint32_t k = b->n; k-- > 0;) {
				const struct way *w = &b->way[k];

				list[j * b->n + k].r = was;
				list[j * b->n + k].n = count * w->n;
				ff_reach_extend(s, i, side, w->size, w->size < own, w->cuts,
						&list[j * b->n + k].r);
			}
		}
		n *= b->n;
	}
	for (uint32_t j = 0; j < n; j++)
		add(s, side, &list[j].r, list[j].n, ret);
	return true;
}

/* What a source part and a sink part share; false: nothing. */
static bool meet(const struct ff_scene *s, uint32_t source, uint32_t sink, struct ff_reach *ret)
{
	*ret = s->base;
	for (uint32_t c = 0; c < s->n_cut; c++) {
		uint32_t i = s->cut[c];
		const struct ff_grid_axis *x = s->axis[i].side[0], *y = s->axis[i].side[1];
		uint32_t a = ff_placement_coordinate(s->side[0].place, i, source);
		uint32_t b = ff_placement_coordinate(s->side[1].place, i, sink);
		int32_t lo = x->lo[a] > y->lo[b] ? x->lo[a] : y->lo[b];
		int32_t hi = x->hi[a] < y->hi[b] ? x->hi[a] : y->hi[b];

		if (hi <= lo)
			return false;
		ff_reach_extend(s, i, 0, hi - lo, hi - lo < size_of(x, a), hi - lo < size_of(y, b),
				ret);
	}
	return true;
}

/* What the part of `side` on `device` exchanges with its own device and its node. */
static void sum_near(const struct ff_scene *s, int side, uint32_t device, struct sum *own,
		struct sum *inside)
{
	const struct ff_machine_node *node = &s->m->nodes[s->m->node_of[device]];
	uint32_t part = s->at[side][device];

	for (uint32_t d = node->first; d < node->first + node->count; d++) {
		uint32_t other = s->at[!side][d];
		struct ff_reach r;

		if (other != FF_NO_PART && meet(s, side ? other : part, side ? part : other, &r))
			add(s, side, &r, 1, d == device ? own : inside);
	}
}

static void put(struct ff_scene *s, int side, uint32_t device, const struct sum *all,
		const struct sum *own, const struct sum *inside)
{
	struct ff_tally *t = &s->tally[device];
	int64_t outside = all->bytes - own->bytes - inside->bytes;

	if (side == 0) {
		t->traffic.n_sent = all->n - own->n;
		t->traffic.sent_inside = inside->bytes;
		t->traffic.sent_outside = outside;
		t->send_stage = all->stage - own->stage;
		t->copied += all->packed - own->packed;
		return;
	}
	t->traffic.n_received = all->n - own->n;
	t->traffic.received_inside = inside->bytes;
	t->traffic.received_outside = outside;
	t->receive_stage = all->stage - own->stage;
	*(adds(s) ? &t->added : &t->copied) += all->packed - own->packed + own->bytes;
}

/* Of copies that are to be added one is taken as it is where they cover the sink: that
 * at home, if there is one. */
static bool take_base(struct ff_scene *s, uint32_t sink, bool at_home)
{
	struct ff_tally *t = &s->tally[s->side[1].device[sink]];
	int64_t bytes = s->base.bytes;

	if (s->base.cut[1])
		return false;
	for (uint32_t c = 0; c < s->n_cut; c++) {
		uint32_t i = s->cut[c];
		const struct ff_overlaps *o = &s->axis[i];
		uint32_t at = ff_placement_coordinate(s->side[1].place, i, sink);
		const struct ff_overlap *x = &o->list[o->first[at]];

		if (ff_overlaps_count(o, at) != 1 || x->hi - x->lo < size_of(o->side[1], at))
			return false;
		bytes *= x->hi - x->lo;
	}
	t->added -= bytes;
	if (at_home)
		t->copied += bytes;
	else
		t->receive_stage -= ff_align64(bytes);
	return true;
}

/* Says what is to be zeroed; false: elements are covered by several cells. */
static bool finish_sink(struct ff_scene *s, uint32_t sink, bool at_home)
{
	bool hole = s->hole;

	for (uint32_t c = 0; c < s->n_cut && s->first; c++) {
		uint32_t i = s->cut[c];
		uint32_t at = ff_placement_coordinate(s->side[1].place, i, sink);

		if (s->axis[i].twice[at])
			return false;
		hole = hole || s->axis[i].hole[at];
	}
	s->fill[sink] = s->first && (adds(s) ? !take_base(s, sink, at_home) : hole);
	return true;
}

static void clear(struct ff_scene *s)
{
	for (uint32_t i = 0; i < s->n_devices; i++)
		s->tally[s->device[i]] = (struct ff_tally){0};
}

/* The sum of the part looked at last: those of one component are mostly alike. */
struct last {
	uint32_t like[FF_MAX_RANK];
	bool valid;
	struct sum sum;
};

static bool find_sum(const struct ff_scene *s, int side, uint32_t part, uint32_t times,
		struct last *last)
{
	bool same = last->valid;

	for (uint32_t c = 0; c < s->n_cut; c++) {
		uint32_t i = s->cut[c];
		uint32_t at = ff_placement_coordinate(s->side[side].place, i, part);
		uint32_t like = s->ways[side][i][at].like;

		same = same && like == last->like[i];
		last->like[i] = like;
	}
	if (same)
		return true;
	last->sum = (struct sum){0};
	last->valid = sum_all(s, side, part, times, &last->sum);
	return last->valid;
}

/* All that the part of `side` on `device` does; false: it cannot be told. */
static bool count_part(struct ff_scene *s, int side, uint32_t device, struct last *last,
		uint32_t *n_all, uint32_t *n_home)
{
	const struct ff_placement *other = s->side[!side].place;
	uint32_t part = s->at[side][device];
	struct sum own = {0}, inside = {0};
	struct ff_region sink;

	if (part == FF_NO_PART)
		return true;
	if (!find_sum(s, side, part, other->n_copies * other->replicas, last))
		return false;
	sum_near(s, side, device, &own, &inside);
	put(s, side, device, &last->sum, &own, &inside);
	if (side == 0)
		return true;
	*n_all += last->sum.n;
	ff_placement_region(s->side[1].place, part, &sink);
	*n_home += 2 * own.bytes > ff_region_volume(&sink) * s->size;
	return finish_sink(s, part, own.n > 0);
}

bool ff_bulk_count(struct ff_scene *s, const uint32_t *component, uint32_t *n_all, uint32_t *n_home)
{
	uint32_t sinks = s->side[1].place->n_copies * s->side[1].place->replicas;
	uint32_t all = 0, home = 0;
	struct last last[2] = {0};

	for (uint32_t i = 0; i < s->rank; i++) {
		uint32_t n;

		ff_overlaps_members(&s->axis[i], 1, component[i], &n);
		sinks *= n;
	}
	/* all sinks must take part, none be an alias */
	if (!s->bulk || s->n_parts[1] != sinks)
		return false;
	for (uint32_t i = 0; i < s->n_devices; i++)
		for (int side = 0; side < 2; side++)
			if (!count_part(s, side, s->device[i], &last[side], &all, &home)) {
				clear(s);
				return false;
			}
	*n_all = all;
	*n_home = home;
	return true;
}
