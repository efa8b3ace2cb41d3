/* Redistribution: what moves when the regions that an operator writes differ
 * from those that the next one reads.  Overlapping regions are intersected;
 * each connected component becomes one task, recognised as a collective where
 * its regions have that shape.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"

#include <stdlib.h>
#include <string.h>

/* A source and a sink that share elements. */
struct pair {
	uint32_t source, sink; /* ranks by device, not part numbers */
	struct ff_region region;
	int64_t volume;
};

/* The two sides with their parts sorted by device, and all pairs, by source
 * then sink. */
struct scene {
	const struct ff_side *side[2];
	uint32_t *by_device[2]; /* rank -> part */
	uint32_t n_pairs;
	struct pair *pair;
	uint32_t *set; /* union-find over source ranks, then sink ranks */
	bool first;
	struct ff_arena *arena; /* for what stays */
};

/* The parts of one component that are not aliased, as ranks. */
struct component {
	uint32_t n[2];
	uint32_t *rank[2];
	uint32_t *place[2]; /* by rank: of its device among the move's */
	uint32_t n_pairs;
	struct pair *pair; /* by source then sink */
};

static const struct ff_region *region_of(const struct scene *s, int side, uint32_t rank)
{
	return &s->side[side]->region[s->by_device[side][rank]];
}

static uint16_t device_of(const struct scene *s, int side, uint32_t rank)
{
	return s->side[side]->device[s->by_device[side][rank]];
}

static uint32_t *sort_by_device(const struct ff_side *side, struct ff_arena *a)
{
	uint32_t *list = ff_arena_array(a, side->n, sizeof(*list));

	if (!list)
		return NULL;
	for (uint32_t i = 0; i < side->n; i++) {
		uint32_t at = i;

		/* device lists are nearly always ascending already */
		for (; at && side->device[list[at - 1]] > side->device[i]; at--)
			list[at] = list[at - 1];
		list[at] = i;
	}
	return list;
}

static uint32_t find(uint32_t *set, uint32_t i)
{
	while (set[i] != i)
		i = set[i] = set[set[i]];
	return i;
}

static int find_pairs(struct scene *s, struct ff_arena *scratch, struct ff_error *err)
{
	uint32_t ns = s->side[0]->n, nk = s->side[1]->n, cap = ns + nk + 16;

	s->by_device[0] = sort_by_device(s->side[0], scratch);
	s->by_device[1] = sort_by_device(s->side[1], scratch);
	s->set = ff_arena_array(scratch, ns + nk, sizeof(*s->set));
	s->pair = ff_arena_array(scratch, cap, sizeof(*s->pair));
	if (!s->by_device[0] || !s->by_device[1] || !s->set || !s->pair)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < ns + nk; i++)
		s->set[i] = i;
	for (uint32_t i = 0; i < ns; i++) {
		const struct ff_region *from = region_of(s, 0, i);

		for (uint32_t k = 0; k < nk; k++) {
			struct pair *p = &s->pair[s->n_pairs];

			p->volume = ff_region_intersect(from, region_of(s, 1, k), &p->region);
			if (!p->volume)
				continue;
			p->source = i;
			p->sink = k;
			s->set[find(s->set, i)] = find(s->set, ns + k);
			if (++s->n_pairs < cap)
				continue;
			s->pair = ff_arena_array(scratch, 2 * (size_t)cap, sizeof(*s->pair));
			if (!s->pair)
				return ff_fail_memory(err);
			memcpy(s->pair, p + 1 - cap, cap * sizeof(*p));
			cap *= 2;
		}
	}
	return FF_OK;
}

/* Sinks that are one source's shard, whole and alone, on its own device. */
static void find_aliases(const struct scene *s, uint32_t *alias, struct ff_arena *scratch)
{
	uint32_t *covers = ff_arena_array(scratch, s->side[1]->n, sizeof(*covers));

	for (uint32_t i = 0; covers && i < s->n_pairs; i++)
		covers[s->pair[i].sink]++;
	for (uint32_t i = 0; covers && s->first && i < s->n_pairs; i++) {
		const struct pair *p = &s->pair[i];

		if (covers[p->sink] == 1 &&
				device_of(s, 0, p->source) == device_of(s, 1, p->sink) &&
				ff_region_equal(region_of(s, 0, p->source),
						region_of(s, 1, p->sink)))
			alias[s->by_device[1][p->sink]] = s->by_device[0][p->source];
	}
}

/* How the pieces of one sink are put together. */
struct assembly {
	bool fill, add;           /* zero it first; add all but `whole` */
	const struct pair *whole; /* covers the sink alone; written first */
};

/* `list` are the `n` pairs that end in `sink`. */
static struct assembly assemble(
		const struct scene *s, uint32_t sink, const struct pair *const *list, uint32_t n)
{
	const struct ff_region *r = region_of(s, 1, sink);
	struct assembly ret = {.add = !s->first};
	int64_t sum = 0, volume = ff_region_volume(r);
	bool overlap = false;
	struct ff_region both;

	if (!s->first)
		return ret;
	for (uint32_t i = 0; i < n; i++) {
		const struct pair *p = list[i];

		sum += p->volume;
		if (p->volume == volume &&
				(!ret.whole || device_of(s, 0, p->source) == device_of(s, 1, sink)))
			ret.whole = p;
		for (uint32_t j = 0; j < i && !overlap && !s->side[0]->disjoint; j++)
			overlap = ff_region_intersect(&p->region, &list[j]->region, &both);
	}
	ret.add = overlap;
	ret.fill = overlap ? !ret.whole : sum < volume;
	if (!overlap)
		ret.whole = NULL;
	return ret;
}

/* assemble() for every sink of the component. */
static int assemble_all(const struct scene *s, const struct component *c, struct assembly *how,
		struct ff_arena *scratch, struct ff_error *err)
{
	uint32_t nk = s->side[1]->n;
	uint32_t *end = ff_arena_array(scratch, nk + 1, sizeof(*end));
	const struct pair **list = ff_arena_array(scratch, c->n_pairs, sizeof(*list));

	if (!end || !list)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < c->n_pairs; i++)
		end[c->pair[i].sink + 1]++;
	for (uint32_t k = 0; k < nk; k++)
		end[k + 1] += end[k];
	/* end[k] starts as the first place of sink k and ends as its last */
	for (uint32_t i = 0; i < c->n_pairs; i++)
		list[end[c->pair[i].sink]++] = &c->pair[i];
	for (uint32_t i = 0; i < c->n[1]; i++) {
		uint32_t k = c->rank[1][i], first = k ? end[k - 1] : 0;

		how[k] = assemble(s, k, list + first, end[k] - first);
	}
	return FF_OK;
}

static bool all_equal(const struct scene *s, const struct component *c, int side)
{
	for (uint32_t i = 1; i < c->n[side]; i++)
		if (!ff_region_equal(region_of(s, side, c->rank[side][0]),
				    region_of(s, side, c->rank[side][i])))
			return false;
	return true;
}

/* The parts of `side` are disjoint and fill `whole`. */
static bool tiles(const struct scene *s, const struct component *c, int side,
		const struct ff_region *whole)
{
	int64_t sum = 0;
	struct ff_region both;

	for (uint32_t i = 0; i < c->n[side]; i++) {
		const struct ff_region *r = region_of(s, side, c->rank[side][i]);
		int64_t volume = ff_region_volume(r);

		sum += volume;
		if (ff_region_intersect(r, whole, &both) != volume)
			return false;
		for (uint32_t j = 0; j < i && !s->side[side]->disjoint; j++)
			if (ff_region_intersect(r, region_of(s, side, c->rank[side][j]), &both))
				return false;
	}
	return sum == ff_region_volume(whole);
}

static bool same_devices(const struct scene *s, const struct component *c)
{
	if (c->n[0] != c->n[1])
		return false;
	for (uint32_t i = 0; i < c->n[0]; i++)
		if (device_of(s, 0, c->rank[0][i]) != device_of(s, 1, c->rank[1][i]))
			return false;
	return true;
}

/* Every sink finds more than half of its region on its own device. */
static bool mostly_home(const struct scene *s, const struct component *c)
{
	uint32_t home = 0;

	for (uint32_t i = 0; i < c->n_pairs; i++) {
		const struct pair *p = &c->pair[i];

		home += device_of(s, 0, p->source) == device_of(s, 1, p->sink) &&
			2 * p->volume > ff_region_volume(region_of(s, 1, p->sink));
	}
	return home == c->n[1];
}

static enum ff_move_kind classify(const struct scene *s, const struct component *c)
{
	bool one = c->n[1] == 1 &&
		   (c->n[0] == 0 ||
				   (c->n[0] == 1 &&
						   device_of(s, 0, c->rank[0][0]) ==
								   device_of(s, 1, c->rank[1][0])));

	if (one)
		return FF_MOVE_COPY;
	if (same_devices(s, c)) {
		bool sources = all_equal(s, c, 0), sinks = all_equal(s, c, 1);
		const struct ff_region *from = region_of(s, 0, c->rank[0][0]);
		const struct ff_region *to = region_of(s, 1, c->rank[1][0]);

		if (sources && sinks && ff_region_equal(from, to))
			return FF_MOVE_ALL_REDUCE;
		if (sources && tiles(s, c, 1, from))
			return FF_MOVE_REDUCE_SCATTER;
		if (sinks && tiles(s, c, 0, to))
			return FF_MOVE_ALL_GATHER;
		if (mostly_home(s, c))
			return FF_MOVE_HALO;
		if (c->n_pairs == c->n[0] * c->n[1])
			return FF_MOVE_ALL_TO_ALL;
	}
	return mostly_home(s, c) ? FF_MOVE_HALO : FF_MOVE_POINT_TO_POINT;
}

static int list_devices(const struct scene *s, const struct component *c, struct ff_move *mv,
		struct ff_error *err)
{
	uint16_t *device = ff_arena_array(s->arena, c->n[0] + c->n[1], sizeof(*device));
	uint16_t *part[2];

	for (int side = 0; side < 2; side++) {
		part[side] = ff_arena_array(s->arena, c->n[side], sizeof(**part));
		if (!device || !part[side])
			return ff_fail_memory(err);
		for (uint32_t i = 0; i < c->n[side]; i++)
			part[side][i] = (uint16_t)s->by_device[side][c->rank[side][i]];
	}
	/* both sides are ascending: merge */
	for (uint32_t i = 0, k = 0; i < c->n[0] || k < c->n[1];) {
		uint32_t a = i < c->n[0] ? device_of(s, 0, c->rank[0][i]) : UINT32_MAX;
		uint32_t b = k < c->n[1] ? device_of(s, 1, c->rank[1][k]) : UINT32_MAX;

		device[mv->n_devices] = (uint16_t)(a < b ? a : b);
		if (a <= b)
			c->place[0][c->rank[0][i++]] = mv->n_devices;
		if (b <= a)
			c->place[1][c->rank[1][k++]] = mv->n_devices;
		mv->n_devices++;
	}
	mv->device = device;
	mv->n_sources = c->n[0];
	mv->n_sinks = c->n[1];
	mv->source = part[0];
	mv->sink = part[1];
	return FF_OK;
}

/* Per-device totals while pieces are laid out. */
struct tally {
	int64_t send_stage, recv_stage, sent, received, copied;
};

static void lay_piece(const struct scene *s, const struct pair *p, struct ff_piece *piece,
		struct tally *from, struct tally *to)
{
	int64_t bytes = p->volume * FF_ELEMENT_BYTES, start;

	piece->send_stage = piece->recv_stage = -1;
	if (piece->from == piece->to) {
		to->copied += bytes;
		return;
	}
	from->sent += bytes;
	to->received += bytes;
	if (!ff_region_is_run(region_of(s, 0, p->source), &p->region, &start)) {
		piece->send_stage = from->send_stage;
		from->send_stage += ff_align64(bytes);
		from->copied += bytes;
	}
	if (piece->add || !ff_region_is_run(region_of(s, 1, p->sink), &p->region, &start)) {
		piece->recv_stage = to->recv_stage;
		to->recv_stage += ff_align64(bytes);
		to->copied += bytes;
	}
}

static void finish_messages(const struct component *c, struct ff_move *mv, struct ff_piece *piece,
		const struct tally *t, int64_t *stage)
{
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		int64_t most = t[i].sent > t[i].received ? t[i].sent : t[i].received;

		stage[i] = t[i].send_stage + t[i].recv_stage;
		mv->network_bytes += t[i].sent;
		if (most > mv->busiest_bytes)
			mv->busiest_bytes = most;
		if (t[i].copied > mv->copied_bytes)
			mv->copied_bytes = t[i].copied;
	}
	/* what is received lies behind what is sent */
	for (uint32_t i = 0; i < mv->n_pieces; i++)
		if (piece[i].recv_stage >= 0)
			piece[i].recv_stage += t[c->place[1][c->pair[i].sink]].send_stage;
}

static int build_messages(const struct scene *s, const struct component *c, struct ff_move *mv,
		struct ff_arena *scratch, struct ff_error *err)
{
	struct ff_piece *piece = ff_arena_array(s->arena, c->n_pairs, sizeof(*piece));
	int64_t *stage = ff_arena_array(s->arena, mv->n_devices, sizeof(*stage));
	bool *fill = ff_arena_array(s->arena, c->n[1], sizeof(*fill));
	struct tally *tally = ff_arena_array(scratch, mv->n_devices, sizeof(*tally));
	struct assembly *how = ff_arena_array(scratch, s->side[1]->n, sizeof(*how));

	if (!piece || !stage || !fill || !tally || !how)
		return ff_fail_memory(err);
	if (assemble_all(s, c, how, scratch, err) < 0)
		return FF_E_NOMEM;
	for (uint32_t k = 0; k < c->n[1]; k++) {
		uint32_t rank = c->rank[1][k];

		fill[k] = how[rank].fill;
		if (fill[k])
			tally[c->place[1][rank]].copied +=
					ff_region_volume(region_of(s, 1, rank)) * FF_ELEMENT_BYTES;
	}
	for (uint32_t i = 0; i < c->n_pairs; i++) {
		const struct pair *p = &c->pair[i];

		piece[i].source = (uint16_t)s->by_device[0][p->source];
		piece[i].sink = (uint16_t)s->by_device[1][p->sink];
		piece[i].from = device_of(s, 0, p->source);
		piece[i].to = device_of(s, 1, p->sink);
		piece[i].region = p->region;
		piece[i].add = how[p->sink].add && how[p->sink].whole != p;
		lay_piece(s, p, &piece[i], &tally[c->place[0][p->source]],
				&tally[c->place[1][p->sink]]);
	}
	mv->n_pieces = c->n_pairs;
	mv->piece = piece;
	mv->fill = fill;
	mv->stage_bytes = stage;
	finish_messages(c, mv, piece, tally, stage);
	return FF_OK;
}

/* Which chunk of `region` each device has before, or gets from, a collective. */
static int build_collective(const struct scene *s, const struct component *c, struct ff_move *mv,
		struct ff_error *err)
{
	bool scatter = mv->kind == FF_MOVE_REDUCE_SCATTER, gather = mv->kind == FF_MOVE_ALL_GATHER;
	struct ff_piece *piece = ff_arena_array(s->arena, c->n[0], sizeof(*piece));
	int64_t *stage = ff_arena_array(s->arena, c->n[0], sizeof(*stage));
	bool *fill = ff_arena_array(s->arena, c->n[1], sizeof(*fill));
	int64_t whole, next = 0, start, rounds = mv->n_devices - 1;

	if (!piece || !stage || !fill)
		return ff_fail_memory(err);
	mv->region = *region_of(s, gather ? 1 : 0, c->rank[gather ? 1 : 0][0]);
	whole = ff_region_volume(&mv->region) * FF_ELEMENT_BYTES;
	mv->network_bytes = rounds * whole * (mv->kind == FF_MOVE_ALL_REDUCE ? 2 : 1);
	mv->recv_staged = mv->accumulate;
	for (uint32_t i = 0; i < c->n[0]; i++) {
		int side = scatter ? 1 : 0;

		piece[i] = (struct ff_piece){.source = mv->source[i],
				.sink = mv->sink[i],
				.from = mv->device[i],
				.to = mv->device[i],
				.add = mv->accumulate,
				.region = *region_of(s, side, c->rank[side][i]),
				.send_stage = -1,
				.recv_stage = -1};
		if (gather && !ff_region_is_run(&mv->region, &piece[i].region, &start))
			mv->recv_staged = true;
		if (scatter && (!ff_region_is_run(&mv->region, &piece[i].region, &start) ||
					       start != next))
			mv->send_staged = true;
		next += ff_region_volume(&piece[i].region);
	}
	for (uint32_t i = 0; i < c->n[0]; i++) {
		int64_t own = ff_region_volume(&piece[i].region) * FF_ELEMENT_BYTES;
		int64_t recv = mv->recv_staged ? (scatter ? own : whole) : 0;
		int64_t copied = (mv->send_staged ? whole : 0) + recv;

		stage[i] = (mv->send_staged ? ff_align64(whole) : 0) + ff_align64(recv);
		if (copied > mv->copied_bytes)
			mv->copied_bytes = copied;
	}
	mv->n_pieces = scatter || gather ? c->n[0] : 0;
	mv->piece = mv->n_pieces ? piece : NULL;
	mv->stage_bytes = stage;
	mv->fill = fill;
	return FF_OK;
}

static int build_move(const struct scene *s, const struct component *c, struct ff_move *mv,
		struct ff_arena *scratch, struct ff_error *err)
{
	int code;

	memset(mv, 0, sizeof(*mv));
	mv->accumulate = !s->first;
	mv->kind = classify(s, c);
	code = list_devices(s, c, mv, err);
	if (code < 0)
		return code;
	return ff_move_is_messages(mv->kind) ? build_messages(s, c, mv, scratch, err)
					     : build_collective(s, c, mv, err);
}

/* Splits the pairs by component; a component is named by its lowest sink. */
static int build_moves(struct scene *s, const uint32_t *alias, struct ff_arena *scratch,
		struct ff_redistribution *ret, struct ff_error *err)
{
	uint32_t ns = s->side[0]->n, nk = s->side[1]->n, n_moves = 0;
	uint32_t *root = ff_arena_array(scratch, nk, sizeof(*root));
	uint32_t *seen = ff_arena_array(scratch, ns, sizeof(*seen));
	struct ff_move *move = ff_arena_array(s->arena, nk, sizeof(*move));
	struct component c;

	c.rank[0] = ff_arena_array(scratch, ns, sizeof(**c.rank));
	c.rank[1] = ff_arena_array(scratch, nk, sizeof(**c.rank));
	c.pair = ff_arena_array(scratch, s->n_pairs, sizeof(*c.pair));
	c.place[0] = ff_arena_array(scratch, ns, sizeof(**c.place));
	c.place[1] = ff_arena_array(scratch, nk, sizeof(**c.place));
	if (!c.place[0] || !c.place[1] || !root || !seen || !move || !c.rank[0] || !c.rank[1] ||
			!c.pair)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < nk; k++) {
		bool gone = alias[s->by_device[1][k]] != FF_NONE ||
			    !ff_region_volume(region_of(s, 1, k));

		root[k] = gone ? FF_NONE : find(s->set, ns + k);
	}
	for (uint32_t k = 0; k < nk; k++) {
		uint32_t here = root[k];
		int code;

		if (here == FF_NONE)
			continue;
		c.n[0] = c.n[1] = c.n_pairs = 0;
		for (uint32_t j = k; j < nk; j++)
			if (root[j] == here)
				c.rank[1][c.n[1]++] = j;
		for (uint32_t i = 0; i < s->n_pairs; i++)
			if (root[s->pair[i].sink] == here) {
				const struct pair *p = &s->pair[i];

				if (seen[p->source] != k + 1)
					c.rank[0][c.n[0]++] = p->source;
				seen[p->source] = k + 1;
				c.pair[c.n_pairs++] = *p;
			}
		if (!c.n_pairs && !s->first)
			c.n[1] = 0; /* nothing to add */
		for (uint32_t j = nk; j-- > k;)
			if (root[j] == here)
				root[j] = FF_NONE;
		if (!c.n[1])
			continue;
		code = build_move(s, &c, &move[n_moves++], scratch, err);
		if (code < 0)
			return code;
	}
	ret->n_moves = n_moves;
	ret->move = move;
	return FF_OK;
}

/* Both sides are cut alike on the same devices: the usual case in a chain. */
static bool is_identity(const struct ff_side *source, const struct ff_side *sink)
{
	if (source->n != sink->n || !(source->disjoint || sink->disjoint))
		return false;
	for (uint32_t i = 0; i < sink->n; i++)
		if (source->device[i] != sink->device[i] ||
				!ff_region_equal(&source->region[i], &sink->region[i]))
			return false;
	return true;
}

int ff_redistribute(const struct ff_side *source, const struct ff_side *sink, bool first,
		struct ff_arena *a, struct ff_arena *scratch, struct ff_redistribution *ret,
		struct ff_error *err)
{
	struct scene s = {.side = {source, sink}, .first = first, .arena = a};
	uint32_t *alias = ff_arena_array(a, sink->n, sizeof(*alias));
	bool identity = first && is_identity(source, sink);
	struct ff_redistribution r = {.alias = alias};
	struct ff_arena_mark mark = ff_arena_mark(scratch);
	int code = FF_OK;

	if (!alias)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < sink->n; i++)
		alias[i] = identity ? i : FF_NONE;
	if (!identity)
		code = find_pairs(&s, scratch, err);
	if (!identity && code == FF_OK) {
		find_aliases(&s, alias, scratch);
		code = build_moves(&s, alias, scratch, &r, err);
	}
	ff_arena_rewind(scratch, mark);
	if (code == FF_OK)
		*ret = r;
	return code;
}
