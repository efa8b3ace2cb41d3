/* What walks of the evaluator must have met.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SEEN_H
#define FF_TESTS_SEEN_H

#include "ff/schedule.h"

#define MAX_CHANGES 6

/* What the walks must have met, or they test too little. */
struct seen {
	uint32_t fits, misfits, tight, layout_over;
	uint32_t kinds, wired, rounded, measured, scratch, kept, dropped, sets;
	uint32_t forgotten, slower, not_slower, resumed, sieved, left, leapt;
	uint32_t syncs, flat, grouped, beside, buckets_scattered, buckets_dropped, owned,
			accumulated, tied_moved, replicas, followed, changes[MAX_CHANGES];
	uint32_t micro_batches, kept_apart, stages, recomputed, brought_again, limited;
	uint32_t shared[FF_VALUE_SAVED], shared_again; /* by kind of value */
	uint32_t summed, summed_apart, summed_at_once; /* gradients of data; in micro-batches */
	uint32_t optimizer[FF_OPTIMIZER_COUNT], clipped, compressed, moved_compressed, moved_plain;
	uint32_t rejected, in_vain; /* early; of them, wrongly */
	uint32_t foreseen;          /* too slow by what slows devices down, or by buckets */
	uint32_t sliced[2];         /* moves, forward and backward */
	uint32_t lacking, not_lacking;
	uint32_t reorders_kept, reorders_dropped, reorders_slower, reorders_recorded;
	uint32_t reorders_rejected;
	uint32_t reorders_resumed, reorders_recounted, snapshots_left;
	uint32_t done;
	uint32_t equal, equal_but_in_bytes, joined; /* edges where all devices of some do alike */
	uint32_t moved_alike, moved_in_part; /* edges of whose parts all move, or only some */
	uint32_t stretches, too_long;        /* passes with some; where sums would not be exact */
	uint32_t scattered_alike; /* the same bytes, on other devices than the bucket before */
};

/* Whether what task `t` moves is what is read at `edge`, too. */
static inline bool is_shared(const struct ff_schedule *plan, const struct ff_task *t, uint32_t edge)
{
	size_t n = plan->n_instances;
	const uint32_t *const *in = plan->in;

	return t->edge != edge && plan->graph->edges[edge].shared == FF_NONE &&
	       in[edge * n] == in[t->edge * n];
}

/* Moves that bring several operators what they read, but for those of preludes. */
static inline void look_at_sharing(struct seen *seen, const struct ff_schedule *plan)
{
	const struct ff_graph *g = plan->graph;

	for (uint32_t i = 0; i < plan->n_tasks; i++) {
		const struct ff_task *t = &plan->tasks[i];
		const struct ff_value *v;

		if (!ff_task_moves_edge(t) || ff_task_pass(t) != FF_FORWARD)
			continue;
		v = &g->values[g->edges[t->edge].value];
		for (uint32_t u = 0; u < v->n_uses; u++)
			if (is_shared(plan, t, ff_value_use(g, v, u))) {
				seen->shared[v->kind]++;
				seen->shared_again += t->phase == FF_PHASE_RECOMPUTE;
			}
	}
}

static inline bool is_scattered_alike(const struct ff_bucket *a, const struct ff_bucket *b)
{
	return a->scattered && b->scattered && a->bytes == b->bytes && a->device[0] != b->device[0];
}

static inline void look(struct seen *seen, const struct ff_schedule *plan)
{
	const struct ff_graph *g = plan->graph;

	for (uint32_t i = 0; i < plan->n_buckets; i++) {
		seen->syncs += plan->buckets[i].synced && plan->buckets[i].n_devices > 1;
		seen->owned += !plan->buckets[i].synced;
		seen->flat += plan->buckets[i].flat;
		seen->scattered_alike +=
				i && is_scattered_alike(&plan->buckets[i - 1], &plan->buckets[i]);
		seen->grouped += plan->buckets[i].flat && ff_bucket_groups(&plan->buckets[i]) > 1;
		seen->buckets_scattered += plan->buckets[i].scattered && !plan->buckets[i].dropped;
		seen->buckets_dropped += plan->buckets[i].dropped;
	}
	for (uint32_t k = 0; k < g->n_edges; k++) {
		uint32_t sum = plan->added[k];

		seen->accumulated += plan->accumulate[k];
		seen->summed += sum != FF_NONE;
		seen->summed_apart += sum != FF_NONE && plan->strategy->micro_batches > 1;
		seen->summed_at_once += sum != FF_NONE && g->edges[sum].node == g->edges[k].node;
	}
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		bool tied = ff_node_is_parameter(g, i) && g->values[g->nodes[i].out].n_uses > 1;

		seen->replicas += ff_node_is_computed(g, i) && plan->config[i].replicas > 1;
		seen->tied_moved += tied && plan->strategy->config[i].n_parts > 0;
		seen->kept_apart += g->nodes[i].kept_apart && plan->strategy->micro_batches > 1;
	}
	look_at_sharing(seen, plan);
	seen->micro_batches += plan->strategy->micro_batches > 1;
	for (uint32_t i = 0; i < plan->n_tasks; i++) {
		const struct ff_task *t = &plan->tasks[i];
		bool moved = ff_task_moves_edge(t) && t->phase == FF_PHASE_RECOMPUTE;

		seen->recomputed += ff_task_computes_in(t, FF_FORWARD) &&
				    t->phase == FF_PHASE_RECOMPUTE;
		seen->brought_again += moved && ff_node_is_parameter(g, ff_edge_source(g, t->edge));
		if (ff_task_moves_edge(t) && t->move->joins)
			seen->sliced[ff_task_pass(t)]++;
		seen->beside += t->move && t->move->among.beside;
		seen->moved_compressed += ff_task_moves_edge(t) && t->move->codec;
		seen->stages += ff_task_computes_in(t, FF_FORWARD) &&
				plan->strategy->stage[t->node];
	}
	seen->moved_plain += plan->plain_bytes > 0;
	for (uint32_t d = 0; d < plan->machine->n_devices; d++)
		seen->scratch += plan->workspace_bytes[d] > 0;
}

#endif
