/* What random scenes have met.  SPDX-License-Identifier: Apache-2.0 */
#include "seen.h"

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
		added |= lowered->accumulate[g->uses[v->first_use + u]];
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

void seen_look(struct seen *seen, const struct scene *s)
{
	struct ff_schedule lowered;
	struct ff_arena a;
	struct ff_error err;

	ff_arena_init(&a);
	RIG_OK(ff_lower(&s->graph, &s->machine, &s->strategy, NULL, &a, &lowered, &err));
	look_at_loss(seen, &lowered);
	for (uint32_t k = 0; k < s->graph.n_edges; k++)
		seen->summed += lowered.added[k] != FF_NONE;
	for (uint32_t i = 0; i < s->graph.n_nodes; i++) {
		if (ff_node_is_parameter(&s->graph, i))
			look_at_parameter(seen, &lowered, i);
		else
			seen->replicas += lowered.config[i].replicas > 1;
	}
	for (uint32_t i = 0; i < lowered.n_tasks; i++) {
		const struct ff_task *t = &lowered.tasks[i];
		const struct ff_move *mv = t->move;

		seen->syncs += t->kind == FF_TASK_SYNC;
		if (t->kind == FF_TASK_FORWARD) {
			seen->op[s->graph.nodes[t->node].op]++;
			seen->groups_apart += t->micro > 0 && s->graph.nodes[t->node].kept_apart;
		}
		seen->micro_batches += t->micro > 0;
		seen->again += t->again;
		seen->stages += t->kind == FF_TASK_FORWARD && s->strategy.stage[t->node] > 0;
		if (t->kind != FF_TASK_MOVE)
			continue;
		seen->move[mv->kind]++;
		seen->accumulate += mv->accumulate;
		seen->send_staged += mv->send_staged;
		seen->recv_staged += mv->recv_staged;
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

void seen_check(const struct seen *seen)
{
	for (int k = 0; k < FF_OPTIMIZER_COUNT; k++)
		ck_assert_msg(seen->optimizer[k] > 0, "no case had optimizer %s",
				ff_optimizer((enum ff_optimizer_id)k)->name);
	/* all-reduce is too rare among random strategies: it has a test below */
	for (int k = 0; k < FF_MOVE_ALL_REDUCE; k++)
		ck_assert_msg(seen->move[k] > 0, "no case had a move of kind %s",
				ff_move_name((enum ff_move_kind)k));
	for (int k = FF_OP_PARAMETER + 1; k < FF_OP_COUNT; k++)
		ck_assert_msg(seen->op[k] > 0, "no case had a %s", ff_op_row((enum ff_op)k)->name);
	for (int k = 0; k < 3; k++)
		ck_assert_msg(seen->reduced[k] > 0, "no case had a message of a %s",
				ff_reduce_name((enum ff_reduce)k));
	ck_assert_uint_gt(seen->classes, 0);
	ck_assert_uint_gt(seen->classes_and_samples, 0);
	ck_assert_uint_gt(seen->accumulate, 0);
	ck_assert_uint_gt(seen->send_staged, 0);
	ck_assert_uint_gt(seen->recv_staged, 0);
	ck_assert_uint_gt(seen->straight, 0);
	ck_assert_uint_gt(seen->add, 0);
	ck_assert_uint_gt(seen->syncs, 0);
	ck_assert_uint_gt(seen->replicas, 0);
	ck_assert_uint_gt(seen->micro_batches, 0);
	ck_assert_uint_gt(seen->stages, 0);
	ck_assert_uint_gt(seen->again, 0);
	ck_assert_uint_gt(seen->sharded, 0);
	ck_assert_uint_gt(seen->served, 0);
	ck_assert_uint_gt(seen->replicated, 0);
	ck_assert_uint_gt(seen->added, 0);
	ck_assert_uint_gt(seen->tied_synced, 0);
	ck_assert_uint_gt(seen->tied_brought, 0);
	ck_assert_uint_gt(seen->groups_apart, 0);
	ck_assert_uint_gt(seen->groups_cut, 0);
	ck_assert_uint_gt(seen->summed, 0);
}
