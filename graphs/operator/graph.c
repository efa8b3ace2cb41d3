/* What a graph is asked.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/graph.h"

#include "base/names.h"

uint32_t ff_graph_find(const struct ff_graph *g, const char *name)
{
	return ff_names_find(g->names, name);
}

int64_t ff_graph_parameters(const struct ff_graph *g)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < g->n_values; i++)
		if (g->values[i].kind == FF_VALUE_PARAMETER)
			n += ff_value_volume(&g->values[i]);
	return n;
}

void ff_graph_limit_sparse(struct ff_graph *g)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_node *n = &g->nodes[i];

		if (n->sparse_rows && g->values[g->edges[n->in + n->n_data].value].n_uses > 1)
			n->sparse_rows = 0;
	}
}

static bool leads(const struct ff_node *n, const struct ff_region *box)
{
	for (uint32_t d = 0; d < n->n_dims; d++)
		if (n->dim[d].label == FF_DIM_REDUCTION && box->lo[d] > 0)
			return false;
	return true;
}

void ff_operand_region(const struct ff_node *node, const struct ff_operand *operand,
		const struct ff_region *box, struct ff_region *ret)
{
	bool used = !operand->lead_only || leads(node, box);

	ret->rank = operand->rank;
	for (uint32_t i = 0; i < operand->rank; i++) {
		ff_axis_interval(&operand->axis[i], operand->shape[i], box->lo, box->hi,
				&ret->lo[i], &ret->hi[i]);
		if (!used)
			ret->hi[i] = ret->lo[i];
	}
}
