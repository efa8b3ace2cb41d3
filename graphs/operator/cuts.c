/* What cutting an operator costs.  SPDX-License-Identifier: Apache-2.0 */
#include "cuts.h"

/* Whether the halves along dim `d` overlap in operand `o`, and neither has all of the other. */
static bool has_halo(const struct ff_node *n, const struct ff_operand *o, uint32_t d)
{
	struct ff_region box[2] = {{.rank = n->n_dims}, {.rank = n->n_dims}}, at[2];

	for (uint32_t i = 0; i < n->n_dims; i++)
		box[0].hi[i] = box[1].hi[i] = n->dim[i].extent;
	box[0].hi[d] = box[1].lo[d] = n->dim[d].extent / 2;
	for (int k = 0; k < 2; k++)
		ff_operand_region(n, o, &box[k], &at[k]);
	for (uint32_t i = 0; i < o->rank; i++)
		if (at[1].lo[i] < at[0].hi[i] && at[0].lo[i] < at[1].lo[i] &&
				at[0].hi[i] < at[1].hi[i])
			return true;
	return false;
}

/* Whether elements along dim `d` have elements of their own in `o`, each by itself. */
static bool is_apart(const struct ff_operand *o, uint32_t d)
{
	for (uint32_t i = 0; i < o->rank; i++)
		for (uint32_t t = 0; t < o->axis[i].n_terms; t++)
			if (o->axis[i].term[t].dim == (int32_t)d)
				return o->axis[i].term[t].div == 1;
	return false;
}

void ff_cuts_find(const struct ff_graph *g, uint32_t node, struct ff_cuts *ret)
{
	const struct ff_node *n = &g->nodes[node];
	uint32_t prelude = ff_node_prelude(g, node);

	*ret = (struct ff_cuts){.n = n->n_dims};
	for (uint32_t d = 0; d < n->n_dims; d++) {
		struct ff_cut *c = &ret->cut[d];

		c->label = n->dim[d].label;
		c->name = n->dim[d].name;
		for (uint32_t i = 0; i < n->n_data; i++)
			c->halo = c->halo || has_halo(n, &n->in_map[i], d);
		c->carries = n->n_carried && n->carried_dim == d;
		c->exchange = prelude != FF_NONE && !is_apart(g->nodes[prelude].out_map, d);
	}
	for (uint32_t i = 0; n->n_data && i < n->in_map[0].rank; i++)
		if (!n->in_map[0].axis[i].n_terms && n->in_map[0].shape[i] > 1)
			ret->whole |= 1u << i;
}
