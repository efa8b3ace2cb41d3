/* Classes of equal operators.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/node_class.h"

#include <string.h>

static uint64_t hash_operands(uint64_t h, const struct ff_operand *o, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		h = ff_hash_mix(h, o[i].rank);
		for (uint32_t a = 0; a < o[i].rank; a++)
			h = ff_hash_mix(h, (uint64_t)(uint32_t)o[i].shape[a] << 32 |
							   (uint32_t)o[i].axis[a].offset);
	}
	return h;
}

static uint64_t hash_node(const struct ff_node *n)
{
	uint64_t h = ff_hash_mix((uint64_t)n->op, (uint64_t)n->n_in << 32 | n->n_out);

	h = hash_operands(h, n->in_map, n->n_in);
	return hash_operands(h, n->out_map, n->n_out);
}

static bool operands_alike(const struct ff_operand *a, const struct ff_operand *b, uint32_t n)
{
	return !memcmp(a, b, n * sizeof(*a));
}

/* Of one operator: those that change its kernels. */
static bool attributes_alike(const struct ff_node *a, const struct ff_node *b)
{
	const struct ff_op_row *row = ff_op_row(a->op);

	for (uint32_t i = 0; i < row->n_attrs; i++) {
		const struct ff_attr_row *at = &row->attrs[i];
		size_t size = ff_attr_ints(at) * sizeof(int32_t);

		if (at->in_key && memcmp((const char *)&a->attrs + at->offset,
						  (const char *)&b->attrs + at->offset, size) != 0)
			return false;
	}
	return true;
}

bool ff_nodes_alike(const struct ff_graph *g, uint32_t i, uint32_t k)
{
	const struct ff_node *a = &g->nodes[i], *b = &g->nodes[k];

	if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out ||
			a->n_dims != b->n_dims || !attributes_alike(a, b) ||
			a->flops_forward != b->flops_forward ||
			a->flops_backward != b->flops_backward ||
			a->sparse_rows != b->sparse_rows ||
			!operands_alike(a->in_map, b->in_map, a->n_in) ||
			!operands_alike(a->out_map, b->out_map, a->n_out))
		return false;
	for (uint32_t d = 0; d < a->n_dims; d++)
		if (a->dim[d].extent != b->dim[d].extent || a->dim[d].label != b->dim[d].label)
			return false;
	for (uint32_t e = 0; e < a->n_in; e++)
		if (g->values[g->edges[a->in + e].value].needs_grad !=
				g->values[g->edges[b->in + e].value].needs_grad)
			return false;
	return true;
}

int ff_classes_find(
		const struct ff_graph *g, struct ff_arena *a, uint32_t **ret, struct ff_error *err)
{
	struct ff_table table = {.arena = a};
	uint32_t *class = ff_arena_array(a, g->n_nodes, sizeof(*class));

	if (!class)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint64_t hash = hash_node(&g->nodes[i]);
		uint32_t at, k = ff_table_first(&table, hash, &at);

		while (k != FF_NONE && !ff_nodes_alike(g, k, i))
			k = ff_table_next(&table, hash, &at);
		class[i] = k == FF_NONE ? i : k;
		if (k == FF_NONE && ff_table_put(&table, hash, i) < 0)
			return ff_fail_memory(err);
	}
	*ret = class;
	return FF_OK;
}
