/* What random scenes have met.  SPDX-License-Identifier: Apache-2.0 */
#include "seen.h"

#include <stddef.h>

static void look_at_loss(struct seen *seen, const struct ff_schedule *lowered)
{
	uint32_t last = lowered->graph->loss[lowered->graph->n_losses - 1];
	const struct ff_node *loss = &lowered->graph->nodes[last];
	const struct ff_config *c = &lowered->config[last];
	uint32_t prelude = ff_node_prelude(lowered->graph, last);

	seen->classes += c->degree[loss->n_dims - 1] > 1;
	seen->classes_and_samples += c->degree[loss->n_dims - 1] > 1 && c->degree[0] > 1;
	ck_assert(ff_config_equal(loss, c, &lowered->config[prelude]));
}

static void look_at_parameter(struct seen *seen, const struct ff_schedule *lowered, uint32_t node)
{
	const struct ff_graph *g = lowered->graph;
	const struct ff_value *v = &g->values[g->nodes[node].out];
	const struct ff_config *own = &lowered->strategy->config[node];
	bool added = false;

	for (uint32_t u = 0; u < v->n_uses; u++)
		added |= lowered->accumulate[ff_value_use(g, v, u)];
	seen->added += added;
	for (uint32_t i = 0; i < lowered->n_shards && v->n_uses > 1; i++)
		if (lowered->shards[i].node == node) {
			bool synced = lowered->buckets[lowered->shards[i].bucket].synced;

			*(synced ? &seen->tied_synced : &seen->tied_brought) += 1;
		}
	if (!own->n_parts)
		return;
	seen->sharded += own->n_parts > own->replicas;
	seen->served += own->n_parts == 1;
	seen->replicated += own->replicas > 1;
}

static void look(struct seen *seen, const struct scene *s)
{
	struct ff_schedule lowered;
	struct ff_arena a;
	struct ff_error err;

	ff_arena_init(&a);
	RIG_OK(ff_lower(&s->graph, &s->machine, &s->strategy, NULL, &a, &lowered, &err));
	seen->optimizer[s->optimizer->id]++;
	look_at_loss(seen, &lowered);
	for (uint32_t k = 0; k < s->graph.n_edges; k++)
		seen->summed += lowered.added[k] != FF_NONE;
	for (uint32_t i = 0; i < s->graph.n_nodes; i++) {
		if (ff_node_is_parameter(&s->graph, i))
			look_at_parameter(seen, &lowered, i);
		else
			seen->replicas += lowered.config[i].replicas > 1;
	}
	for (uint32_t i = 0; i < lowered.n_buckets; i++) {
		seen->flat += lowered.buckets[i].flat && !lowered.buckets[i].scattered;
		seen->grouped += lowered.buckets[i].flat &&
				 ff_bucket_groups(&lowered.buckets[i]) > 1;
		seen->scattered += lowered.buckets[i].scattered && !lowered.buckets[i].dropped;
		seen->dropped += lowered.buckets[i].dropped;
	}
	for (uint32_t i = 0; i < lowered.n_tasks; i++) {
		const struct ff_task *t = &lowered.tasks[i];
		const struct ff_move *mv = t->move;

		seen->syncs += ff_task_moves_bucket(t);
		seen->beside += s->machine.message_lane && ff_task_moves_bucket(t) &&
				mv->among.beside;
		seen->summed_again += ff_task_moves_bucket(t) && ff_task_pass(t) == FF_BACKWARD &&
				      lowered.buckets[t->bucket].scattered && t->micro > 0;
		if (ff_task_computes_in(t, FF_FORWARD)) {
			seen->op[s->graph.nodes[t->node].op]++;
			seen->groups_apart += t->micro > 0 && s->graph.nodes[t->node].kept_apart;
		}
		seen->micro_batches += t->micro > 0;
		seen->recomputed += t->phase == FF_PHASE_RECOMPUTE;
		seen->stages += ff_task_computes_in(t, FF_FORWARD) &&
				s->strategy.stage[t->node] > 0;
		if (!ff_task_moves_edge(t))
			continue;
		seen->move[mv->kind]++;
		seen->accumulate += mv->accumulate;
		seen->joins += mv->joins;
		seen->send_staged += mv->send_staged;
		seen->recv_staged += mv->recv_staged;
		seen->reduced[mv->reduce] += mv->kind == FF_MOVE_ALL_REDUCE ||
					     mv->kind == FF_MOVE_REDUCE_SCATTER;
		for (uint32_t k = 0; k < mv->n_pieces; k++) {
			const struct ff_piece *p = &mv->piece[k];

			seen->add += p->add;
			seen->reduced[mv->reduce] += p->add;
			seen->groups_cut += p->add && mv->reduce == FF_REDUCE_MOMENTS &&
					    p->region.rank == 3;
			seen->straight +=
					p->from != p->to && p->send_stage < 0 && p->recv_stage < 0;
		}
	}
	ff_arena_finish(&a);
}

bool seen_look(struct seen *seen, const struct scene *s)
{
	struct seen own = {0};
	const uint32_t *from = (const uint32_t *)&own;
	uint32_t *to = (uint32_t *)seen;
	bool first = false;

	look(&own, s);
	for (size_t i = 0; i < sizeof(own) / sizeof(*from); i++) {
		first |= from[i] && !to[i];
		to[i] += from[i];
	}
	return first;
}

/* Counts that go by no other name. */
static const struct {
	const char *name;
	size_t offset;
} kinds[] = {
#define KIND(field)                                                                                \
	{                                                                                          \
#field, offsetof(struct seen, field)                                               \
	}
		KIND(accumulate),
		KIND(send_staged),
		KIND(recv_staged),
		KIND(straight),
		KIND(add),
		KIND(syncs),
		KIND(joins),
		KIND(replicas),
		KIND(micro_batches),
		KIND(stages),
		KIND(recomputed),
		KIND(sharded),
		KIND(served),
		KIND(replicated),
		KIND(flat),
		KIND(grouped),
		KIND(beside),
		KIND(scattered),
		KIND(dropped),
		KIND(summed_again),
		KIND(summed),
		KIND(added),
		KIND(tied_synced),
		KIND(tied_brought),
		KIND(classes),
		KIND(classes_and_samples),
		KIND(groups_apart),
		KIND(groups_cut),
#undef KIND
};

const char *seen_lacks(const struct seen *seen)
{
	for (int k = 0; k < FF_OPTIMIZER_COUNT; k++)
		if (!seen->optimizer[k])
			return ff_optimizer((enum ff_optimizer_id)k)->name;
	/* all-reduce is too rare among random strategies: test_executor.c has a test of it */
	for (int k = 0; k < FF_MOVE_ALL_REDUCE; k++)
		if (!seen->move[k])
			return ff_move_name((enum ff_move_kind)k);
	for (int k = FF_OP_PARAMETER + 1; k < FF_OP_COUNT; k++)
		if (!seen->op[k])
			return ff_op_row((enum ff_op)k)->name;
	for (int k = 0; k < 3; k++)
		if (!seen->reduced[k])
			return ff_reduce_name((enum ff_reduce)k);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!*(const uint32_t *)((const char *)seen + kinds[i].offset))
			return kinds[i].name;
	return NULL;
}
