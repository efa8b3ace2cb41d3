/* Tasks: of every step of the program, what is done on which device, on which
 * lanes, after what, with which buffers.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tasks.h"

#include "computes.h"
#include "delays.h"
#include "dropped.h"
#include "emit.h"
#include "moves.h"
#include "updates.h"

static void emit_moves(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_redistribution *r = ff_moves_at(l, s->phase, s->id);

	for (uint32_t i = 0; i < r->n_moves; i++)
		ff_moves_emit(l, s, &r->move[i]);
}

static void emit_syncs(struct ff_lowering *l, const struct ff_step *s)
{
	for (uint32_t b = l->buckets.first_at[s->id]; b != FF_NONE;
			b = l->buckets.bucket[b].next_at)
		ff_updates_sync(l, s, b);
}

static void emit_gathers(struct ff_lowering *l, const struct ff_step *s)
{
	bool later = s->phase != FF_PHASE_FORWARD;

	if (!s->limited)
		for (uint32_t b = l->buckets.first_at[s->id]; b != FF_NONE;
				b = l->buckets.bucket[b].next_at)
			ff_updates_gather(l, s, b);
	else if (l->buckets.n_dropped)
		for (uint32_t b = l->buckets.first_opened[later][s->id]; b != FF_NONE;
				b = l->buckets.bucket[b].next_opened[later])
			ff_dropped_gather(l, s, b);
}

static void emit_step(struct ff_lowering *l, const struct ff_step *s)
{
	switch (s->kind) {
	case FF_STEP_MOVES:
		emit_moves(l, s);
		break;
	case FF_STEP_COMPUTE:
		ff_computes_emit(l, s);
		break;
	case FF_STEP_GATHER:
		emit_gathers(l, s);
		break;
	case FF_STEP_SYNC:
		emit_syncs(l, s);
		break;
	case FF_STEP_UPDATE:
		ff_updates_emit(l, s);
		break;
	}
}

/* ---- gradients of an earlier step ---- */

/* Whether a step sends on what backward has made of a parameter's gradient. */
static bool sends_gradients(const struct ff_lowering *l, const struct ff_step *s)
{
	return s->kind == FF_STEP_SYNC ||
	       (s->kind == FF_STEP_MOVES && s->phase == FF_PHASE_BACKWARD &&
			       ff_emit_from_parameter(l, s->id));
}

/* What is moved: readers may have to be brought parameters forward, so it does not go before those.
 */
static void emit_due_moves(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->program.n; i++) {
		const struct ff_step *s = &l->program.step[i];

		if (s->kind != FF_STEP_MOVES || !sends_gradients(l, s))
			continue;
		ff_delays_emit_edge(l, s);
		emit_moves(l, s);
	}
}

/* They are there from the start.  All-reduces are spread over forward, from when the first inputs
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
			ff_updates_sync(l, &due, bucket);
		}
		passed += i >= first && step[i].kind != FF_STEP_GATHER;
		if (i == back)
			emit_due_moves(l);
		if (!sends_gradients(l, &step[i]))
			emit_step(l, &step[i]);
	}
}

void ff_tasks_emit(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->program.n && !l->r.staleness; i++)
		emit_step(l, &l->program.step[i]);
	if (l->r.staleness)
		emit_late(l);
	l->r.lanes = l->lanes.v;
	l->r.deps = l->deps.v;
}
