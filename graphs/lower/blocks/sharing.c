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

static uint64_t key_of(const struct ff_block_graph *b, uint32_t edge)
{
	const struct ff_edge *e = &b->g->edges[edge];

	return b->block[e->node]->key[e->slot];
}

static bool is_before(const struct ff_block_graph *b, uint32_t edge, uint32_t other)
{
	uint32_t x = b->g->edges[edge].node, y = b->g->edges[other].node;

	return x == y ? edge < other : b->position[x] < b->position[y];
}

/* Who reads a value, and how.  `program`: what it makes again counts; NULL: nothing does. */
struct readers {
	const struct ff_block_graph *b;
	const struct ff_program *program;
};

/* Uses that read alike are a class; the one that is issued first stands for it.  A value may have
 * thousands of uses, so classes are found by their keys: in lists, linked from use to use. */
enum { CLASS_LISTS = 32 };

struct classes {
	uint32_t list[CLASS_LISTS];
	uint32_t *next; /* by edge, of those that stand for a class */
};

static void classes_init(struct classes *c, uint32_t *next)
{
	memset(c->list, 0xff, sizeof(c->list));
	c->next = next;
}

static bool is_alike(const struct readers *r, uint32_t a, uint32_t b)
{
	const struct ff_graph *g = r->b->g;

	return key_of(r->b, a) == key_of(r->b, b) &&
	       (!r->program || ff_edge_read_recomputed(g, r->program, a) ==
					       ff_edge_read_recomputed(g, r->program, b));
}

/* The link to the use that stands for the class of `edge`, or where it belongs. */
static uint32_t *class_of(struct classes *c, const struct readers *r, uint32_t edge)
{
	uint64_t mixed = key_of(r->b, edge) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t *at = &c->list[(mixed >> 32) % CLASS_LISTS];

	while (*at != FF_NONE && !is_alike(r, *at, edge))
		at = &c->next[*at];
	return at;
}

/* Says which use stood for its class before; FF_NONE: it is a new one. */
static uint32_t classes_add(struct classes *c, const struct readers *r, uint32_t edge)
{
	uint32_t *at = class_of(c, r, edge), was = *at;

	if (was == FF_NONE || is_before(r->b, edge, was)) {
		c->next[edge] = was == FF_NONE ? FF_NONE : c->next[was];
		*at = edge;
	}
	return was;
}

void ff_sharing_find(const struct ff_block_graph *b, const struct ff_program *p, uint32_t value,
		uint32_t *ret)
{
	const struct ff_graph *g = b->g;
	const struct ff_value *v = &g->values[value];
	const uint32_t *uses = g->uses + v->first_use;
	bool recomputed = v->n_uses > 1 && p->recomputed[v->producer];
	struct readers r = {b, recomputed ? p : NULL};
	struct classes c;

	for (uint32_t u = 0; u < v->n_uses; u++)
		ret[uses[u]] = FF_NONE;
	if (v->n_uses < 2 || (recomputed && v->kind == FF_VALUE_PARAMETER))
		return;
	classes_init(&c, ret);
	for (uint32_t u = 0; u < v->n_uses; u++)
		if (g->edges[uses[u]].shared == FF_NONE && g->edges[uses[u]].node != v->producer)
			classes_add(&c, &r, uses[u]);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t first;

		if (g->edges[uses[u]].node == v->producer)
			continue;
		first = *class_of(&c, &r, root_of(g, uses[u]));
		if (first != uses[u]) /* else it is a link still */
			ret[uses[u]] = first;
	}
	for (uint32_t i = 0; i < CLASS_LISTS; i++)
		for (uint32_t first = c.list[i], next; first != FF_NONE; first = next) {
			next = ret[first];
			ret[first] = FF_NONE;
		}
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

static bool leaves(const struct ff_block_graph *b, uint32_t edge)
{
	const struct ff_edge *x = &b->g->edges[edge];
	const struct ff_value *v = &b->g->values[x->value];
	const struct ff_node_block *reader = b->block[x->node], *producer = b->block[v->producer];
	struct ff_gradient_way w = {
			&reader->in[x->slot], &producer->out[v->port], reader, producer};

	return ff_gradient_leaves(&w);
}

static bool joins(const struct ff_graph *g, uint32_t edge)
{
	return ff_edge_needs_grad(g, edge) && !ff_edge_is_in_place(g, edge) &&
	       !ff_edge_is_carried(g, edge);
}

/* Classes of uses whose gradients may be added up.  Of the use that stands for one `added` is that
 * which backward comes to first, and `first` says whether there are others. */
static void join(const struct readers *r, const struct ff_value *v, struct classes *c,
		const struct ff_sums *ret)
{
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(r->b->g, v, u), was, soonest = edge, stands;

		ret->sent[edge] = ret->added[edge] = FF_NONE;
		if (!joins(r->b->g, edge))
			continue;
		was = classes_add(c, r, edge);
		stands = *class_of(c, r, edge);
		if (was != FF_NONE && !ff_edge_is_visited_before(r->b->g, r->b->position, edge,
						      ret->added[was]))
			soonest = ret->added[was];
		ret->added[stands] = soonest;
		ret->first[stands] = was != FF_NONE;
	}
}

/* All uses of a class are sent over the moves of the one that stands for it, the last that backward
 * comes to. */
static void send_joined(const struct readers *r, const struct ff_value *v, struct classes *c,
		const struct ff_sums *ret)
{
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(r->b->g, v, u), last;

		if (!joins(r->b->g, edge))
			continue;
		last = *class_of(c, r, edge);
		if (last == edge)
			continue; /* it is a link still */
		ret->sent[edge] = ret->first[last] ? last : FF_NONE;
		ret->added[edge] = ret->first[last] && ret->added[last] != edge ? ret->added[last]
										: FF_NONE;
	}
	for (uint32_t i = 0; i < CLASS_LISTS; i++)
		for (uint32_t last = c->list[i], next; last != FF_NONE; last = next) {
			next = ret->sent[last];
			ret->sent[last] = FF_NONE;
			if (!ret->first[last] || ret->added[last] == last)
				ret->added[last] = FF_NONE;
		}
}

static void find_joined(const struct readers *r, const struct ff_value *v,
		const struct ff_leaving *known, const struct ff_sums *ret)
{
	struct classes c;

	classes_init(&c, ret->sent);
	join(r, v, &c, ret);
	for (uint32_t i = 0; i < CLASS_LISTS; i++)
		for (uint32_t last = c.list[i]; last != FF_NONE; last = ret->sent[last])
			if (ret->first[last])
				ret->first[last] = known ? known->leaves(known->ctx, last)
							 : leaves(r->b, last);
	send_joined(r, v, &c, ret);
}

void ff_sums_find(const struct ff_block_graph *b, const struct ff_leaving *known, uint32_t value,
		const struct ff_sums *ret, uint32_t *first_edge)
{
	const struct ff_graph *g = b->g;
	const struct ff_value *v = &g->values[value];
	const uint32_t *uses = g->uses + v->first_use;
	struct readers r = {.b = b};
	uint32_t best = FF_NONE;

	if (v->kind == FF_VALUE_ACTIVATION && v->n_uses > 1)
		find_joined(&r, v, known, ret);
	else
		for (uint32_t u = 0; u < v->n_uses; u++)
			ret->sent[uses[u]] = ret->added[uses[u]] = FF_NONE;
	for (uint32_t u = 0; u < v->n_uses; u++) {
		ret->first[uses[u]] = false;
		if (ff_edge_needs_grad(g, uses[u]) && ret->sent[uses[u]] == FF_NONE &&
				(best == FF_NONE || ff_edge_is_visited_before(
								    g, b->position, uses[u], best)))
			best = uses[u];
	}
	if (best != FF_NONE)
		ret->first[best] = true;
	*first_edge = best;
}
