/* The walk over the steps of a program: which tasks a strategy has, what each of them waits for,
 * and who waits for it.  These rules stand once, in walk.inc; here is what they ask of a reader,
 * who includes this file: ff_lower makes a schedule of the walk (graphs/lower/tasks.c), the
 * evaluator makes times of it (simulator/evaluate/time.c).  It is included, not called, so that the
 * compiler merges it with its reader: a search makes this walk for every proposal.
 * docs/schedule.md tells the rules in words.
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
#include "ff/bucketing.h"

/* ---- what a sink knows ---- */

static inline const struct ff_graph *sink_graph(const FF_WALK *w);
static inline const struct ff_program *sink_program(const FF_WALK *w);
static inline bool sink_overlaps(const FF_WALK *w); /* moves run beside what is computed */
static inline bool sink_passes(const FF_WALK *w);   /* messages run beside other moves */
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
/* Behind that, of groups of devices: what each has summed, summed among all. */
static inline FF_WALK_TASK sink_begin_across(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
static inline FF_WALK_TASK sink_begin_gather(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
/* The task waits until `done`. */
static inline void sink_wait(FF_WALK *w, FF_WALK_TASK *t, FF_WALK_DONE done);
/* ... for the parts of `node` that the move takes from, as `phase` has computed them. */
static inline void sink_wait_sources(FF_WALK *w, FF_WALK_TASK *t, enum ff_phase phase,
		uint32_t micro, uint32_t node, const FF_WALK_MOVE *mv);
/* ... for gradients of an earlier step that the move takes, where some are late. */
static inline void sink_wait_late(FF_WALK *w, FF_WALK_TASK *t, const struct ff_step *s);
/* ... for the gradient of `value` that the move adds to: made in place by the reader that backward
 * comes to first, or moved there by another lane, with all that has arrived for backward of who
 * made the value. */
static inline void sink_wait_written(FF_WALK *w, FF_WALK_TASK *t, uint32_t value, uint32_t micro,
		const FF_WALK_MOVE *mv);
/* ... for the gradients of all members of a bucket that `s` sums, on all of its devices. */
static inline void sink_wait_members(
		FF_WALK *w, FF_WALK_TASK *t, const struct ff_step *s, uint32_t bucket);
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
/* Backward of `prelude`, which makes the value at the edge of `s`, and whatever is added to that
 * value's gradient in place where the move takes it. */
static inline void sink_replace(FF_WALK *w, FF_WALK_DONE done, const struct ff_step *s,
		uint32_t prelude, const FF_WALK_MOVE *mv);
/* What `phase` computes of the node that reads weights over `edge`, of its parts those that read
 * the ones of member `m`. */
static inline void sink_arrive_weights(FF_WALK *w, FF_WALK_DONE done, enum ff_phase phase,
		uint32_t micro, uint32_t edge, const struct ff_bucket_member *m);
/* Who waits for the gradients of a bucket, once they are summed; FF_WALK_START: nobody sums. */
static inline void sink_synced(FF_WALK *w, uint32_t bucket, FF_WALK_DONE done);

#include "ff/walk.inc"
