/* Least bytes between classes of degree vectors.  A region is as many places by as many channels;
 * two of them share no more than the fewer places by the fewer channels.
 * SPDX-License-Identifier: Apache-2.0 */
#include "classes.h"

#include "dims.h"

#include <math.h>

#include "ff/backward.h"
#include "ff/work.h"

/* ---- sizes ---- */

/* Places or channels of parts: of the first one, and of any. */
struct size {
	double first, least, most;
};

/* What all vectors of a class have, at least, and of `most` at most. */
struct ff_class_sizes {
	struct size places, channels;
	double add_us; /* adding all that the smallest part has */
	bool copied;   /* several parts have each element */
	bool known;    /* there is such a vector */
};

/* One operand. */
struct operand {
	const struct ff_node *n, *leader; /* the latter's config both have */
	uint32_t node, slot;
	bool out;
	const struct ff_operand *o;
	uint32_t channels;              /* the axes that are such */
	struct size *size[FF_MAX_RANK]; /* of an axis, by the degree of its dim; scratch */
};

/* Which dim an axis has; FF_NONE: none. */
static uint32_t dim_of(const struct ff_operand *o, uint32_t axis)
{
	return o->axis[axis].n_terms ? (uint32_t)o->axis[axis].term[0].dim : FF_NONE;
}

static bool is_plain(const struct ff_operand *o)
{
	bool plain = true;

	for (uint32_t a = 0; a < o->rank; a++)
		plain = plain && o->axis[a].n_terms <= 1;
	return plain;
}

bool ff_class_pairs_may(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[edge];
	const struct ff_value *v = &g->values[e->value];

	return !v->port && is_plain(&g->nodes[v->producer].out_map[0]) &&
	       is_plain(&g->nodes[e->node].in_map[e->slot]);
}

static uint32_t most_degree(const struct ff_kinds *k, const struct ff_node *n, uint32_t dim)
{
	uint32_t extent = (uint32_t)n->dim[dim].extent;

	return extent < k->n_devices ? extent : k->n_devices;
}

/* Along all axes of `dim`, with its interval from `lo` to `hi`, and the other dims whole. */
static void look(struct ff_kinds *k, struct operand *p, uint32_t dim, uint32_t degree, int32_t lo,
		int32_t hi)
{
	struct ff_region box = {.rank = p->n->n_dims}, *r;

	for (uint32_t d = 0; d < box.rank; d++)
		box.hi[d] = p->n->dim[d].extent;
	box.lo[dim] = lo;
	box.hi[dim] = hi;
	ff_work_fill(k->graph, p->node, &box, FF_FORWARD, &k->work);
	r = p->out ? &k->work.out[p->slot] : &k->work.in[p->slot];
	for (uint32_t a = 0; a < p->o->rank; a++) {
		struct size *s;
		double here = r->rank == p->o->rank ? r->hi[a] - r->lo[a] : 0;

		if (dim_of(p->o, a) != dim)
			continue;
		s = &p->size[a][degree];
		s->first = lo ? s->first : here;
		s->least = fmin(s->least, here);
		s->most = fmax(s->most, here);
	}
}

/* What every part has of an axis along which no dim moves. */
static struct size look_whole(struct ff_kinds *k, const struct operand *p, uint32_t axis)
{
	struct ff_region box = {.rank = p->n->n_dims};
	const struct ff_region *r;
	double has;

	for (uint32_t d = 0; d < box.rank; d++)
		box.hi[d] = p->n->dim[d].extent;
	ff_work_fill(k->graph, p->node, &box, FF_FORWARD, &k->work);
	r = p->out ? &k->work.out[p->slot] : &k->work.in[p->slot];
	has = r->rank == p->o->rank ? r->hi[axis] - r->lo[axis] : 0;
	return (struct size){has, has, p->o->shape[axis]};
}

static int measure(struct ff_kinds *k, struct operand *p, struct ff_arena *a, struct ff_error *err)
{
	int code = ff_kinds_intervals(k, p->n, err);

	for (uint32_t i = 0; i < p->o->rank && code == FF_OK; i++) {
		uint32_t dim = dim_of(p->o, i);
		uint32_t most = dim == FF_NONE ? 0 : most_degree(k, p->n, dim);

		p->size[i] = ff_arena_array(a, most + 1, sizeof(*p->size[i]));
		if (!p->size[i])
			return ff_fail_memory(err);
		for (uint32_t degree = 0; degree <= most; degree++)
			p->size[i][degree] = (struct size){0, INFINITY, 0};
		if (dim == FF_NONE)
			p->size[i][0] = look_whole(k, p, i);
	}
	for (uint32_t d = 0; d < p->n->n_dims && code == FF_OK; d++) {
		const struct ff_intervals *all = &k->dim[d];
		uint32_t most = ff_axes_of(p->o, d) ? most_degree(k, p->n, d) : 0;

		for (uint32_t degree = 1; degree <= most && !k->stopped; degree++)
			for (uint32_t i = all->of_degree[degree]; i < all->of_degree[degree + 1];
					i++) {
				uint32_t x = all->interval[i].first;
				int32_t extent = p->n->dim[d].extent;

				look(k, p, d, degree, ff_part_start(extent, degree, x),
						ff_part_start(extent, degree, x + 1));
			}
	}
	return code;
}

/* Those of one degree vector. */
static struct ff_class_sizes sizes_of(const struct operand *p, const struct ff_config *c)
{
	const struct size one = {1, 1, 1};
	struct ff_class_sizes s = {.places = one, .channels = one, .known = true};

	for (uint32_t a = 0; a < p->o->rank; a++) {
		struct size *to = p->channels >> a & 1 ? &s.channels : &s.places;
		uint32_t dim = dim_of(p->o, a);
		const struct size *here = &p->size[a][dim == FF_NONE ? 0 : c->degree[dim]];

		to->first *= here->first;
		to->least *= here->least;
		to->most *= here->most;
	}
	for (uint32_t d = 0; d < p->n->n_dims; d++)
		s.copied = s.copied || (c->degree[d] > 1 && !ff_axes_of(p->o, d));
	return s;
}

static void widen(struct size *s, const struct size *with)
{
	s->first = fmin(s->first, with->first);
	s->least = fmin(s->least, with->least);
	s->most = fmax(s->most, with->most);
}

static int find_sizes(struct ff_kinds *k, struct operand *p, double element_bytes,
		struct ff_class_sizes *s, struct ff_arena *scratch, struct ff_error *err)
{
	uint32_t n = ff_class_count(k->n_devices);
	struct ff_config c = {.n_parts = 0};
	int code = measure(k, p, scratch, err);

	for (uint32_t i = 0; i < n; i++)
		s[i].known = false;
	while (code == FF_OK && !ff_kinds_look(k) &&
			ff_config_next_degrees(p->n, k->n_devices, &c)) {
		struct ff_class_sizes here = sizes_of(p, &c), *to = &s[ff_class_of(p->leader, &c)];

		if (!to->known) {
			*to = here;
			continue;
		}
		widen(&to->places, &here.places);
		widen(&to->channels, &here.channels);
		to->copied = to->copied && here.copied;
	}
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (s[i].known)
			s[i].add_us = ff_kinds_add_us(
					k, element_bytes * s[i].places.least * s[i].channels.least);
	return code;
}

/* ---- pairs ---- */

/* How long a part waits that has `places` by `channels`, which `from`'s parts have together, for
 * all that none of them has by itself. */
static double wait_us(const struct ff_class_pairs *p, double places, double channels,
		const struct ff_class_sizes *from)
{
	double all = places * channels;
	double own = fmin(places, from->places.most) * fmin(channels, from->channels.most);

	if (!(all > (from->copied ? 0 : own)) || !(own > 0))
		return 0;
	return ff_least_wait_us(p->wait, (from->copied ? all : all - own) * p->element_bytes,
			ff_kinds_others(all, own, from->copied ? 2 : 1));
}

static void hand(const struct ff_class_pairs *p, const struct ff_class_sizes *to,
		const struct ff_class_sizes *from, double *first, double *least)
{
	*first = wait_us(p, to->places.first, to->channels.first, from);
	*least = wait_us(p, to->places.least, to->channels.least, from);
}

struct ff_handed ff_class_pairs_handed(const struct ff_class_pairs *p, uint32_t from, uint32_t to)
{
	const struct ff_class_sizes *x = &p->from[from], *y = &p->to[to];
	struct ff_handed h = {.all = 0};

	if (!x->known || !y->known)
		return h;
	hand(p, y, x, &h.first_us, &h.least_us);
	if (p->back)
		hand(p, x, y, &h.back_first_us, &h.back_least_us);
	if (p->adds)
		h.added_us = fmin(x->add_us, y->add_us);
	return h;
}

int ff_class_pairs_find(struct ff_kinds *k, uint32_t edge, bool adds, struct ff_arena *scratch,
		struct ff_arena *a, struct ff_class_pairs *ret, struct ff_error *err)
{
	const struct ff_graph *g = k->graph;
	const struct ff_edge *e = &g->edges[edge];
	const struct ff_value *v = &g->values[e->value];
	const struct ff_node *from = &g->nodes[v->producer], *to = &g->nodes[e->node];
	struct operand source = {.n = from,
			.leader = from,
			.node = v->producer,
			.out = true,
			.o = &from->out_map[0]};
	struct operand sink = {.n = to,
			.leader = &g->nodes[ff_node_leader(g, e->node)],
			.node = e->node,
			.slot = e->slot,
			.o = &to->in_map[e->slot]};
	uint32_t n = ff_class_count(k->n_devices);
	struct ff_class_sizes *at_source = ff_arena_array(a, n, sizeof(*at_source));
	struct ff_class_sizes *at_sink = ff_arena_array(a, n, sizeof(*at_sink));
	int code;

	if (!at_source || !at_sink)
		return ff_fail_memory(err);
	*ret = (struct ff_class_pairs){.from = at_source,
			.to = at_sink,
			.wait = &k->moves.wait,
			.element_bytes = (double)ff_dtype_bytes(v->dtype),
			.back = ff_edge_needs_grad(g, edge) && ff_reads_all(to, sink.o),
			.adds = adds};
	source.channels = v->rank > 1 ? 1u << ff_channel_axis(v->rank) : 0;
	sink.channels = source.channels;
	code = find_sizes(k, &source, ret->element_bytes, at_source, scratch, err);
	if (code == FF_OK)
		code = find_sizes(k, &sink, ret->element_bytes, at_sink, scratch, err);
	return code;
}
