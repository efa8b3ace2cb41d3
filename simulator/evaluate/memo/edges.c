/* What is moved at edges, built and priced once.  SPDX-License-Identifier: Apache-2.0 */
#include "memo.h"

#include <stdint.h>
#include <stdlib.h>

#include "ff/backward.h"
#include "ff/grow.h"

static struct ff_memo_edge *edge_at(const struct ff_memo *t, uint32_t i)
{
	return &t->edge[i / FF_MEMO_ROW][i % FF_MEMO_ROW];
}

/* Whether the parts, in any order, are a range; its first. */
static bool is_range(const uint16_t *part, uint32_t n, uint16_t *first)
{
	uint16_t least = UINT16_MAX, most = 0;

	for (uint32_t k = 0; k < n; k++) {
		least = part[k] < least ? part[k] : least;
		most = part[k] > most ? part[k] : most;
	}
	*first = least;
	return n > 0 && (uint32_t)most - least + 1 == n;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint32_t ff_memo_join_lanes(uint32_t n, uint32_t *lane, struct ff_lanes *run)
{
	uint32_t runs = 0;
	bool ascend = true;

	for (uint32_t i = 1; i < n && ascend; i++)
		ascend = lane[i] > lane[i - 1];
	if (!ascend)
		qsort(lane, n, sizeof(*lane), by_number);
	for (uint32_t i = 0; i < n; i++) {
		if (runs && lane[i] == run[runs - 1].first + run[runs - 1].n)
			run[runs - 1].n++;
		else
			run[runs++] = (struct ff_lanes){lane[i], 1};
	}
	return runs;
}

/* Lanes of a move as runs of neighbours. */
static int list_lanes(struct ff_memo *t, uint32_t edge, const struct ff_move *mv,
		struct ff_memo_move *ret, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	uint32_t *lane = ff_arena_array(&t->scratch, 3 * (size_t)mv->n_devices, sizeof(*lane));
	struct ff_lanes *run = ff_arena_array(&t->scratch, 3 * (size_t)mv->n_devices, sizeof(*run));
	uint32_t runs;

	if (!lane || !run)
		return ff_fail_memory(err);
	runs = ff_memo_join_lanes(ff_move_lanes(t->g, t->m, edge, mv, lane), lane, run);
	ret->n_lanes = (uint16_t)runs;
	for (uint32_t i = 0; i < runs && i < 2; i++)
		ret->lane[i] = run[i];
	if (runs > 2)
		ret->more = ff_arena_copy(&t->arena, run + 2, runs - 2, sizeof(*run));
	ff_arena_rewind(&t->scratch, mark);
	return runs <= 2 || ret->more ? FF_OK : ff_fail_memory(err);
}

/* Whether `b` is what `a` is, on the device behind. */
static bool is_next(const struct ff_memo_move *a, const struct ff_memo_move *b)
{
	return a->us == b->us && a->beside_us == b->beside_us && a->accumulate == b->accumulate &&
	       a->move->device[0] + 1 == b->move->device[0] &&
	       a->first_source + 1 == b->first_source && a->first_sink + 1 == b->first_sink &&
	       a->lane[0].first + 1 == b->lane[0].first &&
	       a->move->stage_bytes[0] == b->move->stage_bytes[0];
}

static bool is_own(const struct ff_memo_move *m)
{
	return m->n_lanes == 1 && m->lane[0].n == 1 && m->move->n_devices == 1 &&
	       m->n_sources == 1 && m->n_sinks == 1 && !m->move->codec;
}

/* What devices do alike, each by itself, is one move: they need not be gone through one by one.
 * Nothing but their own lanes holds such moves up, so it does not matter in which order they are
 * told. */
static uint32_t join_moves(struct ff_memo_move *list, uint32_t n)
{
	bool alike = n > 1 && is_own(&list[0]);

	for (uint32_t i = 1; i < n && alike; i++)
		alike = is_own(&list[i]) && is_next(&list[i - 1], &list[i]);
	if (!alike)
		return n;
	list[0].each = true;
	list[0].n_sources = list[0].n_sinks = (uint16_t)n;
	list[0].lane[0].n = n;
	return 1;
}

static int time_moves(struct ff_memo *t, uint32_t edge, const struct ff_redistribution *r,
		struct ff_memo_move **ret, struct ff_error *err)
{
	struct ff_memo_move *list = ff_arena_array(&t->arena, r->n_moves, sizeof(*list));
	int code = FF_OK;

	if (!list)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < r->n_moves && code == FF_OK; i++) {
		const struct ff_move *mv = &r->move[i];

		list[i] = (struct ff_memo_move){.us = ff_price_move(t->p, t->g, mv),
				.move = mv,
				.n_sources = (uint16_t)mv->n_sources,
				.n_sinks = (uint16_t)mv->n_sinks,
				.accumulate = mv->accumulate};
		if (!ff_move_is_own(t->g, edge, mv))
			list[i].beside_us = ff_price_beside(
					t->p, mv->n_devices, mv->device, list[i].us);
		list[i].source_range = is_range(mv->source, mv->n_sources, &list[i].first_source);
		list[i].sink_range = is_range(mv->sink, mv->n_sinks, &list[i].first_sink);
		code = list_lanes(t, edge, mv, &list[i], err);
	}
	*ret = list;
	return code;
}

static void look_at_aliases(struct ff_memo_edge *e, uint32_t n)
{
	const uint32_t *alias = e->moved[FF_BACKWARD].by.alias;

	e->alias = alias;
	e->all_alike = alias != NULL;
	e->none_alike = true;
	for (uint32_t k = 0; k < n && alias; k++) {
		e->all_alike = e->all_alike && alias[k] == k;
		e->none_alike = e->none_alike && alias[k] == FF_NONE;
	}
}

static bool stays(const struct ff_redistribution *r, const struct ff_memo_node *from,
		const struct ff_memo_node *to)
{
	bool all = from && from->n_parts == to->n_parts && !r->n_moves && r->alias;

	for (uint32_t k = 0; all && k < to->n_parts; k++)
		all = r->alias[k] == k;
	return all;
}

static bool is_behind(
		const struct ff_memo *t, const struct ff_memo_move *a, const struct ff_memo_move *b)
{
	uint32_t n = a->move->n_devices, devices = t->m->n_devices;
	bool behind = n && a->us == b->us && a->beside_us == b->beside_us &&
		      a->n_lanes == b->n_lanes && a->n_lanes <= 2 && n == b->move->n_devices &&
		      a->move->device[n - 1] - a->move->device[0] == (int)n - 1 &&
		      b->move->device[n - 1] - b->move->device[0] == (int)n - 1 &&
		      a->move->device[n - 1] + 1 == b->move->device[0];

	for (uint32_t k = 0; k < a->n_lanes && behind; k++)
		behind = a->lane[k].n == b->lane[k].n &&
			 a->lane[k].first + a->lane[k].n == b->lane[k].first &&
			 (a->lane[k].first < devices) == (b->lane[k].first < devices);
	return behind;
}

static void count_alike(const struct ff_memo *t, struct ff_memo_move *list, uint32_t n)
{
	for (uint32_t i = n; i-- > 0;) {
		list[i].n_alike = 1;
		if (i + 1 < n && is_behind(t, &list[i], &list[i + 1]))
			list[i].n_alike = (uint16_t)(list[i + 1].n_alike + 1);
	}
}

/* Of sizes alone. */
static int find_moves(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		struct ff_memo_edge *e, struct ff_error *err)
{
	const struct ff_edge_builder with = {.g = t->g,
			.codec = ff_price_codec(t->p),
			.move = {.m = t->m, .a = &t->arena, .scratch = &t->scratch}};
	const struct ff_edge_cut cut = {edge, e->first_use, from ? from->block : NULL, to->block};

	return ff_edge_block_build_pass(&with, &cut, pass, &e->moved[pass].by, err);
}

int ff_memo_build(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		struct ff_memo_edge *e, struct ff_error *err)
{
	int code;

	if (e->built[pass])
		return FF_OK;
	if (!e->moved)
		e->moved = ff_arena_array(&t->arena, 2, sizeof(*e->moved));
	if (!e->moved)
		return ff_fail_memory(err);
	code = find_moves(t, edge, pass, from, to, e, err);
	if (code == FF_OK)
		code = time_moves(t, edge, &e->moved[pass].by, &e->move[pass], err);
	e->built[pass] = code == FF_OK;
	e->n_moves[pass] = e->moved[pass].by.n_moves;
	if (code == FF_OK && pass == FF_BACKWARD && !ff_edge_is_carried(t->g, edge))
		e->n_moves[pass] = join_moves(e->move[pass], e->n_moves[pass]);
	if (code == FF_OK)
		count_alike(t, e->move[pass], e->n_moves[pass]);
	e->stays[pass] = e->built[pass] && stays(&e->moved[pass].by, from, to);
	if (pass == FF_BACKWARD && from)
		look_at_aliases(e, from->n_parts);
	return code;
}

static int add_edge(struct ff_memo *t, const struct ff_memo_edge *new, uint64_t hash,
		struct ff_memo_edge **ret, struct ff_error *err)
{
	uint32_t i = t->edges.n, row = i / FF_MEMO_ROW;
	int code = ff_grow(&t->edge, row, &t->cap[FF_MEMO_EDGES], sizeof(*t->edge), err);

	if (code < 0)
		return code;
	if (i % FF_MEMO_ROW == 0)
		t->edge[row] = ff_memo_new_row(t, sizeof(**t->edge));
	if (!t->edge[row])
		return ff_fail_memory(err);
	*ret = edge_at(t, i);
	**ret = *new;
	return ff_memo_put(&t->edges, hash, err);
}

static uint64_t edge_use(const struct ff_memo *t, uint32_t edge)
{
	const struct ff_edge *x = &t->g->edges[edge];

	return (uint64_t)t->g->values[x->value].port << 33 | (uint64_t)x->slot << 1 |
	       t->first_use[edge];
}

void ff_memo_edge_wish(const struct ff_memo *t, uint32_t edge, uint64_t ends)
{
	ff_table_prefetch(&t->edges, ff_hash_mix(edge_use(t, edge), ends));
}

void ff_memo_edge_fetch(const struct ff_memo *t, uint32_t edge, uint64_t ends)
{
	uint32_t at, i;

	i = ff_table_first(&t->edges, ff_hash_mix(edge_use(t, edge), ends), &at);
	if (i != FF_NONE)
		__builtin_prefetch(edge_at(t, i));
}

int ff_memo_edge(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to, struct ff_memo_edge **ret, struct ff_error *err)
{
	struct ff_memo_edge new = {.ends = ff_memo_ends(from, to),
			.use = edge_use(t, edge),
			.first_use = t->first_use[edge]};
	uint64_t hash = ff_hash_mix(new.use, new.ends);
	uint32_t at, i;

	for (i = ff_table_first(&t->edges, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->edges, hash, &at)) {
		*ret = edge_at(t, i);
		if ((*ret)->ends == new.ends && (*ret)->use == new.use)
			return FF_OK;
	}
	return add_edge(t, &new, hash, ret, err);
}
