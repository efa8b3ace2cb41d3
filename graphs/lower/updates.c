/* Tasks behind backward: all-reduces of buckets, the norm of their gradients, updates.
 * SPDX-License-Identifier: Apache-2.0 */
#include "updates.h"

#include "clocks.h"
#include "dropped.h"
#include "emit.h"

/* Tasks that write the gradient of one part of a parameter last. */
static void depend_on_gradient(struct ff_lowering *l, uint32_t param, uint32_t part)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++)
		ff_emit_depend(l, ff_emit_gradient_from(l, l->g->uses[v->first_use + u],
						  l->s->micro_batches - 1, part));
}

/* Moves that bring one part of a parameter to its readers: it must not change before. */
static void depend_on_readers(struct ff_lowering *l, uint32_t param, uint32_t part)
{
	const struct ff_value *v = &l->g->values[l->g->nodes[param].out];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = l->g->uses[v->first_use + u];
		const struct ff_redistribution *r = &l->edge[edge].forward;
		uint32_t **moved = l->moved[FF_FORWARD] + (size_t)edge * l->r.n_instances;

		for (uint32_t i = 0; i < r->n_moves; i++)
			for (uint32_t k = 0; k < l->r.n_instances; k++)
				if (moved[k] && ff_emit_takes_from(&r->move[i], part))
					ff_emit_depend(l, moved[k][r->move[i].sink[0]]);
	}
}

/* What uses a bucket's members on `device`, or on all (FF_NONE), before their update. */
static void depend_on_members(struct ff_lowering *l, uint32_t bucket, uint32_t device)
{
	const struct ff_bucketing *b = &l->buckets;

	for (uint32_t i = b->bucket[bucket].first; i != FF_NONE; i = b->member[i].next) {
		uint32_t param = b->member[i].param;
		const struct ff_node_block *nb = l->node[param];

		for (uint32_t p = b->member[i].cell; p < nb->n_parts; p += nb->out->cells)
			if (device == FF_NONE || nb->device[p] == device) {
				depend_on_gradient(l, param, p);
				depend_on_readers(l, param, p);
			}
	}
}

/* Gradients of an earlier step that are due in a bucket, on all of its devices. */
static void depend_on_due(struct ff_lowering *l, uint32_t bucket)
{
	for (uint32_t d = 0; d < l->buckets.bucket[bucket].n_devices; d++)
		ff_emit_depend(l, l->delay_task[bucket] + d);
}

void ff_updates_sync(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_bucket_build *b = &l->buckets.bucket[bucket];

	if (b->n_devices < 2 || !b->synced || l->r.buckets[bucket].averaged)
		return;
	l->sync_task[bucket] = l->r.n_tasks;
	ff_emit_begin(l, FF_TASK_SYNC, s)->bucket = bucket;
	ff_emit_occupy_transfer(l, b->n_devices, b->device);
	if (l->r.staleness)
		depend_on_due(l, bucket);
	else
		depend_on_members(l, bucket, FF_NONE);
	ff_clock_tick(l);
	ff_dropped_take(l, bucket);
	l->r.network_bytes += ff_bucket_sent_bytes(&l->r.buckets[bucket]);
}

void ff_updates_gather(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_bucket *b = &l->r.buckets[bucket];

	if (!b->flat || b->dropped)
		return;
	l->gather_task[(size_t)bucket * l->r.n_instances] = l->r.n_tasks;
	ff_emit_begin(l, FF_TASK_SYNC, s)->bucket = bucket;
	ff_emit_occupy_transfer(l, b->n_devices, b->device);
	ff_clock_tick(l);
	l->r.network_bytes += ff_bucket_gathered_bytes(b, l->g->dtype);
}

/* Of the one bucket that holds it, the norm of all gradients: shares of it, then their sum. */
static void emit_norm(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_bucket *all = &l->r.buckets[l->r.clip];
	uint32_t first = l->r.n_tasks, end;

	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		for (uint32_t d = 0; d < l->buckets.bucket[i].n_devices; d++) {
			struct ff_task *t = ff_emit_begin(l, FF_TASK_NORM, s);

			t->bucket = i;
			t->device = l->buckets.bucket[i].device[d];
			if (l->r.workspace_bytes[t->device] < FF_NORM_SCRATCH)
				l->r.workspace_bytes[t->device] = FF_NORM_SCRATCH;
			ff_emit_occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
			if (l->sync_task[i] != FF_NONE)
				ff_emit_depend(l, l->sync_task[i]);
			else
				depend_on_members(l, i, t->device);
			ff_clock_tick(l);
		}
	end = l->r.n_tasks;
	l->sync_task[l->r.clip] = end - 1;
	if (all->n_devices < 2)
		return;
	l->sync_task[l->r.clip] = end;
	ff_emit_begin(l, FF_TASK_SYNC, s)->bucket = l->r.clip;
	ff_emit_occupy_transfer(l, all->n_devices, all->device);
	for (uint32_t i = first; i < end; i++)
		ff_emit_depend(l, i);
	ff_clock_tick(l);
	l->r.network_bytes += ff_bucket_sent_bytes(all);
}

/* Behind all updates, which begin with task `first`. */
static void emit_averages(struct ff_lowering *l, const struct ff_step *s, uint32_t first)
{
	uint32_t end = l->r.n_tasks;

	for (uint32_t i = 0; i < l->r.n_buckets; i++) {
		const struct ff_bucket *b = &l->r.buckets[i];

		if (!b->averaged)
			continue;
		ff_emit_begin(l, FF_TASK_SYNC, s)->bucket = i;
		ff_emit_occupy_transfer(l, b->n_devices, b->device);
		for (uint32_t k = first; k < end; k++)
			if (l->r.tasks[k].bucket == i)
				ff_emit_depend(l, k);
		ff_clock_tick(l);
		l->r.averaged_bytes +=
				(1 + (int64_t)l->r.optimizer->states) * ff_bucket_sent_bytes(b);
	}
}

void ff_updates_emit(struct ff_lowering *l, const struct ff_step *s)
{
	uint32_t first;

	if (l->r.clip != FF_NONE && l->buckets.n_buckets)
		emit_norm(l, s);
	first = l->r.n_tasks;
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		for (uint32_t d = 0; d < l->buckets.bucket[i].n_devices; d++) {
			struct ff_task *t = ff_emit_begin(l, FF_TASK_UPDATE, s);

			t->bucket = i;
			t->device = l->buckets.bucket[i].device[d];
			ff_emit_occupy(l, ff_lane(l->m, FF_LANE_COMPUTE, t->device));
			ff_emit_depend(l, l->sync_task[i]);
			/* of an earlier step's gradients: this one's backward reads the weights */
			if (l->sync_task[i] == FF_NONE || l->r.staleness)
				depend_on_members(l, i, t->device);
			if (l->r.clip != FF_NONE)
				ff_emit_depend(l, l->sync_task[l->r.clip]);
			ff_clock_tick(l);
		}
	if (l->r.average_every)
		emit_averages(l, s, first);
}
