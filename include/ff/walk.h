/* The walk over the steps of a program: which tasks a strategy has, what each of them waits for,
 * and who waits for it.  These rules stand here once.  Who reads them includes this file: ff_lower
 * makes a schedule of the walk (graphs/lower/tasks.c), the evaluator makes times of it
 * (simulator/evaluate/time.c).  It is included, not called, so that the compiler merges it with
 * its reader: a search makes this walk for every proposal.  docs/schedule.md tells the rules in
 * words.
 *
 * A reader is a *sink* of tasks.  It defines, before the include,
 *   FF_WALK        its state
 *   FF_WALK_MOVE   a move of a redistribution, as it keeps it
 *   FF_WALK_TASK   a task while it is told
 *   FF_WALK_DONE   when a task is done: its number, or its time
 *   FF_WALK_START  when what comes before all tasks is done
 * and, before or behind it, the functions `sink_...` that are declared here.  A task is told
 * whole: begun, what it waits for, ended, who waits for it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/block.h"

/* ---- what a sink knows ---- */

static inline const struct ff_graph *sink_graph(const FF_WALK *w);
static inline const struct ff_program *sink_program(const FF_WALK *w);
static inline bool sink_overlaps(const FF_WALK *w); /* moves run beside what is computed */
static inline struct ff_edge_ends sink_ends(const FF_WALK *w, uint32_t edge);
static inline const struct ff_node_block *sink_block(const FF_WALK *w, uint32_t node);
/* Each device updates by its own gradients, and none are summed. */
static inline bool sink_averages(const FF_WALK *w);
/* Buckets whose gradients lie where they are summed; others may be among them. */
static inline const struct ff_bucketing *sink_buckets(const FF_WALK *w);
static inline uint32_t sink_n_moves(const FF_WALK *w, enum ff_pass pass, uint32_t edge);
static inline const FF_WALK_MOVE *sink_move(
		const FF_WALK *w, enum ff_pass pass, uint32_t edge, uint32_t i);
static inline const struct ff_move *sink_move_parts(const FF_WALK_MOVE *mv);
/* Whether what is moved at `edge` may be read at others, and whether it is at `other`. */
static inline bool sink_is_shared(const FF_WALK *w, uint32_t edge);
static inline bool sink_shares(const FF_WALK *w, uint32_t edge, uint32_t other);
/* Of `device`, when its last FF_PREFETCH_DISTANCE limited computes are done, last first. */
static inline FF_WALK_DONE *sink_limited(FF_WALK *w, uint32_t device);
/* When a part is done that step `s` has computed. */
static inline FF_WALK_DONE sink_computed(const FF_WALK *w, const struct ff_step *s, uint32_t part);

/* ---- what it makes of a task ---- */

/* What `s` asks for before it is walked. */
static inline int sink_begin_step(FF_WALK *w, const struct ff_step *s, struct ff_error *err);
static inline FF_WALK_TASK sink_begin_move(
		FF_WALK *w, const struct ff_step *s, const FF_WALK_MOVE *mv);
static inline FF_WALK_TASK sink_begin_sync(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
static inline FF_WALK_TASK sink_begin_gather(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
/* The task waits until `done`. */
static inline void sink_wait(FF_WALK *w, FF_WALK_TASK *t, FF_WALK_DONE done);
/* ... for the parts of `node` that the move takes from, as `phase` has computed them. */
static inline void sink_wait_sources(FF_WALK *w, FF_WALK_TASK *t, enum ff_phase phase,
		uint32_t micro, uint32_t node, const FF_WALK_MOVE *mv);
/* ... for gradients of an earlier step that the move takes, where some are late. */
static inline void sink_wait_late(FF_WALK *w, FF_WALK_TASK *t, const struct ff_step *s);
/* ... for the gradient of `value` that the move adds to, where the reader that backward comes to
 * first has made it in place: what was moved there stands before it on its lanes. */
static inline void sink_wait_written(FF_WALK *w, FF_WALK_TASK *t, uint32_t value, uint32_t micro,
		const FF_WALK_MOVE *mv);
/* ... for the gradients of all members of a bucket, on all of its devices. */
static inline void sink_wait_members(FF_WALK *w, FF_WALK_TASK *t, uint32_t bucket);
static inline FF_WALK_DONE sink_end_move(FF_WALK *w, FF_WALK_TASK *t);
static inline FF_WALK_DONE sink_end_bucket(FF_WALK *w, FF_WALK_TASK *t);

/* All parts of what step `s` computes, which run side by side, or one, of those that run in turn.
 */
static inline int sink_begin_compute(FF_WALK *w, const struct ff_step *s, struct ff_error *err);
static inline void sink_compute_all(FF_WALK *w, const struct ff_step *s);
static inline void sink_compute_part(FF_WALK *w, const struct ff_step *s, uint32_t part);
static inline void sink_end_compute(FF_WALK *w, const struct ff_step *s);
/* The norm of all gradients and the updates: ff/walk_updates.h. */
static inline int sink_update(FF_WALK *w, const struct ff_step *s, struct ff_error *err);

/* ---- who waits for it ---- */

/* What `phase` computes of `node`, of its parts those that the move brings something; where the
 * node is a parameter and the phase backward, its update. */
static inline void sink_arrive(FF_WALK *w, FF_WALK_DONE done, enum ff_phase phase, uint32_t micro,
		uint32_t node, const FF_WALK_MOVE *mv);
/* The update of a parameter, of its parts those that the move takes from. */
static inline void sink_leave(
		FF_WALK *w, FF_WALK_DONE done, uint32_t param, const FF_WALK_MOVE *mv);
/* Backward of a prelude, which replaces in place the gradient that the move at `edge` takes. */
static inline void sink_replace(FF_WALK *w, FF_WALK_DONE done, const struct ff_step *s,
		uint32_t prelude, const FF_WALK_MOVE *mv);
/* What `phase` computes of the node that reads weights over `edge`, of its parts those that read
 * the ones of member `m`. */
static inline void sink_arrive_weights(FF_WALK *w, FF_WALK_DONE done, enum ff_phase phase,
		uint32_t micro, uint32_t edge, const struct ff_bucket_member *m);
/* Who waits for the gradients of a bucket, once they are summed; FF_WALK_START: nobody sums. */
static inline void sink_synced(FF_WALK *w, uint32_t bucket, FF_WALK_DONE done);

/* ---- moves ---- */

/* Limited: it waits on `device` for the last but FF_PREFETCH_DISTANCE of its limited computes.
 * Where nothing runs beside what is computed it does so anyway. */
static void walk_limit(FF_WALK *w, const struct ff_step *s, FF_WALK_TASK *t, uint32_t device)
{
	if (s->limited && sink_overlaps(w))
		sink_wait(w, t, sink_limited(w, device)[FF_PREFETCH_DISTANCE - 1]);
}

/* The move of step `s` has brought something to who reads at `edge`. */
static void walk_arrive(FF_WALK *w, const struct ff_step *s, uint32_t edge, const FF_WALK_MOVE *mv,
		FF_WALK_DONE done)
{
	uint32_t to = sink_ends(w, edge).to;
	enum ff_phase reads = s->phase;

	if (s->phase == FF_PHASE_RECOMPUTE) {
		to = ff_edge_reader(sink_graph(w), sink_program(w), edge);
		reads = ff_node_reads_in(sink_program(w), to);
	}
	sink_arrive(w, done, reads, s->micro, to, mv);
}

/* The other uses of the value that read what was moved over the edge of step `s`. */
static void walk_share(
		FF_WALK *w, const struct ff_step *s, const FF_WALK_MOVE *mv, FF_WALK_DONE done)
{
	const struct ff_graph *g = sink_graph(w);
	const struct ff_value *v = &g->values[sink_ends(w, s->id).value];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = g->uses[v->first_use + u];

		if (sink_shares(w, s->id, other) &&
				(s->phase != FF_PHASE_RECOMPUTE ||
						ff_edge_read_again(g, sink_program(w), other)))
			walk_arrive(w, s, other, mv, done);
	}
}

/* Values: a parameter is not updated before it was brought to who reads it. */
static void walk_forward(FF_WALK *w, const struct ff_step *s, const FF_WALK_MOVE *mv)
{
	const struct ff_edge_ends ends = sink_ends(w, s->id);
	const struct ff_move *parts = sink_move_parts(mv);
	FF_WALK_TASK t = sink_begin_move(w, s, mv);
	FF_WALK_DONE done;

	if (ends.computed)
		sink_wait_sources(w, &t, s->phase, s->micro, ends.from, mv);
	if (s->limited)
		for (uint32_t k = 0; k < parts->n_sinks; k++)
			walk_limit(w, s, &t, sink_block(w, ends.to)->device[parts->sink[k]]);
	done = sink_end_move(w, &t);
	walk_arrive(w, s, s->id, mv, done);
	if (sink_is_shared(w, s->id))
		walk_share(w, s, mv, done);
	if (ends.parameter)
		sink_leave(w, done, ends.from, mv);
}

/* Gradients. */
static void walk_backward(FF_WALK *w, const struct ff_step *s, const FF_WALK_MOVE *mv)
{
	const struct ff_edge_ends ends = sink_ends(w, s->id);
	FF_WALK_TASK t = sink_begin_move(w, s, mv);
	FF_WALK_DONE done;

	sink_wait_sources(w, &t, FF_PHASE_BACKWARD, s->micro, ends.to, mv);
	if (ends.parameter)
		sink_wait_late(w, &t, s);
	if (sink_move_parts(mv)->accumulate)
		sink_wait_written(w, &t, ends.value, s->micro, mv);
	done = sink_end_move(w, &t);
	sink_arrive(w, done, FF_PHASE_BACKWARD, s->micro, ends.from, mv);
	if (ends.prelude != FF_NONE)
		sink_replace(w, done, s, ends.prelude, mv);
}

static void walk_moves(FF_WALK *w, const struct ff_step *s)
{
	enum ff_pass pass = ff_phase_pass(s->phase);

	for (uint32_t i = 0; i < sink_n_moves(w, pass, s->id); i++)
		if (pass == FF_FORWARD)
			walk_forward(w, s, sink_move(w, pass, s->id, i));
		else
			walk_backward(w, s, sink_move(w, pass, s->id, i));
}

/* ---- compute ---- */

/* What is carried to the parts of `turn`; `moved` moves of each edge have been. */
static void walk_carried(FF_WALK *w, const struct ff_step *s, uint32_t turn, uint32_t *moved)
{
	const struct ff_node *n = &sink_graph(w)->nodes[s->id];
	enum ff_pass pass = ff_phase_pass(s->phase);
	struct ff_step move = {FF_STEP_MOVES, s->phase, s->micro, FF_NONE, false};

	for (uint32_t k = 0; k < n->n_carried; k++) {
		move.id = n->in + n->n_data - n->n_carried + k;
		for (; moved[k] < sink_n_moves(w, pass, move.id); moved[k]++) {
			const FF_WALK_MOVE *mv = sink_move(w, pass, move.id, moved[k]);
			FF_WALK_TASK t;

			if (ff_turn_of(sink_block(w, s->id), pass, sink_move_parts(mv)->sink[0]) >
					turn)
				break;
			t = sink_begin_move(w, &move, mv);
			sink_wait_sources(w, &t, s->phase, s->micro, s->id, mv);
			sink_arrive(w, sink_end_move(w, &t), s->phase, s->micro, s->id, mv);
		}
	}
}

static void walk_turns(FF_WALK *w, const struct ff_step *s)
{
	const struct ff_node_block *b = sink_block(w, s->id);
	enum ff_pass pass = ff_phase_pass(s->phase);
	uint32_t moved[FF_MAX_CARRIED] = {0};

	for (uint32_t i = 0; i < b->n_parts; i++) {
		uint32_t part = ff_turn_part(b, pass, i);

		walk_carried(w, s, ff_turn_of(b, pass, part), moved);
		sink_compute_part(w, s, part);
	}
}

/* A limited compute is the last of its devices. */
static void walk_note_limited(FF_WALK *w, const struct ff_step *s)
{
	const struct ff_node_block *b = sink_block(w, s->id);

	for (uint32_t part = 0; part < b->n_parts; part++) {
		FF_WALK_DONE *limited = sink_limited(w, b->device[part]);

		for (uint32_t k = FF_PREFETCH_DISTANCE - 1; k > 0; k--)
			limited[k] = limited[k - 1];
		limited[0] = sink_computed(w, s, part);
	}
}

static int walk_compute(FF_WALK *w, const struct ff_step *s, struct ff_error *err)
{
	int code = sink_begin_compute(w, s, err);

	if (code < 0)
		return code;
	if (sink_block(w, s->id)->turns.n > 1)
		walk_turns(w, s);
	else
		sink_compute_all(w, s);
	sink_end_compute(w, s);
	if (s->limited)
		walk_note_limited(w, s);
	return FF_OK;
}

/* ---- buckets ---- */

/* Weights of a flat bucket are gathered for all who read them: once for all micro-batches, or, if
 * it is dropped, for each forward, and again for what comes later. */
static void walk_gather(FF_WALK *w, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_graph *g = sink_graph(w);
	const struct ff_program *p = sink_program(w);
	const struct ff_bucketing *all = sink_buckets(w);
	const struct ff_bucket_build *b = &all->bucket[bucket];
	FF_WALK_TASK t = sink_begin_gather(w, s, bucket);
	bool again = s->phase != FF_PHASE_FORWARD;
	FF_WALK_DONE done;

	for (uint32_t d = 0; d < b->n_devices; d++)
		walk_limit(w, s, &t, b->device[d]);
	done = sink_end_bucket(w, &t);
	for (uint32_t i = b->first; i != FF_NONE; i = all->member[i].next) {
		const struct ff_value *v = &g->values[g->nodes[all->member[i].param].out];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t edge = g->uses[v->first_use + u], to = g->edges[edge].node;

			if (!again || ff_program_gathers(p, again, s->micro, to) != FF_NONE)
				sink_arrive_weights(w, done,
						again ? ff_node_reads_in(p, to) : s->phase,
						s->micro, edge, &all->member[i]);
		}
	}
}

static void walk_gathers(FF_WALK *w, const struct ff_step *s)
{
	const struct ff_bucketing *all = sink_buckets(w);
	bool again = s->phase != FF_PHASE_FORWARD;

	if (!s->limited)
		for (uint32_t i = all->first_at[s->id]; i != FF_NONE; i = all->bucket[i].next_at) {
			if (all->bucket[i].flat && !all->bucket[i].dropped)
				walk_gather(w, s, i);
		}
	else if (all->n_dropped)
		for (uint32_t i = all->first_opened[again][s->id]; i != FF_NONE;
				i = all->bucket[i].next_opened[again])
			walk_gather(w, s, i);
}

/* The gradients of a bucket are summed where they lie. */
static void walk_sync(FF_WALK *w, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_bucket_build *b = &sink_buckets(w)->bucket[bucket];
	FF_WALK_DONE done = FF_WALK_START;

	if (b->n_devices > 1 && b->synced && !sink_averages(w)) {
		FF_WALK_TASK t = sink_begin_sync(w, s, bucket);

		sink_wait_members(w, &t, bucket);
		done = sink_end_bucket(w, &t);
	}
	sink_synced(w, bucket, done);
}

static void walk_syncs(FF_WALK *w, const struct ff_step *s)
{
	const struct ff_bucketing *all = sink_buckets(w);

	for (uint32_t i = all->first_at[s->id]; i != FF_NONE; i = all->bucket[i].next_at)
		walk_sync(w, s, i);
}

/* ---- steps ---- */

static int walk_step(FF_WALK *w, const struct ff_step *s, struct ff_error *err)
{
	int code = sink_begin_step(w, s, err);

	if (code < 0)
		return code;
	switch (s->kind) {
	case FF_STEP_MOVES:
		walk_moves(w, s);
		break;
	case FF_STEP_COMPUTE:
		return walk_compute(w, s, err);
	case FF_STEP_GATHER:
		walk_gathers(w, s);
		break;
	case FF_STEP_SYNC:
		walk_syncs(w, s);
		break;
	case FF_STEP_UPDATE:
		return sink_update(w, s, err);
	}
	return FF_OK;
}
