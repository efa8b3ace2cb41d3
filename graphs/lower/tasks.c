/* Tasks: of every step of the program, what is done on which device, on which
 * lanes, after what, with which buffers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tasks.h"

#include "arrivals.h"
#include "computes.h"
#include "delays.h"
#include "dropped.h"
#include "emit.h"
#include "moves.h"
#include "updates.h"

#define FF_WALK struct ff_lowering
#define FF_WALK_MOVE struct ff_move
#define FF_WALK_TASK uint32_t
#define FF_WALK_DONE uint32_t
#define FF_WALK_START FF_NONE
#include "ff/walk.h"

/* ---- what the walk reads ---- */

#define SINK_LOWERING(w) (w)
#include "lower/state/sink_reads.inc"

static inline bool sink_overlaps(const struct ff_lowering *l)
{
	return l->m->overlap;
}

static inline bool sink_passes(const struct ff_lowering *l)
{
	return l->m->message_lane;
}

static inline bool sink_is_shared(const struct ff_lowering *l, uint32_t edge)
{
	return l->g->values[l->g->edges[edge].value].n_uses > 1;
}

static inline bool sink_shares(const struct ff_lowering *l, uint32_t edge, uint32_t other)
{
	return l->shared_from[other] == edge;
}

static inline uint32_t *sink_limited(struct ff_lowering *l, uint32_t device)
{
	return l->told.limited + (size_t)FF_PREFETCH_DISTANCE * device;
}

static inline uint32_t sink_computed(
		const struct ff_lowering *l, const struct ff_step *s, uint32_t part)
{
	return ff_emit_task(l, s->phase, s->micro, s->id, part);
}

/* ---- what becomes of its tasks ---- */

static inline int sink_begin_step(
		struct ff_lowering *l, const struct ff_step *s, struct ff_error *err)
{
	(void)l, (void)s, (void)err;
	return FF_OK;
}

static inline void sink_wait(struct ff_lowering *l, uint32_t *t, uint32_t done)
{
	(void)t;
	ff_emit_depend(l, done);
}

static inline uint32_t sink_begin_move(
		struct ff_lowering *l, const struct ff_step *s, const struct ff_move *mv)
{
	return ff_moves_begin(l, s, mv);
}

static inline void sink_wait_sources(struct ff_lowering *l, uint32_t *t, enum ff_phase phase,
		uint32_t micro, uint32_t node, const struct ff_move *mv)
{
	for (uint32_t i = 0; i < mv->n_sources; i++)
		sink_wait(l, t, ff_emit_task(l, phase, micro, node, mv->source[i]));
}

static inline void sink_wait_late(struct ff_lowering *l, uint32_t *t, const struct ff_step *s)
{
	(void)t, (void)s;
	if (l->r.travel.staleness)
		ff_moves_depend_late(l);
}

static inline void sink_wait_written(struct ff_lowering *l, uint32_t *t, uint32_t value,
		uint32_t micro, const struct ff_move *mv)
{
	(void)t;
	ff_moves_depend_written(l, value, micro, mv);
}

static inline uint32_t sink_end_move(struct ff_lowering *l, uint32_t *t)
{
	(void)t;
	return ff_moves_end(l);
}

static inline uint32_t sink_begin_sync(
		struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	return ff_updates_begin(l, s, bucket, false);
}

static inline uint32_t sink_begin_across(
		struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	return ff_updates_begin(l, s, bucket, true);
}

static inline uint32_t sink_begin_gather(
		struct ff_lowering *l, const struct ff_step *s, uint32_t bucket)
{
	return ff_updates_begin(l, s, bucket, false);
}

static inline void sink_wait_members(
		struct ff_lowering *l, uint32_t *t, const struct ff_step *s, uint32_t bucket)
{
	(void)t;
	ff_updates_depend(l, s, bucket);
}

static inline uint32_t sink_end_bucket(struct ff_lowering *l, uint32_t *t)
{
	(void)t;
	return ff_updates_end(l);
}

static inline int sink_begin_compute(
		struct ff_lowering *l, const struct ff_step *s, struct ff_error *err)
{
	(void)err;
	ff_computes_begin(l, s);
	return FF_OK;
}

static inline void sink_compute_part(struct ff_lowering *l, const struct ff_step *s, uint32_t part)
{
	ff_computes_part(l, s, part);
}

static inline void sink_compute_all(struct ff_lowering *l, const struct ff_step *s)
{
	for (uint32_t p = 0; p < l->node[s->id]->n_parts; p++)
		ff_computes_part(l, s, p);
}

static inline void sink_end_compute(struct ff_lowering *l, const struct ff_step *s)
{
	(void)s;
	ff_computes_end(l);
}

static inline int sink_update(struct ff_lowering *l, const struct ff_step *s, struct ff_error *err)
{
	(void)s, (void)err;
	ff_updates_emit(l);
	return FF_OK;
}

/* ---- who waits for them ---- */

static inline void sink_arrive(struct ff_lowering *l, uint32_t done, enum ff_phase phase,
		uint32_t micro, uint32_t node, const struct ff_move *mv)
{
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		ff_arrive(l, phase, micro, node, mv->sink[i], done);
}

static inline void sink_leave(
		struct ff_lowering *l, uint32_t done, uint32_t param, const struct ff_move *mv)
{
	for (uint32_t i = 0; i < mv->n_sources; i++)
		ff_arrive(l, FF_PHASE_BACKWARD, l->s->micro_batches - 1, param, mv->source[i],
				done);
}

static inline void sink_replace(struct ff_lowering *l, uint32_t done, const struct ff_step *s,
		uint32_t prelude, const struct ff_move *mv)
{
	const uint32_t *alias = l->edge[s->id].backward.alias;

	for (uint32_t p = 0; p < l->node[prelude]->n_parts; p++)
		if (alias[p] != FF_NONE && ff_move_takes_from(mv, alias[p]))
			ff_arrive(l, FF_PHASE_BACKWARD, s->micro, prelude, p, done);
}

static inline void sink_arrive_weights(struct ff_lowering *l, uint32_t done, enum ff_phase phase,
		uint32_t micro, uint32_t edge, const struct ff_bucket_member *m)
{
	uint32_t to = l->g->edges[edge].node, cells = l->node[m->param]->out->cells;
	const uint32_t *alias = l->edge[edge].forward.alias;
	const struct ff_weight_group *g = m->group;

	for (uint32_t p = 0; p < l->node[to]->n_parts; p++)
		if (alias[p] != FF_NONE && alias[p] % cells == g->cell &&
				alias[p] / cells / g->n_devices == g->replica)
			ff_arrive(l, phase, micro, to, p, done);
}

static inline void sink_synced(struct ff_lowering *l, uint32_t bucket, uint32_t done)
{
	l->told.sync[bucket] = done;
}

/* ---- gradients of an earlier step ---- */

/* Whether a step sends on what backward has made of a parameter's gradient. */
static bool sends_gradients(const struct ff_lowering *l, const struct ff_step *s)
{
	return s->kind == FF_STEP_SYNC ||
	       (s->kind == FF_STEP_MOVES && ff_phase_pass(s->phase) == FF_BACKWARD &&
			       ff_emit_from_parameter(l, s->id));
}

/* Gradients that are moved, not all-reduced.  They do not go before forward's moves, by which their
 * readers may have to be brought parameters. */
static void emit_due_moves(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->program.n; i++) {
		const struct ff_step *s = &l->program.step[i];

		if (s->kind != FF_STEP_MOVES || !sends_gradients(l, s))
			continue;
		ff_delays_emit_edge(l, s);
		walk_moves(l, s);
	}
}

/* Tasks of a step whose gradients are of an earlier one, and so there from the start.  All-reduces
 * are spread over forward, from when the first inputs
 * are on their way, so that what moves there waits for few of them, and where the host issues one
 * by one none for all that is computed. */
static void emit_late(struct ff_lowering *l)
{
	const struct ff_step due = {.kind = FF_STEP_SYNC,
			.phase = FF_PHASE_BACKWARD,
			.micro = l->s->micro_batches - 1,
			.id = FF_NONE};
	const struct ff_step *step = l->program.step;
	uint64_t n = l->buckets.n_buckets, passed = 0, forward = 0;
	uint32_t bucket = 0, first = 0, back = 0;

	while (first + 1 < l->program.n && step[first].kind != FF_STEP_COMPUTE)
		first++;
	while (step[back].phase != FF_PHASE_BACKWARD) /* updates, at the latest */
		back++;
	for (uint32_t i = first; i < back; i++)
		forward += step[i].kind != FF_STEP_GATHER;
	for (uint32_t i = 0; i < l->program.n; i++) {
		for (; i >= first && bucket < n && bucket * forward <= passed * n; bucket++) {
			ff_delays_emit_bucket(l, &due, bucket);
			walk_sync(l, &due, bucket);
		}
		passed += i >= first && step[i].kind != FF_STEP_GATHER;
		if (i == back)
			emit_due_moves(l);
		if (!sends_gradients(l, &step[i]))
			walk_step(l, &step[i], NULL);
	}
}

void ff_tasks_emit(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->program.n && !l->r.travel.staleness; i++)
		walk_step(l, &l->program.step[i], NULL);
	if (l->r.travel.staleness)
		emit_late(l);
	l->r.lanes = l->lanes.v;
	l->r.deps = l->deps.v;
}
