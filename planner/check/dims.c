/* Channels and places.  SPDX-License-Identifier: Apache-2.0 */
#include "dims.h"

uint32_t ff_channel_axis(uint32_t rank)
{
	return rank > 3 ? 1 : rank - 1;
}

/* A prelude has by channel what it finds of all places. */
static bool is_prelude(const struct ff_node *n)
{
	return ff_op_row(n->op)->flags & FF_OP_PRELUDE;
}

static uint32_t labelled(const struct ff_node *n, enum ff_label label)
{
	uint32_t dims = 0;

	for (uint32_t d = 0; d < FF_MAX_DIMS && d < n->n_dims; d++)
		if (n->dim[d].label == label)
			dims |= 1u << d;
	return dims;
}

uint32_t ff_channel_dims(const struct ff_node *n)
{
	const struct ff_operand *o = &n->out_map[0];
	uint32_t dims = 0, axis = ff_channel_axis(o->rank);

	if (is_prelude(n))
		return labelled(n, FF_DIM_PARAMETER);
	for (uint32_t t = 0; o->rank > 1 && t < o->axis[axis].n_terms; t++)
		dims |= 1u << o->axis[axis].term[t].dim;
	return dims;
}

uint32_t ff_place_dims(const struct ff_node *n)
{
	uint32_t others = ff_channel_dims(n);

	if (!is_prelude(n))
		others |= labelled(n, FF_DIM_REDUCTION);
	return ((1u << n->n_dims) - 1) & ~others;
}

static bool has_dims_of(const struct ff_node *a, const struct ff_node *b)
{
	bool same = a->n_dims == b->n_dims;

	for (uint32_t d = 0; d < a->n_dims && same; d++)
		same = a->dim[d].extent == b->dim[d].extent;
	return same;
}

uint32_t ff_degrees_of(const struct ff_graph *g, uint32_t node)
{
	uint32_t leader = ff_node_leader(g, node);

	return has_dims_of(&g->nodes[leader], &g->nodes[node]) ? leader : node;
}

/* 1, 2, 3, 4, 5 to 7, 8, 9 to 15, 16 and so on, counted from 0.  Two of them are together no more
 * than that of the product. */
static uint32_t bin_of(uint32_t n)
{
	uint32_t k = 0;

	while (n >> (k + 1))
		k++;
	return 2 * k + (n > 1u << k) - (k > 0); /* none between 1 and 2 */
}

/* Pairs of bins whose sum is below `end`. */
static uint32_t pairs_below(uint32_t end)
{
	return end * (end + 1) / 2;
}

uint32_t ff_class_count(uint32_t n_devices)
{
	return 2 * pairs_below(bin_of(n_devices) + 1);
}

uint32_t ff_axes_of(const struct ff_operand *o, uint32_t dim)
{
	uint32_t axes = 0;

	for (uint32_t a = 0; a < o->rank; a++)
		for (uint32_t t = 0; t < o->axis[a].n_terms; t++)
			axes |= (uint32_t)((uint32_t)o->axis[a].term[t].dim == dim) << a;
	return axes;
}

uint32_t ff_class_of(const struct ff_node *n, const struct ff_config *c)
{
	uint32_t places = 1, channels = 1, copies = 1, in = ff_channel_dims(n);

	for (uint32_t d = 0; d < n->n_dims; d++) {
		bool writes = ff_axes_of(&n->out_map[0], d);

		*(!writes ? &copies : in >> d & 1 ? &channels : &places) *= c->degree[d];
	}
	places = bin_of(places);
	channels = bin_of(channels);
	return 2 * (pairs_below(places + channels) + channels) + (copies > 1);
}

bool ff_reads_all(const struct ff_node *n, const struct ff_operand *o)
{
	bool all = true;

	for (uint32_t a = 0; a < o->rank; a++) {
		const struct ff_axis_map *m = &o->axis[a];
		int64_t end = (int64_t)m->offset + m->window;

		for (uint32_t t = 0; t < m->n_terms; t++) {
			const struct ff_term *term = &m->term[t];

			end += (int64_t)((n->dim[term->dim].extent - 1) / term->div) * term->step;
			all = all && term->step <= m->window;
		}
		all = all && m->offset <= 0 && end >= o->shape[a] && !m->over &&
		      m->only == FF_ONLY_NONE;
	}
	return all;
}
