/* Tasks behind backward: all-reduces of buckets, the norm of their gradients, updates.
 * SPDX-License-Identifier: Apache-2.0 */
#include "updates.h"

#include "arrivals.h"
#include "delays.h"
#include "dropped.h"
#include "emit.h"
#include "ff/bucket_layout.h"
#include "ff/saturate.h"

/* Gradients of a bucket's members in micro-batch `micro` on `device`, or on all (FF_NONE), and
 * moves that take something from them. */
static void depend_on_members(
		struct ff_lowering *l, uint32_t bucket, uint32_t micro, uint32_t device)
{
	const struct ff_bucketing *b = &l->buckets;

	for (uint32_t i = b->bucket[bucket].first; i != FF_NONE; i = b->member[i].next) {
		const struct ff_weight_group *g = b->member[i].group;
		uint32_t param = b->member[i].param;
		const struct ff_node_block *nb = l->node[param];

		for (uint32_t k = 0; k < g->n_devices; k++) {
			uint32_t p = ff_shard_part(
					g->cell, nb->out->cells, g->replica, g->n_devices, k);

			if (device != FF_NONE && nb->device[p] != device)
				continue;
			ff_emit_depend_gradients(l, l->g->nodes[param].out, micro, p);
			ff_depend_arrived(l, FF_PHASE_BACKWARD, micro, param, p);
		}
	}
}

/* Gradients of an earlier step that are due in a bucket, on all of its devices. */
static void depend_on_due(struct ff_lowering *l, uint32_t bucket)
{
	for (uint32_t d = 0; d < l->buckets.bucket[bucket].n_devices; d++)
		ff_emit_depend(l, l->told.delay[bucket] + d);
}

struct ff_bucket ff_updates_bucket(const struct ff_lowering *l, uint32_t i)
{
	const struct ff_bucket_build *k = &l->buckets.bucket[i];
	bool is_summed = k->way.synced && k->n_devices > 1;
	struct ff_bucket b = {.synced = k->way.synced,
			.flat = k->way.flat,
			.scattered = k->way.scattered,
			.dropped = k->way.dropped,
			.codec = l->opt && is_summed ? l->r.travel.codec : NULL,
			.delay = ff_delays_of(l, i),
			.replica = k->replica,
			.replicas = k->replicas,
			.n_devices = k->n_devices,
			.runs = k->way.runs,
			.device = k->device,
			.bytes = k->bytes};

	if (!b.delay) /* those that wait are whole */
		b.sparse = k->sparse;
	b.averaged = l->r.travel.average_every && is_summed;
	return b;
}

struct ff_bucket ff_updates_norm(const struct ff_lowering *l)
{
	return (struct ff_bucket){.synced = true,
			.replicas = 1,
			.runs = 1,
			.bytes = ff_optimizer_align(l->g->dtype, 1)};
}

struct ff_move ff_updates_move(const struct ff_lowering *l, const struct ff_bucket *b,
		enum ff_pass pass, bool across)
{
	bool gathers = pass == FF_FORWARD, reduces = across || !b->flat;
	const struct ff_shard_groups groups = {b->n_devices, b->runs, b->device, across};
	int64_t sent = gathers ? ff_bucket_gathered_bytes(b, l->g->dtype)
			       : ff_bucket_sent_bytes(b, reduces);

	return (struct ff_move){.kind = reduces   ? FF_MOVE_ALL_REDUCE
					: gathers ? FF_MOVE_ALL_GATHER
						  : FF_MOVE_REDUCE_SCATTER,
			.type = gathers ? l->g->dtype : FF_F32,
			.gradients = !gathers && !b->averaged,
			.codec = b->codec,
			.among = {b->flat ? b->runs : 0, across,
					across && ff_shard_groups_are_apart(l->m, &groups)},
			.n_devices = b->n_devices,
			.device = b->device,
			.network_bytes = ff_sat_mul(
					b->averaged ? 1 + l->r.optimizer->states : 1, sent)};
}

uint32_t ff_updates_begin(
		struct ff_lowering *l, const struct ff_step *s, uint32_t bucket, bool across)
{
	static const struct ff_move nothing;
	struct ff_move *mv = ff_arena_alloc(l->a, sizeof(*mv));

	l->failed |= !mv;
	if (mv)
		*mv = ff_updates_move(l, &l->r.buckets[bucket], ff_phase_pass(s->phase), across);
	ff_emit_move(l, s, FF_NONE, mv ? mv : &nothing)->bucket = bucket;
	return l->r.n_tasks - 1;
}

void ff_updates_depend(struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	if (l->r.travel.staleness)
		depend_on_due(l, bucket);
	else
		depend_on_members(l, bucket, s->micro, FF_NONE);
}

uint32_t ff_updates_end(struct ff_lowering *l)
{
	struct ff_task *t = &l->r.tasks[l->r.n_tasks - 1];
	const struct ff_bucket *b = &l->r.buckets[t->bucket];
	int64_t *sum;

	ff_emit_ready(l);
	sum = b->averaged ? &l->r.averaged_bytes : &l->r.network_bytes;
	if (!l->like) /* else it is known */
		*sum = ff_sat_add(*sum, t->move->network_bytes);
	if (!ff_lowering_has_buffers(l))
		return l->r.n_tasks - 1;
	if (b->scattered && ff_task_pass(t) == FF_BACKWARD && !t->move->among.across)
		ff_dropped_take(l, t);
	else if (b->dropped && ff_task_pass(t) == FF_FORWARD)
		ff_dropped_place(l, t);
	return l->r.n_tasks - 1;
}

/* ---- the last step ---- */

/* What the walk tells of is the task at hand. */
struct at_hand {
	uint32_t task;
};

#define FF_WALK struct ff_lowering
#define FF_WALK_TASK struct at_hand
#define FF_WALK_DONE uint32_t
#define FF_WALK_START FF_NONE
#define FF_WALK_BUCKET uint32_t
#include "ff/walk_updates.h"

static inline bool sink_clips(const struct ff_lowering *l)
{
	return l->r.clip != FF_NONE && l->buckets.n_buckets;
}

static inline bool sink_is_late(const struct ff_lowering *l)
{
	return l->r.travel.staleness;
}

static void sink_each_bucket(struct ff_lowering *l, const struct walk_round *r)
{
	l->told.round = l->r.n_tasks;
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		for (uint32_t d = 0; d < l->buckets.bucket[i].n_devices; d++)
			if (ff_device_is_lowered(l, l->buckets.bucket[i].device[d]))
				walk_update(l, r, &i, d);
}

static inline struct at_hand sink_begin_update(struct ff_lowering *l, const struct walk_round *r,
		const uint32_t *bucket, uint32_t position)
{
	const struct ff_step *last = &l->program.step[l->program.n - 1];
	struct ff_task *t = ff_emit_compute(l, last, r->norm ? FF_COMPUTE_NORM : FF_COMPUTE_UPDATE,
			l->buckets.bucket[*bucket].device[position]);

	t->bucket = *bucket;
	if (r->norm && l->r.workspace_bytes[t->device] < FF_NORM_SCRATCH)
		l->r.workspace_bytes[t->device] = FF_NORM_SCRATCH;
	return (struct at_hand){l->r.n_tasks - 1};
}

static inline void sink_wait(struct ff_lowering *l, struct at_hand *t, uint32_t done)
{
	(void)t;
	ff_emit_depend(l, done);
}

static inline bool sink_is_summed(const struct ff_lowering *l, const uint32_t *bucket)
{
	return l->told.sync[*bucket] != FF_NONE;
}

static inline uint32_t sink_summed(const struct ff_lowering *l, const uint32_t *bucket)
{
	return l->told.sync[*bucket];
}

static inline void sink_wait_gradients(
		struct ff_lowering *l, struct at_hand *t, const uint32_t *bucket, uint32_t position)
{
	const struct ff_task *task = &l->r.tasks[t->task];

	(void)position;
	depend_on_members(l, *bucket, task->micro, task->device);
}

static inline void sink_end_update(struct ff_lowering *l, struct at_hand *t)
{
	(void)t;
	ff_emit_ready(l);
}

/* The last bucket holds the norm. */
static uint32_t sink_sum_norms(struct ff_lowering *l)
{
	const struct ff_bucket *all = &l->r.buckets[l->r.clip];
	const struct ff_step *last = &l->program.step[l->program.n - 1];
	uint32_t end = l->r.n_tasks;

	if (all->n_devices < 2)
		return end - 1;
	ff_updates_begin(l, last, l->r.clip, false);
	for (uint32_t i = l->told.round; i < end; i++)
		ff_emit_depend(l, i);
	return ff_updates_end(l);
}

static inline void sink_average(struct ff_lowering *l)
{
	const struct ff_step *last = &l->program.step[l->program.n - 1];
	uint32_t end = l->r.n_tasks;

	for (uint32_t i = 0; i < l->r.n_buckets; i++) {
		if (!l->r.buckets[i].averaged)
			continue;
		ff_updates_begin(l, last, i, false);
		for (uint32_t k = l->told.round; k < end; k++)
			if (l->r.tasks[k].bucket == i)
				ff_emit_depend(l, k);
		ff_updates_end(l);
	}
}

void ff_updates_emit(struct ff_lowering *l)
{
	walk_updates(l);
}
