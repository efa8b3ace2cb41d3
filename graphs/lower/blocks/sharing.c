/* Which uses of a value are moved once, and their gradients.  SPDX-License-Identifier: Apache-2.0
 */
#include "ff/sharing.h"
#include "ff/program_phases.h"

#include <string.h>

#include "ff/backward.h"

/* What an operator and its prelude read alike is the prelude's. */
static uint32_t root_of(const struct ff_graph *g, uint32_t edge)
{
	uint32_t shared = g->edges[edge].shared;

	return shared == FF_NONE ? edge : shared;
}

static uint64_t key_of(
		const struct ff_graph *g, const struct ff_node_block *const *block, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[edge];

	return block[e->node]->key[e->slot];
}

static bool is_before(const struct ff_graph *g, const uint32_t *position, uint32_t a, uint32_t b)
{
	uint32_t x = g->edges[a].node, y = g->edges[b].node;

	return x == y ? a < b : position[x] < position[y];
}

uint32_t ff_edge_shared_from(const struct ff_graph *g, const struct ff_program *p,
		const uint32_t *position, const struct ff_node_block *const *block, uint32_t edge)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];
	uint32_t me = root_of(g, edge), best = me;
	bool recomputed = p->recomputed[v->producer];
	uint64_t key;

	if (v->n_uses == 1 || g->edges[edge].node == v->producer ||
			(recomputed && v->kind == FF_VALUE_PARAMETER))
		return FF_NONE;
	key = key_of(g, block, me);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = g->uses[v->first_use + u];

		if (other != best && g->edges[other].shared == FF_NONE &&
				g->edges[other].node != v->producer &&
				key_of(g, block, other) == key &&
				is_before(g, position, other, best) &&
				(!recomputed || ff_edge_read_recomputed(g, p, other) ==
								ff_edge_read_recomputed(g, p, me)))
			best = other;
	}
	return best == edge ? FF_NONE : best;
}

/* ---- gradients ---- */

/* What a part gets of others. */
struct way {
	const struct ff_placement *in, *out;
	bool ascends[FF_MAX_RANK]; /* by axis: intervals of `in` */
};

/* How long intervals [lo, hi) of one axis are that both have. */
static int64_t common(
		const struct ff_grid_axis *x, uint32_t i, const struct ff_grid_axis *y, uint32_t k)
{
	int32_t lo = x->lo[i] > y->lo[k] ? x->lo[i] : y->lo[k];
	int32_t hi = x->hi[i] < y->hi[k] ? x->hi[i] : y->hi[k];

	return hi > lo ? hi - lo : 0;
}

/* Whether intervals begin and end one behind the other. */
static bool is_ascending(const struct ff_grid_axis *x)
{
	bool ascends = true;

	for (uint32_t k = 1; k < x->n && ascends; k++)
		ascends = x->lo[k - 1] <= x->lo[k] && x->hi[k - 1] <= x->hi[k];
	return ascends;
}

/* Of intervals of `x` that ascend, the first that ends behind `lo`. */
static uint32_t first_behind(const struct ff_grid_axis *x, int32_t lo)
{
	uint32_t from = 0, to = x->n;

	while (from < to) {
		uint32_t middle = (from + to) / 2;

		if (x->hi[middle] > lo)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* Elements that interval `k` of `y` and all intervals of `x` have in common. */
static int64_t common_with_all(const struct way *w, uint32_t axis, uint32_t k)
{
	const struct ff_grid_axis *x = &w->in->axis[axis], *y = &w->out->axis[axis];
	uint32_t i = w->ascends[axis] ? first_behind(x, y->lo[k]) : 0;
	int64_t sum = 0;

	for (; i < x->n && !(w->ascends[axis] && x->lo[i] >= y->hi[k]); i++)
		sum += common(x, i, y, k);
	return sum;
}

/* Elements that producer's part `sink` gets of all readers' parts, one of each replica, and those
 * of them that part `home` has (FF_NONE: none is there). */
static void meet(const struct way *w, uint32_t sink, uint32_t home, int64_t *all, int64_t *own)
{
	*all = 1;
	*own = home != FF_NONE;
	for (uint32_t i = 0; i < w->in->rank; i++) {
		const struct ff_grid_axis *x = &w->in->axis[i], *y = &w->out->axis[i];
		uint32_t at = ff_placement_coordinate(w->out, i, sink);

		*all *= common_with_all(w, i, at);
		if (home != FF_NONE)
			*own *= common(x, ff_placement_coordinate(w->in, i, home), y, at);
	}
}

bool ff_gradient_leaves(const struct ff_gradient_way *g)
{
	struct way w = {.in = g->in, .out = g->out};
	struct ff_side in = {g->in, g->reader->device, true};
	struct ff_side out = {g->out, g->producer->device, true};
	uint32_t at[FF_MAX_DEVICES];
	int64_t away = 0, stays = 0;

	if (w.in->n_copies > 1)
		return true; /* no device has two of them */
	if (ff_side_is_same(&in, &out))
		return false;
	for (uint32_t i = 0; i < w.in->rank; i++)
		w.ascends[i] = is_ascending(&w.in->axis[i]);
	memset(at, 0xff, sizeof(at));
	for (uint32_t p = 0; p < g->reader->n_parts; p++)
		at[g->reader->device[p]] = p;
	for (uint32_t p = 0; p < g->producer->n_parts; p++) {
		int64_t all, own;

		meet(&w, p, at[g->producer->device[p]], &all, &own);
		away += all - own;
		stays += own;
	}
	return away > 0 && away >= stays;
}

static bool leaves(
		const struct ff_graph *g, const struct ff_node_block *const *block, uint32_t edge)
{
	const struct ff_edge *x = &g->edges[edge];
	const struct ff_value *v = &g->values[x->value];
	const struct ff_node_block *reader = block[x->node], *producer = block[v->producer];
	struct ff_gradient_way w = {
			&reader->in[x->slot], &producer->out[v->port], reader, producer};

	return ff_gradient_leaves(&w);
}

static bool joins(const struct ff_graph *g, uint32_t edge)
{
	return ff_edge_needs_grad(g, edge) && !ff_edge_is_in_place(g, edge) &&
	       !ff_edge_is_carried(g, edge);
}

/* Whether backward comes to `a` before it comes to `b`. */
static bool is_visited_before(
		const struct ff_graph *g, const uint32_t *position, uint32_t a, uint32_t b)
{
	uint32_t x = g->edges[a].node, y = g->edges[b].node;

	return x == y ? a < b : position[x] > position[y];
}

/* The uses that read alike with `edge`, if that is the last of them to be visited: all are sent
 * over its moves. */
static void join(const struct ff_graph *g, const uint32_t *position,
		const struct ff_node_block *const *block, const struct ff_leaving *known,
		uint32_t edge, const struct ff_sums *ret)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];
	uint64_t key = key_of(g, block, edge);
	uint32_t first = edge;
	bool alone = true;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = g->uses[v->first_use + u];

		if (other == edge || !joins(g, other) || key_of(g, block, other) != key)
			continue;
		if (is_before(g, position, other, edge))
			return;
		alone = false;
		if (is_visited_before(g, position, other, first))
			first = other;
	}
	if (alone || !(known ? known->leaves(known->ctx, edge) : leaves(g, block, edge)))
		return;
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = g->uses[v->first_use + u];

		if (!joins(g, other) || key_of(g, block, other) != key)
			continue;
		ret->sent[other] = other == edge ? FF_NONE : edge;
		ret->added[other] = other == first ? FF_NONE : first;
	}
}

void ff_sums_find(const struct ff_graph *g, const uint32_t *position,
		const struct ff_node_block *const *block, const struct ff_leaving *known,
		uint32_t value, const struct ff_sums *ret, uint32_t *first_edge)
{
	const struct ff_value *v = &g->values[value];
	const uint32_t *uses = g->uses + v->first_use;
	uint32_t best = FF_NONE;

	for (uint32_t u = 0; u < v->n_uses; u++)
		ret->sent[uses[u]] = ret->added[uses[u]] = FF_NONE;
	for (uint32_t u = 0; u < v->n_uses && v->n_uses > 1; u++)
		if (v->kind == FF_VALUE_ACTIVATION && joins(g, uses[u]))
			join(g, position, block, known, uses[u], ret);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		ret->first[uses[u]] = false;
		if (ff_edge_needs_grad(g, uses[u]) && ret->sent[uses[u]] == FF_NONE &&
				(best == FF_NONE || is_visited_before(g, position, uses[u], best)))
			best = uses[u];
	}
	if (best != FF_NONE)
		ret->first[best] = true;
	*first_edge = best;
}
