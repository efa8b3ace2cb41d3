/* Tables of a schedule that is put together: which buffer each part has, which task fills it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include <string.h>

#include "ff/instance.h"

/* `n` times FF_NONE. */
static uint32_t *list_of(struct ff_lowering *l, struct ff_arena *a, uint32_t n)
{
	uint32_t *list = ff_arena_array(a, n, sizeof(*list));

	l->failed |= !list;
	if (list)
		memset(list, 0xff, n * sizeof(*list));
	return list;
}

/* Whether values of `node` have instance `i`; a parameter's own shards are one. */
static bool has_instance(const struct ff_lowering *l, uint32_t node, uint32_t i)
{
	if (i % 2)
		return l->r.recomputed[node];
	return !i || !ff_node_is_parameter(l->g, node) || l->r.recomputed[node];
}

/* Whether gradients of `node`'s values have instance `i`. */
static bool has_gradient(const struct ff_lowering *l, uint32_t node, uint32_t i)
{
	return i % 2 == 0 || (i == ff_schedule_due(&l->r) && ff_node_is_parameter(l->g, node));
}

/* Parts that run in turn have tasks that move between theirs; of those that are not lowered there
 * is none. */
int ff_tables_places(struct ff_lowering *l, struct ff_error *err)
{
	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		for (int pass = 0; pass < 2 && l->node[i] && (l->like || l->node[i]->turns.n > 1);
				pass++)
			l->place[pass][i] = list_of(l, l->scratch, l->node[i]->n_parts);
	return l->failed ? ff_fail_memory(err) : FF_OK;
}

/* Tables of what is moved over one edge. */
static void build_table(struct ff_lowering *l, uint32_t e)
{
	uint32_t parts = l->node[l->g->edges[e].node]->n_parts;
	bool own = l->shared_from[e] == FF_NONE;

	for (uint32_t i = 0; i < l->r.n_instances; i++) {
		size_t at = (size_t)e * l->r.n_instances + i;
		bool there = own && has_instance(l, ff_edge_source(l->g, e), i);

		l->r.in[at] = there ? list_of(l, l->a, parts) : NULL;
		l->r.din[at] = has_gradient(l, ff_edge_source(l->g, e), i) ? list_of(l, l->a, parts)
									   : NULL;
	}
}

/* What another edge's moves bring has that edge's tables. */
static void share_tables(struct ff_lowering *l, uint32_t e)
{
	for (uint32_t i = 0; i < l->r.n_instances && l->shared_from[e] != FF_NONE; i++)
		l->r.in[(size_t)e * l->r.n_instances + i] =
				l->r.in[(size_t)l->shared_from[e] * l->r.n_instances + i];
}

/* The tables that say which buffer each part has. */
int ff_tables_build(struct ff_lowering *l, struct ff_error *err)
{
	const struct ff_graph *g = l->g;

	for (int k = 0; k < FF_PHASE_COUNT; k++)
		memset(l->compute[k], 0xff,
				(size_t)g->n_nodes * l->s->micro_batches * sizeof(**l->compute));
	if (!ff_lowering_has_buffers(l))
		return FF_OK;
	for (uint32_t k = 0; k < g->n_values; k++) {
		uint32_t node = g->values[k].producer;
		uint32_t parts = l->node[node] ? l->node[node]->n_parts : 0;

		for (uint32_t i = 0; i < l->r.n_instances; i++) {
			size_t at = (size_t)k * l->r.n_instances + i;

			l->r.out[at] = has_instance(l, node, i) ? list_of(l, l->a, parts) : NULL;
			l->r.dout[at] = has_gradient(l, node, i) ? list_of(l, l->a, parts) : NULL;
		}
	}
	for (uint32_t e = 0; e < g->n_edges; e++)
		build_table(l, e);
	for (uint32_t e = 0; e < g->n_edges; e++)
		share_tables(l, e);
	return l->failed ? ff_fail_memory(err) : FF_OK;
}
