/* Gradients that are applied some steps late.  What backward writes of them stays where it was
 * made; steps later, as many as the schedule's staleness says, it is copied to where otherwise it
 * would have been written, and from there on all is as ever.  docs/gradients.md tells why.
 * SPDX-License-Identifier: Apache-2.0 */
#include "delays.h"

#include "emit.h"
#include "ff/instance.h"
#include "lower/memory/memory.h"

/* Whether backward of some reader writes the gradient of a parameter's cell where it is updated. */
static bool is_written(const struct ff_lowering *l, uint32_t param, uint32_t cell)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[param].out];
	const struct ff_node_block *nb = l->node[param];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		const uint32_t *alias = l->edge[ff_value_use(l->g, v, u)].backward.alias;

		for (uint32_t p = cell; alias && p < nb->n_parts; p += nb->out->cells)
			if (alias[p] != FF_NONE)
				return true;
	}
	return false;
}

uint32_t ff_delays_of(const struct ff_lowering *l, uint32_t bucket)
{
	const struct ff_bucketing *b = &l->buckets;

	for (uint32_t i = b->bucket[bucket].first; l->r.travel.staleness && i != FF_NONE;
			i = b->member[i].next)
		if (is_written(l, b->member[i].param, b->member[i].group->cell))
			return l->r.travel.staleness;
	return 0;
}

/* What is moved waits at the reader that made it.  What is not is due where it is updated. */
static void build_edge(struct ff_lowering *l, uint32_t edge)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_node_block *param = l->node[ff_edge_source(l->g, edge)];
	const struct ff_node_block *reader = l->node[e->node];
	const uint32_t *alias = l->edge[edge].backward.alias;
	uint32_t *due = ff_emit_list(l, l->r.din, edge, ff_schedule_due(&l->r));
	uint32_t *din = ff_emit_list(l, l->r.din, edge, 0);

	for (uint32_t k = 0; k < param->n_parts; k++)
		if (alias[k] != FF_NONE)
			due[alias[k]] = ff_emit_list(l, l->r.dout, e->value, 0)[k];
	for (uint32_t p = 0; p < reader->n_parts; p++) {
		int64_t bytes = ff_placement_gradient_bytes(&reader->in[e->slot], p);

		if (due[p] == FF_NONE && bytes)
			din[p] = ff_buffer_pin(l, reader->device[p], FF_KEPT,
					l->r.travel.staleness * ff_align64(bytes), 0);
	}
}

void ff_delays_build(struct ff_lowering *l)
{
	for (uint32_t e = 0; e < l->g->n_edges && l->r.travel.staleness; e++)
		if (ff_emit_from_parameter(l, e) && l->edge[e].backward.alias)
			build_edge(l, e);
}

void ff_delays_emit_bucket(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_bucket *b = &l->r.buckets[bucket];

	if (!b->delay)
		return;
	l->told.delay[bucket] = l->r.n_tasks;
	for (uint32_t d = 0; d < b->n_devices; d++) {
		ff_emit_compute(l, s, FF_COMPUTE_DELAY, b->device[d])->bucket = bucket;
		ff_emit_ready(l);
	}
}

void ff_delays_emit_edge(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_edge *e = &l->g->edges[s->id];
	const struct ff_node_block *reader = l->node[e->node];
	const uint32_t *din = ff_emit_list(l, l->r.din, s->id, 0);
	uint32_t *due = ff_emit_list(l, l->r.din, s->id, ff_schedule_due(&l->r));

	for (uint32_t p = 0; p < reader->n_parts; p++) {
		struct ff_task *t;

		if (due[p] != FF_NONE || din[p] == FF_NONE)
			continue;
		t = ff_emit_compute(l, s, FF_COMPUTE_DELAY, reader->device[p]);
		t->edge = s->id;
		t->node = e->node;
		t->part = p;
		ff_emit_ready(l);
		due[p] = ff_emit_shard(
				l, t->device, ff_placement_gradient_bytes(&reader->in[e->slot], p));
		ff_buffer_use(l, due[p]);
	}
}
