/* Which uses of a value are moved once.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/sharing.h"

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

uint32_t ff_edge_taken_from(const struct ff_graph *g, const struct ff_program *p,
		const uint32_t *position, const struct ff_node_block *const *block, uint32_t edge)
{
	const struct ff_value *v = &g->values[g->edges[edge].value];
	uint32_t me = root_of(g, edge), best = me;
	bool again = p->again[v->producer];
	uint64_t key;

	if (v->n_uses == 1 || g->edges[edge].node == v->producer ||
			(again && v->kind == FF_VALUE_PARAMETER))
		return FF_NONE;
	key = key_of(g, block, me);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = g->uses[v->first_use + u];

		if (other != best && g->edges[other].shared == FF_NONE &&
				g->edges[other].node != v->producer &&
				key_of(g, block, other) == key &&
				is_before(g, position, other, best) &&
				(!again || ff_edge_read_again(g, p, other) ==
								ff_edge_read_again(g, p, me)))
			best = other;
	}
	return best == edge ? FF_NONE : best;
}
