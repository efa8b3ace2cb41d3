/* Element types drawn for the values of graphs.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/backward.h"
#include "random_graph.h"

static void set_operand_type(struct ff_operand *o, enum ff_dtype type)
{
	o->dtype = type;
	o->gradient = (uint8_t)type;
}

static void set_type(struct ff_graph *g, struct ff_value *v, enum ff_dtype type)
{
	v->dtype = type;
	set_operand_type(&g->nodes[v->producer].out_map[v->port], type);
	for (uint32_t i = 0; i < v->n_uses; i++) {
		const struct ff_edge *e = &g->edges[ff_value_use(g, v, i)];

		set_operand_type(&g->nodes[e->node].in_map[e->slot], type);
	}
}

/* Whether parts may have to be added up. */
static bool is_sum(const struct ff_node *n)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_REDUCTION)
			return true;
	return false;
}

/* Whether the gradient of `v` takes the place of another one, or the other way round. */
static bool shares_place(const struct ff_graph *g, const struct ff_value *v)
{
	uint32_t prelude = ff_node_prelude(g, v->producer);

	for (uint32_t u = 0; u < v->n_uses; u++)
		if (ff_edge_is_in_place(g, ff_value_use(g, v, u)))
			return true;
	return prelude != FF_NONE && ff_node_needs_grad(g, prelude);
}

void random_types(struct ff_random *r, struct ff_graph *g)
{
	static const enum ff_dtype types[] = {FF_F32, FF_I32, FF_BF16, FF_U8};

	for (uint32_t i = 0; i < g->n_values; i++) {
		struct ff_value *v = &g->values[i];
		uint32_t op = g->nodes[v->producer].out_map[v->port].reduce;
		bool plain = op == FF_REDUCE_SUM && !v->needs_grad &&
			     !is_sum(&g->nodes[v->producer]);

		if (v->kind != FF_VALUE_ACTIVATION || ff_node_is_loss(g, v->producer) ||
				ff_reduce_width((enum ff_reduce)op) > 1 || shares_place(g, v))
			continue;
		set_type(g, v, types[ff_random_below(r, plain ? 4 : 3)]);
	}
}
