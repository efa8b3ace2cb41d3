/* Chains of parts: elements forward and back, by which they wait for each other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include "dims.h"
#include "ff/backward.h"
#include "ff/work.h"

/* Whether a larger part has a larger region of it, also where sums of terms are divided. */
static bool is_monotone(const struct ff_operand *o)
{
	bool ok = !o->lead_only && !o->backward_only;

	for (uint32_t a = 0; a < o->rank && ok; a++) {
		const struct ff_axis_map *m = &o->axis[a];

		ok = m->only == FF_ONLY_NONE;
		for (uint32_t t = 0; t < m->n_terms; t++)
			ok = ok && m->term[t].step > 0;
	}
	return ok;
}

bool ff_chain_may_pass(const struct ff_graph *g, uint32_t edge)
{
	const struct ff_edge *e = &g->edges[edge];
	const struct ff_node *n = &g->nodes[e->node];
	uint32_t from = ff_edge_source(g, edge), port = g->values[e->value].port;

	return e->slot < n->n_data - n->n_carried && !ff_edge_is_carried(g, edge) &&
	       ff_node_is_computed(g, from) && ff_node_needs_grad(g, from) &&
	       ff_node_needs_grad(g, e->node) && ff_edge_needs_grad(g, edge) &&
	       is_monotone(&n->in_map[e->slot]) && is_monotone(&g->nodes[from].out_map[port]);
}

/* What `box` of the edge's reader reads there. */
static struct ff_region read_at(
		const struct ff_graph *g, uint32_t edge, const struct ff_region *box)
{
	const struct ff_edge *e = &g->edges[edge];
	struct ff_work work;

	ff_work_fill(g, e->node, box, FF_FORWARD, &work);
	return work.in[e->slot];
}

/* What `box` of the edge's source writes of what is read there. */
static struct ff_region written_at(
		const struct ff_graph *g, uint32_t edge, const struct ff_region *box)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];
	struct ff_work work;

	ff_work_fill(g, v->producer, box, FF_FORWARD, &work);
	return work.out[v->port];
}

static bool meet(const struct ff_region *a, const struct ff_region *b)
{
	struct ff_region both;

	return a->rank == b->rank && ff_region_intersect(a, b, &both) > 0;
}

static struct ff_region whole(const struct ff_node *n)
{
	struct ff_region box = {.rank = n->n_dims};

	for (uint32_t d = 0; d < n->n_dims; d++)
		box.hi[d] = n->dim[d].extent;
	return box;
}

/* Cuts away as much of one end of `box` along `dim` as has nothing of `with` (`region_of`); found
 * by halving, as regions only grow with their box. */
static void cut(const struct ff_graph *g, uint32_t edge,
		struct ff_region (*region_of)(
				const struct ff_graph *, uint32_t, const struct ff_region *),
		const struct ff_region *with, uint32_t dim, bool upper, struct ff_region *box)
{
	int32_t no = upper ? box->hi[dim] : box->lo[dim], yes = upper ? box->lo[dim] : box->hi[dim];

	while (no + 1 < yes || yes + 1 < no) {
		int32_t middle = no + (yes - no) / 2;
		struct ff_region some = *box, region;

		if (upper)
			some.lo[dim] = middle;
		else
			some.hi[dim] = middle;
		region = region_of(g, edge, &some);
		if (meet(&region, with))
			yes = middle;
		else
			no = middle;
	}
	if (upper)
		box->hi[dim] = yes + 1;
	else
		box->lo[dim] = yes - 1;
}

static void only_first(struct ff_region *box)
{
	for (uint32_t d = 0; d < box->rank; d++)
		box->hi[d] = box->lo[d] + 1;
}

/* Boxes in which each reads of the one before; false where one reads none of it. */
static bool find_boxes(const struct ff_graph *g, struct ff_chain *c, struct ff_region *box)
{
	uint32_t *edge = c->edge;

	box[0] = whole(&g->nodes[c->node[0]]);
	for (uint32_t i = 1; i < c->n; i++) {
		const struct ff_node *n = &g->nodes[c->node[i]];
		struct ff_region there, read;
		uint32_t k = 0;

		box[i] = whole(n);
		for (; k < n->n_in; k++) {
			edge[i] = n->in + k;
			if (ff_edge_source(g, edge[i]) != c->node[i - 1] ||
					!ff_chain_may_pass(g, edge[i]))
				continue;
			there = written_at(g, edge[i], &box[i - 1]);
			read = read_at(g, edge[i], &box[i]);
			if (meet(&there, &read))
				break;
		}
		if (k == n->n_in)
			return false;
		for (uint32_t d = 0; d < n->n_dims; d++) {
			cut(g, edge[i], read_at, &there, d, false, &box[i]);
			cut(g, edge[i], read_at, &there, d, true, &box[i]);
		}
	}
	return true;
}

/* What is known of the part that has the element at which `box` begins. */
static enum ff_chain_part part_at(const struct ff_node *n, const struct ff_region *box)
{
	enum ff_chain_part part = FF_CHAIN_FIRST;
	uint32_t places = ff_place_dims(n);

	for (uint32_t d = 0; d < box->rank && part != FF_CHAIN_ANY; d++)
		if (box->lo[d])
			part = places >> d & 1 ? FF_CHAIN_ANY : FF_CHAIN_PLACED;
	return part;
}

bool ff_chain_trace(const struct ff_graph *g, struct ff_chain *c, struct ff_region *box)
{
	const uint32_t *edge = c->edge;

	if (!c->n || !ff_node_is_computed(g, c->node[0]) || !find_boxes(g, c, box))
		return false;
	only_first(&box[c->n - 1]);
	for (uint32_t i = c->n; i-- > 1;) {
		struct ff_region read = read_at(g, edge[i], &box[i]);
		struct ff_region there = written_at(g, edge[i], &box[i - 1]), element;

		if (!meet(&read, &there))
			return false;
		ff_region_intersect(&read, &there, &element);
		only_first(&element);
		for (uint32_t d = 0; d < box[i - 1].rank; d++)
			cut(g, edge[i], written_at, &element, d, false, &box[i - 1]);
		only_first(&box[i - 1]);
		there = written_at(g, edge[i], &box[i - 1]);
		if (!meet(&there, &element))
			return false;
	}
	for (uint32_t i = 0; i < c->n; i++)
		c->named[i] = part_at(&g->nodes[c->node[i]], &box[i]);
	return true;
}
