/* Which operators must wait for all parts of others, by the dims that they need whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <string.h>

#include "dims.h"
#include "ff/backward.h"

/* ---- what parts read ---- */

/* Whether every part reads some element there. */
static bool reads_some(const struct ff_node *n, const struct ff_operand *o)
{
	bool some = true;

	for (uint32_t a = 0; a < o->rank; a++) {
		const struct ff_axis_map *m = &o->axis[a];
		int64_t last = m->offset;

		for (uint32_t t = 0; t < m->n_terms; t++)
			last += (int64_t)((n->dim[m->term[t].dim].extent - 1) / m->term[t].div) *
				m->term[t].step;
		some = some && !m->over && m->offset + m->window > 0 && last < o->shape[a];
	}
	return some;
}

/* Whether the parts together have all elements of an axis, without gaps. */
static bool covers(const struct ff_node *n, const struct ff_operand *o, uint32_t axis)
{
	const struct ff_axis_map *m = &o->axis[axis];
	int64_t end = (int64_t)m->offset + m->window;
	bool all = m->n_terms <= 1 && m->offset <= 0 && !m->over;

	for (uint32_t t = 0; t < m->n_terms; t++) {
		end += (int64_t)((n->dim[m->term[t].dim].extent - 1) / m->term[t].div) *
		       m->term[t].step;
		all = all && m->term[t].step <= m->window;
	}
	return all && end >= o->shape[axis];
}

static bool covers_all(const struct ff_node *n, const struct ff_operand *o)
{
	bool all = true;

	for (uint32_t a = 0; a < o->rank; a++)
		all = all && covers(n, o, a);
	return all;
}

/* ---- members ---- */

static const struct ff_operand *operand_at(const struct ff_graph *g, uint32_t edge)
{
	return &g->nodes[g->edges[edge].node].in_map[g->edges[edge].slot];
}

#define BEHIND 1 /* the first */
#define BEFORE 2 /* the last */

static void list_between(const struct ff_graph *g, uint32_t first, uint32_t last, uint8_t *member)
{
	memset(member, 0, g->n_nodes * sizeof(*member));
	member[first] = BEHIND;
	member[last] = BEFORE;
	for (uint32_t i = first + 1; i <= last; i++)
		for (uint32_t k = 0; k < g->nodes[i].n_data && ff_node_is_computed(g, i); k++)
			member[i] |= member[ff_edge_source(g, g->nodes[i].in + k)] & BEHIND;
	for (uint32_t i = last; i > first; i--)
		for (uint32_t k = 0; k < g->nodes[i].n_data && member[i] & BEFORE; k++)
			member[ff_edge_source(g, g->nodes[i].in + k)] |= BEFORE;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		member[i] = member[i] == (BEHIND | BEFORE);
}

/* Whether every part waits for a member forward, and has some gradient for one. */
static bool waits_for_member(const struct ff_graph *g, uint32_t node, const uint8_t *member)
{
	const struct ff_node *n = &g->nodes[node];
	bool all = true, one = false;

	for (uint32_t k = 0; k < n->n_data; k++) {
		uint32_t e = n->in + k;
		bool counts = member[ff_edge_source(g, e)] && ff_chain_may_pass(g, e);

		all = all && counts;
		one = one || (counts && reads_some(n, &n->in_map[k]));
	}
	return one || all;
}

/* Whether every part is waited for by a member forward, and waits for one backward. */
static bool is_waited_for(const struct ff_graph *g, uint32_t node, const uint8_t *member)
{
	const struct ff_value *v = &g->values[g->nodes[node].out];
	bool waits = false;

	for (uint32_t k = 0; k < v->n_uses && !waits; k++) {
		uint32_t e = ff_value_use(g, v, k), reader = g->edges[e].node;

		waits = member[reader] && ff_chain_may_pass(g, e) &&
			covers_all(&g->nodes[reader], operand_at(g, e));
	}
	return waits;
}

uint32_t ff_section_members(const struct ff_graph *g, const struct ff_chain *c, uint32_t first,
		uint32_t last, uint8_t *member)
{
	uint32_t from = c->node[first], to = c->node[last], n = 0;

	if (from >= to)
		return 0;
	list_between(g, from, to, member);
	for (uint32_t i = from; i <= to; i++) {
		n += member[i];
		if (member[i] && (g->nodes[i].n_carried || !ff_node_needs_grad(g, i) ||
						 (i != from && !waits_for_member(g, i, member)) ||
						 (i != to && !is_waited_for(g, i, member))))
			return 0;
	}
	return member[to] ? n : 0;
}

/* ---- dims that are needed whole ---- */

/* Axes of an operand all of which are had where those dims are. */
static uint32_t whole_axes(const struct ff_node *n, const struct ff_operand *o, uint32_t dims)
{
	uint32_t axes = 0;

	for (uint32_t a = 0; a < o->rank; a++) {
		bool whole = covers(n, o, a);

		for (uint32_t t = 0; t < o->axis[a].n_terms; t++)
			whole = whole && dims >> o->axis[a].term[t].dim & 1;
		axes |= (uint32_t)whole << a;
	}
	return axes;
}

/* Dims all of whose parts have something of what is whole along `axes`; such as move along none
 * where `others` says so. */
static uint32_t whole_dims(
		const struct ff_node *n, const struct ff_operand *o, uint32_t axes, bool sums)
{
	uint32_t dims = 0;

	for (uint32_t d = 0; d < n->n_dims; d++) {
		bool whole = true, moves = false;

		for (uint32_t a = 0; a < o->rank; a++)
			for (uint32_t t = 0; t < o->axis[a].n_terms; t++)
				if ((uint32_t)o->axis[a].term[t].dim == d) {
					moves = true;
					whole = whole && axes >> a & 1 && !o->axis[a].over;
				}
		if (!moves)
			whole = !sums || n->dim[d].label == FF_DIM_REDUCTION;
		dims |= (uint32_t)whole << d;
	}
	return dims;
}

static bool is_whole(const struct ff_node *n, uint32_t dims)
{
	return dims == (1u << n->n_dims) - 1;
}

/* Forward: dims of the operator at place `i` - 1 that are needed whole where, at place `i`, some
 * part of all along `dims` is. */
static uint32_t needed_before(
		const struct ff_graph *g, const struct ff_chain *c, uint32_t i, uint32_t dims)
{
	const struct ff_node *n = &g->nodes[c->node[i]], *u = &g->nodes[c->node[i - 1]];
	const struct ff_value *v = &g->values[g->edges[c->edge[i]].value];

	return whole_dims(u, &u->out_map[v->port], whole_axes(n, operand_at(g, c->edge[i]), dims),
			true);
}

/* Backward: the other way round. */
static uint32_t needed_behind(
		const struct ff_graph *g, const struct ff_chain *c, uint32_t i, uint32_t dims)
{
	const struct ff_node *n = &g->nodes[c->node[i]], *u = &g->nodes[c->node[i - 1]];
	const struct ff_value *v = &g->values[g->edges[c->edge[i]].value];

	return whole_dims(n, operand_at(g, c->edge[i]), whole_axes(u, &u->out_map[v->port], dims),
			false);
}

/* ---- what follows what ---- */

struct follower {
	const struct ff_graph *g;
	struct ff_chain *c;
	uint8_t *member, *less; /* scratch */
};

/* Forward, what is behind the last place of a section waits for all of it, or, of the last
 * operators, for all parts of some channels: marks these. */
static bool find_open(struct follower *f, const struct ff_section *s)
{
	const struct ff_graph *g = f->g;
	struct ff_chain *c = f->c;
	uint32_t dims = 0, i = s->last + 1;
	uint32_t n = ff_section_members(g, c, s->first, s->last, f->member);

	if (!n || i >= c->n)
		return false;
	for (uint32_t k = s->first; k <= s->last; k++)
		c->part[k] = FF_CHAIN_ALL;
	for (dims = needed_before(g, c, i, 0); !is_whole(&g->nodes[c->node[i - 1]], dims);
			dims = needed_before(g, c, i, dims)) {
		const struct ff_node *at = &g->nodes[c->node[--i]];

		if (i <= s->first + 1 || ~(dims | ff_channel_dims(at)) & ((1u << at->n_dims) - 1))
			return false;
		c->part[i] = FF_CHAIN_OPEN;
	}
	return ff_section_members(g, c, s->first, i - 1, f->less) + (s->last + 1 - i) == n;
}

/* Backward, nothing of section `s` begins before all of some operator behind it: up to there only
 * what is the first along all places is named.  The place of that; c->n: there is none. */
static uint32_t find_behind(struct follower *f, const struct ff_section *s, uint32_t end)
{
	struct ff_chain *c = f->c;
	uint32_t dims = 0;

	for (uint32_t i = s->last + 1; i < end; i++) {
		dims = needed_behind(f->g, c, i, dims);
		if (is_whole(&f->g->nodes[c->node[i]], dims))
			return i;
		if (ff_place_dims(&f->g->nodes[c->node[i]]) & ~dims)
			break;
		c->part[i] = FF_CHAIN_WIDE;
	}
	return c->n;
}

/* Forward, nothing of section `s` begins before all of some operator in front of it; backward, all
 * of that waits for all of the section.  False where there is none from place `from` on, but for
 * the chain's first. */
static bool find_before(struct follower *f, const struct ff_section *s, uint32_t from)
{
	struct ff_chain *c = f->c;
	uint32_t dims = 0, back = 0, i = s->first;

	while (i > from) {
		dims = needed_before(f->g, c, i, dims);
		i--;
		if (is_whole(&f->g->nodes[c->node[i]], dims))
			break;
		if (ff_place_dims(&f->g->nodes[c->node[i]]) & ~dims)
			return false;
		c->part[i] = FF_CHAIN_WIDE;
	}
	if (from && c->part[i] == FF_CHAIN_WIDE)
		return false;
	for (uint32_t k = i + 1; k <= s->first; k++) {
		back = needed_behind(f->g, c, k, back);
		if (k < s->first && back & ff_place_dims(&f->g->nodes[c->node[k]]))
			return false;
	}
	if (c->part[i] == FF_CHAIN_WIDE) /* the chain's first */
		return !(ff_place_dims(&f->g->nodes[c->node[s->first]]) & ~back);
	return is_whole(&f->g->nodes[c->node[s->first]], back);
}

/* Whether all that is read in the chain is some of what the one before writes, of first parts by
 * first parts. */
static bool is_even(const struct ff_graph *g, const struct ff_chain *c)
{
	bool ok = c->named[0] == FF_CHAIN_FIRST;

	for (uint32_t i = 1; i < c->n; i++)
		ok = ok && c->named[i] == FF_CHAIN_FIRST &&
		     reads_some(&g->nodes[c->node[i]], operand_at(g, c->edge[i]));
	return ok;
}

static bool do_follow(struct follower *f)
{
	struct ff_chain *c = f->c;
	uint32_t from = 0;

	if (!is_even(f->g, c))
		return false;
	for (uint32_t k = 0; k < c->n_sections; k++) {
		const struct ff_section *s = &c->section[k];
		uint32_t next = k + 1 < c->n_sections ? s[1].first : c->n;

		if (s->first >= s->last || s->last >= next || next > c->n || s->first < from ||
				!find_before(f, s, from) || !find_open(f, s))
			return false;
		from = find_behind(f, s, next);
		if (from == c->n)
			return false;
	}
	return true;
}

static int list_members(
		struct follower *f, struct ff_section *s, struct ff_arena *a, struct ff_error *err)
{
	s->n = ff_section_members(f->g, f->c, s->first, s->last, f->member);
	s->node = ff_arena_array(a, s->n, sizeof(*s->node));
	if (!s->node)
		return ff_fail_memory(err);
	for (uint32_t i = s->first; i <= s->last; i++) /* not those that count otherwise */
		f->member[f->c->node[i]] &= f->c->part[i] != FF_CHAIN_OPEN;
	s->n = 0;
	for (uint32_t i = 0; i < f->g->n_nodes; i++)
		if (f->member[i])
			s->node[s->n++] = i;
	return FF_OK;
}

int ff_sections_find(const struct ff_graph *g, struct ff_chain *c, struct ff_arena *a, bool *ret,
		struct ff_error *err)
{
	struct follower f = {.g = g, .c = c};
	int code = FF_OK;

	c->part = NULL;
	*ret = !c->n_sections;
	if (*ret)
		return FF_OK;
	f.member = ff_arena_array(a, g->n_nodes, sizeof(*f.member));
	f.less = ff_arena_array(a, g->n_nodes, sizeof(*f.less));
	c->part = ff_arena_array(a, c->n, sizeof(*c->part));
	if (!f.member || !f.less || !c->part)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < c->n; i++)
		c->part[i] = c->named[i];
	*ret = do_follow(&f);
	for (uint32_t k = 0; k < c->n_sections && *ret && code == FF_OK; k++)
		code = list_members(&f, &c->section[k], a, err);
	return code;
}

bool ff_section_has(const struct ff_chain *c, uint32_t i)
{
	for (uint32_t k = 0; k < c->n_sections; k++)
		if (i > c->section[k].first && i <= c->section[k].last)
			return true;
	return false;
}
