/* Snapshots of the pass over the current strategy: a proposal is timed from the last
 * one before anything it changes.  They are taken in the first micro-batch's forward,
 * between what is done for one operator and for the next; what the rest of the pass
 * still reads of the steps before are the lanes, what paces moves, what was moved to
 * operators not yet computed, and, where stages move things late, when operators were
 * done.  SPDX-License-Identifier: Apache-2.0 */
#include "stretch.h"

#include <string.h>

static bool brings(const struct ff_trial *e, const struct ff_step *s)
{
	return s->kind == FF_STEP_MOVES && !e->ends[s->id].computed;
}

/* Whether an operator's turn begins with step `i`. */
static bool begins(const struct ff_trial *e, uint32_t i)
{
	const struct ff_step *s = &e->order.program.step[i];

	return (s->kind == FF_STEP_COMPUTE || brings(e, s)) &&
	       (i == 0 || !brings(e, &e->order.program.step[i - 1]));
}

static void add(struct ff_snapshot *s, struct ff_timed_node *t, uint32_t micro, bool ready)
{
	if (s->read)
		s->read[s->n_read] = (struct ff_saved){.node = t, .micro = micro, .ready = ready};
	s->n_read++;
}

/* What the pass may read behind snapshot `s` of the edges' ends.  Without `s->read` it
 * is only counted. */
static void list_read(struct ff_trial *e, struct ff_snapshot *s)
{
	const struct ff_program *p = &e->order.program;

	s->n_read = 0;
	for (uint32_t k = 0; k < e->g->n_edges; k++) {
		const struct ff_edge_ends *ends = &e->ends[k];
		uint32_t moved = ff_program_moves(p, FF_PHASE_FORWARD, 0, k);
		uint32_t read = ff_program_compute(p, FF_PHASE_FORWARD, 0, ends->to);
		/* weights may be gathered at any step before */
		uint32_t begins = ends->parameter ? 0 : e->order.begins[k];

		if (moved == FF_NONE)
			continue;
		if (begins < s->step && read >= s->step)
			add(s, &e->times.node[FF_PHASE_FORWARD][ends->to], 0, true);
		if (moved < s->step && ends->parameter)
			add(s, &e->times.node[FF_PHASE_BACKWARD][ends->from], p->micro_batches - 1,
					true);
		if (moved >= s->step && ends->computed &&
				ff_program_compute(p, FF_PHASE_FORWARD, 0, ends->from) < s->step)
			add(s, &e->times.node[FF_PHASE_FORWARD][ends->from], 0, false);
	}
}

static int plan(struct ff_trial *e, struct ff_snapshot *s, uint32_t step, struct ff_error *err)
{
	struct ff_arena *a = &e->snapshots.plan_arena;

	ff_arena_rewind(a, s == e->snapshots.at ? (struct ff_arena_mark){0} : s[-1].planned);
	*s = (struct ff_snapshot){.step = step};
	list_read(e, s);
	s->lane = ff_arena_array(a, ff_lane_count(e->m), sizeof(*s->lane));
	s->idle = ff_arena_array(a, ff_lane_count(e->m), sizeof(*s->idle));
	s->limited = ff_arena_array(
			a, FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices, sizeof(*s->limited));
	s->read = ff_arena_array(a, s->n_read, sizeof(*s->read));
	s->saved = ff_arena_array(a, s->n_read, sizeof(*s->saved));
	if (!s->lane || !s->idle || !s->limited || !s->read || !s->saved)
		return ff_fail_memory(err);
	list_read(e, s);
	s->planned = ff_arena_mark(a);
	return FF_OK;
}

/* Those that are taken already hold, where they are at the same steps: all before these is as
 * it was. */
int ff_snapshots_plan(struct ff_trial *e, struct ff_error *err)
{
	uint32_t end = e->order.program.n_ahead, turns = 0, every, n = 0;
	int code = FF_OK;

	for (uint32_t i = 1; i < end; i++)
		turns += begins(e, i);
	every = turns / FF_SNAPSHOTS + 1;
	turns = 0;
	for (uint32_t i = 1; i < end && code == FF_OK; i++) {
		struct ff_snapshot *s = &e->snapshots.at[n];

		if (!begins(e, i) || turns++ % every != 0)
			continue;
		if (n >= e->snapshots.n_taken || s->step != i) {
			e->snapshots.n_taken = n < e->snapshots.n_taken ? n : e->snapshots.n_taken;
			code = plan(e, s, i, err);
		}
		n++;
	}
	e->snapshots.n_taken = n < e->snapshots.n_taken ? n : e->snapshots.n_taken;
	e->snapshots.n = code == FF_OK ? n : 0;
	e->snapshots.planned = code == FF_OK;
	return code;
}

static double *times_of(const struct ff_trial *e, const struct ff_saved *s)
{
	return s->ready ? ff_timed_ready(s->node, s->micro) : ff_time_finish(e, s->node, s->micro);
}

/* Nothing arrives at a parameter that is not moved; one that is synchronised has no parts. */
static bool is_empty(const struct ff_saved *s)
{
	return s->ready && (!s->node->n || !s->node->arrived[s->micro]);
}

int ff_snapshot_take(struct ff_trial *e, struct ff_snapshot *s, struct ff_error *err)
{
	size_t size = ff_lane_count(e->m) * sizeof(*s->lane);

	ff_arena_rewind(&e->snapshots.arena,
			s == e->snapshots.at ? (struct ff_arena_mark){0} : s[-1].end);
	memcpy(s->lane, e->times.lane, size);
	memcpy(s->idle, e->times.idle, size);
	memcpy(s->limited, e->times.limited,
			FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices * sizeof(*s->limited));
	s->n_saved = 0;
	for (uint32_t i = 0; i < s->n_read; i++) {
		struct ff_saved v = s->read[i];

		if (is_empty(&v))
			continue;
		v.times = ff_arena_copy(
				&e->snapshots.arena, times_of(e, &v), v.node->n, sizeof(*v.times));
		if (!v.times)
			return ff_fail_memory(err);
		s->saved[s->n_saved++] = v;
	}
	s->end = ff_arena_mark(&e->snapshots.arena);
	e->snapshots.n_taken = (uint32_t)(s - e->snapshots.at) + 1;
	return FF_OK;
}

static void restore(struct ff_trial *e, const struct ff_snapshot *s)
{
	size_t size = ff_lane_count(e->m) * sizeof(*s->lane);

	memcpy(e->times.lane, s->lane, size);
	memcpy(e->times.idle, s->idle, size);
	memcpy(e->times.limited, s->limited,
			FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices * sizeof(*s->limited));
	for (uint32_t i = 0; i < s->n_saved; i++) {
		const struct ff_saved *v = &s->saved[i];

		if (v->ready)
			ff_time_expect(e, v->node, v->micro);
		memcpy(times_of(e, v), v->times, v->node->n * sizeof(*v->times));
	}
}

const struct ff_snapshot *ff_snapshot_behind(const struct ff_trial *e, uint32_t last)
{
	uint32_t n = e->snapshots.recorded ? e->snapshots.n : 0, k = 0;

	while (k < n && e->snapshots.at[k].step <= last)
		k++;
	return k < n ? &e->snapshots.at[k] : NULL;
}

uint32_t ff_snapshots_resume(struct ff_trial *e, uint32_t first)
{
	uint32_t k = e->snapshots.n_taken;

	while (k > 0 && e->snapshots.at[k - 1].step > first)
		k--;
	if (!k)
		return 0;
	restore(e, &e->snapshots.at[k - 1]);
	return e->snapshots.at[k - 1].step;
}

void ff_snapshots_keep(struct ff_trial *e, uint32_t first)
{
	e->snapshots.recorded = false;
	while (e->snapshots.n_taken > 0 && e->snapshots.at[e->snapshots.n_taken - 1].step > first)
		e->snapshots.n_taken--;
}
