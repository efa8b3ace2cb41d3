/* Recomputation of what a network repeats.  SPDX-License-Identifier: Apache-2.0 */
#include "recompute.h"

bool ff_recompute_is_light(const struct ff_graph *g, const struct ff_repeats *r, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];
	bool sums = false;

	for (uint32_t d = 0; d < n->n_dims; d++)
		sums = sums || n->dim[d].label == FF_DIM_REDUCTION;
	return !r->ends[node] && !(sums && n->n_in > n->n_data);
}

/* By block, how many of its stage stand before it. */
static void find_places(const struct ff_graph *g, const struct ff_repeats *r,
		const struct ff_strategy *s, uint32_t *place)
{
	uint32_t last = FF_NONE;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		uint32_t b = r->block[i];

		if (!ff_node_needs_config(g, i) || b == FF_NONE)
			continue;
		if (last == FF_NONE || s->stage[i] != s->stage[last])
			place[b] = 0;
		else if (b != r->block[last])
			place[b] = place[r->block[last]] + 1;
		last = i;
	}
}

/* A block's last operator is kept: the next begins with what it makes.  The first blocks of a stage
 * are those that are recomputed whole where not all are: backward has done with the others, and
 * what they keep, when it comes to these. */
void ff_recompute_blocks(const struct ff_graph *g, const struct ff_repeats *r,
		enum ff_recompute what, uint32_t n_full, uint32_t *place, struct ff_strategy *s)
{
	uint32_t last = FF_NONE;

	find_places(g, r, s, place);
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		if (!ff_node_needs_config(g, i) || r->block[i] == FF_NONE)
			continue;
		if (what == FF_RECOMPUTE_FULL || place[r->block[i]] < n_full)
			s->recompute[i] = last != FF_NONE && r->block[i] == r->block[last];
		else
			s->recompute[i] = what == FF_RECOMPUTE_LIGHT &&
					  ff_recompute_is_light(g, r, i);
		last = i;
	}
}
