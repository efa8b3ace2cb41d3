/* The walk over the steps of a program: which tasks a strategy has, what each waits for, and who
 * waits for it.  The rules stand once, in walk.inc; docs/schedule.md has them in words.
 *
 * A reader of the walk is a *sink* of tasks.  There are two: lowering writes a schedule
 * (graphs/lower/tasks.c), the evaluator computes times (simulator/evaluate/time.c).  A sink
 * includes this file, so that the compiler inlines sink and walk into each other: a search walks
 * for every proposal.
 *
 * Before the include a sink defines
 *   FF_WALK        its state
 *   FF_WALK_MOVE   its record of a move
 *   FF_WALK_TASK   the task that is being emitted
 *   FF_WALK_DONE   a task's completion: its number, or its time
 *   FF_WALK_START  the completion of nothing: before all tasks
 * and, before or after it, the functions `sink_...` declared here.  The walk calls them in this
 * order for every task: begin, waits, end, then who waits for it. SPDX-License-Identifier:
 * Apache-2.0 */
#include "ff/bucketing.h"

/* ---- what a sink knows ---- */

static inline const struct ff_graph *sink_graph(const FF_WALK *w);
static inline const struct ff_program *sink_program(const FF_WALK *w);
static inline bool sink_overlaps(const FF_WALK *w); /* moves run beside what is computed */
static inline bool sink_passes(const FF_WALK *w);   /* messages run beside other moves */
static inline struct ff_edge_ends sink_ends(const FF_WALK *w, uint32_t edge);
static inline const struct ff_node_block *sink_block(const FF_WALK *w, uint32_t node);
/* Local SGD: each device updates by its own gradients; none are summed. */
static inline bool sink_averages(const FF_WALK *w);
/* All buckets; those that are not synced may be among them. */
static inline const struct ff_bucketing *sink_buckets(const FF_WALK *w);
static inline uint32_t sink_n_moves(const FF_WALK *w, enum ff_pass pass, uint32_t edge);
static inline const FF_WALK_MOVE *sink_move(
		const FF_WALK *w, enum ff_pass pass, uint32_t edge, uint32_t i);
static inline const struct ff_move *sink_move_parts(const FF_WALK_MOVE *mv);
/* Whether other edges read what is moved at `edge`; whether `other` does. */
static inline bool sink_is_shared(const FF_WALK *w, uint32_t edge);
static inline bool sink_shares(const FF_WALK *w, uint32_t edge, uint32_t other);
/* Completions of the last FF_PREFETCH_DISTANCE limited computes of `device`, the latest first. */
static inline FF_WALK_DONE *sink_limited(FF_WALK *w, uint32_t device);
/* The completion of a part that step `s` has computed. */
static inline FF_WALK_DONE sink_computed(const FF_WALK *w, const struct ff_step *s, uint32_t part);

/* ---- emitting a task ---- */

/* Prepares for step `s`. */
static inline int sink_begin_step(FF_WALK *w, const struct ff_step *s, struct ff_error *err);
static inline FF_WALK_TASK sink_begin_move(
		FF_WALK *w, const struct ff_step *s, const FF_WALK_MOVE *mv);
static inline FF_WALK_TASK sink_begin_sync(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
/* After a sync within groups of devices: the all-reduce of their sums between the groups. */
static inline FF_WALK_TASK sink_begin_across(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
static inline FF_WALK_TASK sink_begin_gather(FF_WALK *w, const struct ff_step *s, uint32_t bucket);
/* The task waits for `done`. */
static inline void sink_wait(FF_WALK *w, FF_WALK_TASK *t, FF_WALK_DONE done);
/* ... for the parts of `node`, computed in `phase`, that are sources of the move. */
static inline void sink_wait_sources(FF_WALK *w, FF_WALK_TASK *t, enum ff_phase phase,
		uint32_t micro, uint32_t node, const FF_WALK_MOVE *mv);
/* ... for the delayed gradients, of an earlier step, that the move sends. */
static inline void sink_wait_late(FF_WALK *w, FF_WALK_TASK *t, const struct ff_step *s);
/* ... for the gradient of `value` that the move adds to.  Either the first reader in backward's
 * order computes it in place, or a move on another lane brings it; then also for all that has
 * arrived for the backward of the value's producer. */
static inline void sink_wait_written(FF_WALK *w, FF_WALK_TASK *t, uint32_t value, uint32_t micro,
		const FF_WALK_MOVE *mv);
/* ... for the gradients of all members of a bucket that `s` synchronises, on all its devices. */
static inline void sink_wait_members(
		FF_WALK *w, FF_WALK_TASK *t, const struct ff_step *s, uint32_t bucket);
static inline FF_WALK_DONE sink_end_move(FF_WALK *w, FF_WALK_TASK *t);
static inline FF_WALK_DONE sink_end_bucket(FF_WALK *w, FF_WALK_TASK *t);

static inline int sink_begin_compute(FF_WALK *w, const struct ff_step *s, struct ff_error *err);
/* All parts of step `s`, in parallel. */
static inline void sink_compute_all(FF_WALK *w, const struct ff_step *s);
/* One part of those that run one after another (carried state). */
static inline void sink_compute_part(FF_WALK *w, const struct ff_step *s, uint32_t part);
static inline void sink_end_compute(FF_WALK *w, const struct ff_step *s);
/* The norm of all gradients and the updates: ff/walk_updates.h. */
static inline int sink_update(FF_WALK *w, const struct ff_step *s, struct ff_error *err);

/* ---- who waits for it ---- */

/* The parts of `node` that are sinks of the move wait, in `phase`; of a parameter, backward, its
 * update waits. */
static inline void sink_arrive(FF_WALK *w, FF_WALK_DONE done, enum ff_phase phase, uint32_t micro,
		uint32_t node, const FF_WALK_MOVE *mv);
/* The update of a parameter waits, on the parts that are sources of the move. */
static inline void sink_leave(
		FF_WALK *w, FF_WALK_DONE done, uint32_t param, const FF_WALK_MOVE *mv);
/* The backward of `prelude`, the producer of the value at the edge of `s`, waits, and so does
 * whatever is added in place to that value's gradient at the move's sources. */
static inline void sink_replace(FF_WALK *w, FF_WALK_DONE done, const struct ff_step *s,
		uint32_t prelude, const FF_WALK_MOVE *mv);
/* The node that reads weights over `edge` waits, in `phase`: its parts that read member `m`. */
static inline void sink_arrive_weights(FF_WALK *w, FF_WALK_DONE done, enum ff_phase phase,
		uint32_t micro, uint32_t edge, const struct ff_bucket_member *m);
/* All that wait for the summed gradients of a bucket; FF_WALK_START: they need not be summed. */
static inline void sink_synced(FF_WALK *w, uint32_t bucket, FF_WALK_DONE done);

#include "ff/walk.inc"
